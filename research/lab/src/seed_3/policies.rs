//! G3 and G4: the number of runs merged at once, compared with a COLA; and pairs of all sizes.
//!
//! The document's Cassandra merges as our SAMT does, and its HBase as a COLA with a ratio of 3. G4
//! does without merges, and compares insert throughput with the device's append throughput.

use super::harness::{KEY, LevelsStore, StoreSizing, key, line, mb_s, per_second};
use super::stitching::shuffled;
use crate::entry::{AxisPosition, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{MeasurementSet, name};
use crate::scratch::ScratchDirectory;
use alluvium::LevelsOptions;
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, Directory, FileOptions};
use anyhow::Result;
use std::time::{Duration, Instant};

const INSERTS: &str = "inserts";
const LOOKUPS: &str = "lookups";
const WRITTEN: &str = "written";
const SLOWDOWN: &str = "slowdown";

pub(super) const K4: &str = "SAMT, K = 4";
pub(super) const K8: &str = "SAMT, K = 8";
pub(super) const K64: &str = "SAMT, K = 64";
pub(super) const HBASE: &str = "COLA, R = 3";

/// Bytes of a value in G3; a pair has 1 KiB.
const VALUE: usize = 1008;
/// Number of memtables in G3's data.
const MEMTABLES: u64 = 160;
const MOST_LOOKUPS: u64 = 20_000;

pub(super) const G3: MeasurementProcedure = MeasurementProcedure {
    id: "seed-3/G3",
    ours: &[
        ("inserts", |measured| measured.series_with_prefix(INSERTS)),
        ("bytes written", |measured| measured.series_with_prefix(WRITTEN)),
        ("lookups of keys that are there", |measured| {
            measured.series_with_prefix(LOOKUPS)
        }),
    ],
    work: ExperimentMethod::Here {
        quick: 40_000,
        full: 20_000_000,
        most: 1 << 28,
        measure: fanouts,
    },
};

pub(super) const G4: MeasurementProcedure = MeasurementProcedure {
    id: "seed-3/G4",
    ours: &[("slowdown against appends", |measured| {
        measured.series_with_prefix(SLOWDOWN)
    })],
    work: ExperimentMethod::Here {
        quick: 20_000,
        full: 2_000_000,
        most: 1 << 28,
        measure: sizes,
    },
};

fn fanouts(records: u64) -> Result<MeasurementSet> {
    let shape = StoreSizing::of((records / MEMTABLES).max(16), VALUE);
    let order = shuffled(records, 1);
    let mut random = fastrand::Rng::with_seed(2);
    let asked: Vec<[u8; KEY]> = (0..records.min(MOST_LOOKUPS))
        .map(|_| key(random.u64(..records), 0))
        .collect();
    let (mut inserts, mut written, mut lookups) = (Vec::new(), Vec::new(), Vec::new());
    for (place, levels) in [
        (K4, LevelsOptions::samt(4)),
        (K8, LevelsOptions::samt(8)),
        (K64, LevelsOptions::samt(64)),
        (HBASE, LevelsOptions::cola(3)),
    ] {
        let store = LevelsStore::new(shape, &levels)?;
        let (count, took) = store.load(order.iter().map(|&number| key(number, 0)))?;
        inserts.push((name(place), per_second(count, took)));
        written.push((name(place), store.amplification()));
        let took = store.reopen()?.look(&asked)?;
        lookups.push((name(place), per_second(asked.len() as u64, took)));
    }
    Ok(MeasurementSet {
        counts: vec![
            line(INSERTS, "Alluvium", inserts),
            line(WRITTEN, "Alluvium", written),
            line(LOOKUPS, "Alluvium", lookups),
        ],
        ..MeasurementSet::default()
    })
}

/// Sizes of a pair in bytes.
const PAIRS: [u64; 6] = [64, 512, 4 << 10, 32 << 10, 128 << 10, 512 << 10];
/// Bytes written for each record, at every pair size; enough for several memtables.
const BYTES: u64 = 2048;
const APPEND: usize = 1 << 20;

/// Appends `bytes` bytes to a file, 1 MiB at a time.
fn append(bytes: u64) -> Result<Duration> {
    let scratch = ScratchDirectory::new()?;
    let file = scratch.directory.create("appended", FileOptions::DIRECT)?;
    let span = bytes.next_multiple_of(APPEND as u64);
    file.grow(span)?;
    let started = Instant::now();
    for offset in (0..span).step_by(APPEND) {
        file.write_at(offset, AlignedBuffer::zeroed(APPEND), Purpose::Other)?;
    }
    Ok(started.elapsed())
}

fn sizes(records: u64) -> Result<MeasurementSet> {
    let total = (records * BYTES).max(1 << 20);
    let appended = mb_s(total.next_multiple_of(APPEND as u64), append(total)?);
    let mut points = Vec::new();
    for pair in PAIRS {
        let value_bytes = pair as usize - KEY;
        let count = (total / pair).max(1);
        let shape = StoreSizing::of((count / 16).max(1), value_bytes);
        let store = LevelsStore::new(shape, &LevelsOptions::never())?;
        let keys = shuffled(count, pair).into_iter().map(|number| key(number, 0));
        let (count, took) = store.load(keys)?;
        let rate = mb_s(count * pair, took);
        points.push((AxisPosition::Number(pair as f64), appended / rate.max(1e-9)));
    }
    Ok(MeasurementSet {
        counts: vec![line(SLOWDOWN, "Alluvium", points)],
        ..MeasurementSet::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_runs_at_once_are_written_less_often() {
        let measured = fanouts(3000).unwrap();
        let written = &measured.series_with_prefix(WRITTEN)[0].points;
        let of = |place: usize| written[place].value;
        println!("{written:?}");
        assert!(of(0) > of(1) && of(1) > of(2), "K = 4, 8, 64: {written:?}");
        assert!(
            of(3) > of(1),
            "a COLA writes more than a SAMT with K = 8: {written:?}"
        );
        assert!(
            measured.series_with_prefix(LOOKUPS)[0]
                .points
                .iter()
                .all(|spot| spot.value > 0.0)
        );
    }

    #[test]
    fn pairs_of_every_size_are_inserted() {
        let measured = sizes(600).unwrap();
        let points = &measured.series_with_prefix(SLOWDOWN)[0].points;
        assert_eq!(points.len(), PAIRS.len());
        assert!(points.iter().all(|spot| spot.value > 0.0), "{points:?}");
    }
}
