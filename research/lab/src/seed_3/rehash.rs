//! S9: the benefit of stitching when the filters of merged runs are built from keys, as Bloom
//! filters are, so that a merge must read the leaves that it stitches.

use super::harness::{LevelsStore, line, mb_s};
use super::stitching::{COPY_ALL, K, StitchWorkload, appends, sequences};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::{MeasurementSet, name};
use alluvium::LevelsOptions;
use anyhow::Result;

const MERGED: &str = "f = 0, filters merged";
const REHASHED: &str = "f = 0, keys rehashed";
const WAYS: [&str; 3] = [MERGED, REHASHED, COPY_ALL];

const SEQUENCES: &str = "long sequences";
const APPENDS: &str = "appends at random places";
const INSERTS: &str = "inserts";
const READ: &str = "read";
const WRITTEN: &str = "written";

/// Loads a store with each configuration.
fn each_way(measured: &mut MeasurementSet, of: &str, (shape, _, keys): &StitchWorkload) -> Result<()> {
    let (mut inserts, mut read, mut written) = (Vec::new(), Vec::new(), Vec::new());
    for way in WAYS {
        let levels = LevelsOptions::samt(K);
        let (shape, levels) = match way {
            MERGED => (*shape, levels.stitch(0)),
            REHASHED => (shape.rehashed(), levels.stitch(0)),
            _ => (*shape, levels),
        };
        let store = LevelsStore::new(shape, &levels)?;
        let (count, took) = store.load(keys())?;
        inserts.push((name(way), mb_s(count * shape.record_bytes(), took)));
        read.push((name(way), store.read_by_merges()));
        written.push((name(way), store.amplification()));
    }
    for (what, points) in [(INSERTS, inserts), (READ, read), (WRITTEN, written)] {
        measured
            .counts
            .push(line(&format!("{what} of {of}"), "Alluvium", points));
    }
    Ok(())
}

fn measure(records: u64) -> Result<MeasurementSet> {
    let mut measured = MeasurementSet::default();
    each_way(&mut measured, SEQUENCES, &sequences(records))?;
    each_way(&mut measured, APPENDS, &appends(records))?;
    Ok(measured)
}

pub(super) const S9: MeasurementProcedure = MeasurementProcedure {
    id: "seed-3/S9",
    ours: &[
        ("inserts, long sequences", |measured| {
            measured.series_with_prefix("inserts of long sequences")
        }),
        ("bytes read by merges, long sequences", |measured| {
            measured.series_with_prefix("read of long sequences")
        }),
        ("bytes written, long sequences", |measured| {
            measured.series_with_prefix("written of long sequences")
        }),
        ("appends at random places", |measured| {
            measured.series_with_prefix("inserts of appends at random places")
        }),
        ("bytes read by merges, appends at random places", |measured| {
            measured.series_with_prefix("read of appends at random places")
        }),
        ("bytes written, appends at random places", |measured| {
            measured.series_with_prefix("written of appends at random places")
        }),
    ],
    work: ExperimentMethod::Here {
        quick: 20_000,
        full: 2_611_200,
        most: 1 << 24,
        measure,
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rehashing_reads_what_copying_reads_and_writes_what_stitching_writes() {
        let measured = measure(4000).unwrap();
        for workload in [SEQUENCES, APPENDS] {
            let of = |what: &str| {
                let lines = measured.series_with_prefix(&format!("{what} of {workload}"));
                let points: Vec<f64> = lines[0].points.iter().map(|spot| spot.value).collect();
                points
            };
            let (read, written) = (of(READ), of(WRITTEN));
            println!("{workload}: read {read:?}, written {written:?}");
            assert!(read[0] * 10.0 < read[1], "{workload}: keys are read, {read:?}");
            assert!(read[1] > read[2] * 0.8, "{workload}: nearly all, {read:?}");
            let same = (written[0] - written[1]).abs() < written[0] * 0.02;
            assert!(same && written[1] * 2.0 < written[2], "{workload}: {written:?}");
        }
    }
}
