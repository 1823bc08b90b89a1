//! S1 to S3 and S5: write and scan costs of a VT-tree, by the threshold f above which leaves are
//! stitched without being read.

use super::harness::{BATCH, KEY, LevelsStore, StoreSizing, key, line, mb_s};
use super::separate_values;
use crate::entry::{AxisPosition, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{MeasurementSet, name};
use alluvium::LevelsOptions;
use anyhow::Result;

const INSERTS: &str = "inserts";
const SCANS: &str = "scans";

/// Number of runs merged at once.
pub(super) const K: u32 = 4;
/// The document's largest threshold, which copies everything.
pub(super) const COPY_ALL: &str = "copy all";
const NEVER: &str = "no merges";
pub(super) const F0: &str = "f = 0";
pub(super) const F3: &str = "f = 3";
pub(super) const F15: &str = "f = 15";

/// Bytes of a value; a page holds one pair, as in the document.
pub(super) const PAGE_VALUE: usize = 3800;
const SMALL_VALUE: usize = 48;

fn levels(threshold: &str) -> LevelsOptions {
    let samt = LevelsOptions::samt(K);
    match threshold {
        F0 => samt.stitch(0),
        F3 => samt.stitch(3),
        F15 => samt.stitch(15),
        NEVER => LevelsOptions::never(),
        _ => samt,
    }
}

/// Returns the number of units and the number of appends to each, in the document's ratio of 2,040
/// to 1,280. The units are a multiple of a commit, so that a memtable has each unit once.
fn units(records: u64) -> (u64, u64) {
    let units = (records as f64 * 2040.0 / 1280.0).sqrt();
    let commits = (units / BATCH as f64).round() as u64 * BATCH;
    let units = if commits > 0 {
        commits
    } else {
        units.max(1.0) as u64
    };
    (units, (records / units).max(1))
}

/// Returns the numbers below `count`, each once, in pseudo-random order.
pub(super) fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut all: Vec<u64> = (0..count).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut all);
    all
}

/// Loads and scans a store for each threshold.
fn each_threshold(
    thresholds: &[&'static str],
    shape: StoreSizing,
    records: u64,
    keys: impl Fn() -> Box<dyn Iterator<Item = [u8; KEY]>>,
) -> Result<MeasurementSet> {
    let shape = shape.with_memory(records);
    let (mut inserts, mut scans) = (Vec::new(), Vec::new());
    for &threshold in thresholds {
        let store = LevelsStore::new(shape, &levels(threshold))?;
        let (count, took) = store.load(keys())?;
        inserts.push((name(threshold), mb_s(count * shape.record_bytes(), took)));
        let (bytes, took) = store.reopen()?.scan(records)?;
        scans.push((name(threshold), mb_s(bytes, took)));
    }
    Ok(MeasurementSet {
        counts: vec![line(INSERTS, "Alluvium", inserts), line(SCANS, "Alluvium", scans)],
        ..MeasurementSet::default()
    })
}

/// A workload: shape of the store, number of records, and their keys.
pub(super) type StitchWorkload = (StoreSizing, u64, Box<dyn Fn() -> KeyStream>);
type KeyStream = Box<dyn Iterator<Item = [u8; KEY]>>;

/// Appends to one unit after the other, in pseudo-random order.
pub(super) fn appends(records: u64) -> StitchWorkload {
    let (units, passes) = units(records);
    let pass = move |pass| shuffled(units, pass).into_iter().map(move |unit| key(unit, pass));
    let keys = move || Box::new((0..passes).flat_map(pass)) as KeyStream;
    (StoreSizing::of(units, PAGE_VALUE), units * passes, Box::new(keys))
}

fn random_append(records: u64) -> Result<MeasurementSet> {
    let (shape, count, keys) = appends(records);
    each_threshold(&[F0, F3, F15, COPY_ALL, NEVER], shape, count, keys)
}

/// Ratio of a run's records to a memtable's: the document's runs have 16,384 pairs, or eight
/// memtables.
const RUN_TIMES: u64 = 8;

/// Long sequences whose key ranges do not overlap.
pub(super) fn sequences(records: u64) -> StitchWorkload {
    let (units, _) = units(records);
    let run = (units * RUN_TIMES).min(records);
    let runs = (records / run).max(1);
    let places = move |unit| (0..run).map(move |place| key(unit, place));
    let keys = move || Box::new(shuffled(runs, 2).into_iter().flat_map(places)) as KeyStream;
    (StoreSizing::of(units, PAGE_VALUE), run * runs, Box::new(keys))
}

fn sequential(records: u64) -> Result<MeasurementSet> {
    let (shape, count, keys) = sequences(records);
    each_threshold(&[F0, F15, COPY_ALL, NEVER], shape, count, keys)
}

fn random_insertion(records: u64) -> Result<MeasurementSet> {
    let (units, _) = units(records);
    let shape = StoreSizing::of(units, PAGE_VALUE).with_memory(records);
    let mut counts = Vec::new();
    for threshold in [F0, F15, COPY_ALL] {
        let mut points = Vec::new();
        for cluster in [1u64, 4, 16] {
            let store = LevelsStore::new(shape, &levels(threshold))?;
            let clusters = (records / cluster).max(1);
            let places = move |at: u64| (0..cluster).map(move |place| key(at * cluster + place, 0));
            let (count, took) = store.load(shuffled(clusters, 3).into_iter().flat_map(places))?;
            points.push((
                AxisPosition::Number(cluster as f64),
                mb_s(count * shape.record_bytes(), took),
            ));
        }
        counts.push(line(INSERTS, threshold, points));
    }
    Ok(MeasurementSet {
        counts,
        ..MeasurementSet::default()
    })
}

/// Length of a sequence of small pairs; each belongs to one unit.
const SEQUENCE: u64 = 64;

fn small_tuples(records: u64) -> Result<MeasurementSet> {
    let (units, passes) = units((records / SEQUENCE).max(1));
    let shape = StoreSizing::of(units * SEQUENCE, SMALL_VALUE);
    let all = [F0, F3, F15, COPY_ALL];
    let measured = each_threshold(&all, shape, units * passes * SEQUENCE, || {
        let sequence = |unit, pass| (0..SEQUENCE).map(move |place| key(unit, pass * SEQUENCE + place));
        let pass = move |pass| {
            shuffled(units, pass)
                .into_iter()
                .flat_map(move |unit| sequence(unit, pass))
        };
        Box::new((0..passes).flat_map(pass))
    })?;
    separate_values::beside(measured, records)
}

const INSERTED: fn(&MeasurementSet) -> Vec<crate::measurements::FigureSeries> =
    |measured| measured.series_with_prefix(INSERTS);
const SCANNED: fn(&MeasurementSet) -> Vec<crate::measurements::FigureSeries> =
    |measured| measured.series_with_prefix(SCANS);

pub(super) const S1: MeasurementProcedure = MeasurementProcedure {
    id: "seed-3/S1",
    ours: &[("appends", INSERTED), ("scans afterwards", SCANNED)],
    work: ExperimentMethod::Here {
        quick: 20_000,
        full: 2_611_200,
        most: 1 << 24,
        measure: random_append,
    },
};

pub(super) const S2: MeasurementProcedure = MeasurementProcedure {
    id: "seed-3/S2",
    ours: &[("inserts", INSERTED), ("scans afterwards", SCANNED)],
    work: ExperimentMethod::Here {
        quick: 20_000,
        full: 2_611_200,
        most: 1 << 24,
        measure: sequential,
    },
};

pub(super) const S3: MeasurementProcedure = MeasurementProcedure {
    id: "seed-3/S3",
    ours: &[("inserts", INSERTED)],
    work: ExperimentMethod::Here {
        quick: 10_000,
        full: 1_000_000,
        most: 1 << 24,
        measure: random_insertion,
    },
};

pub(super) const S5: MeasurementProcedure = MeasurementProcedure {
    id: "seed-3/S5",
    ours: &[
        ("appends", INSERTED),
        ("scans afterwards", SCANNED),
        separate_values::WRITES,
        separate_values::SEEKS,
        separate_values::LONG_WRITES,
        separate_values::LONG_SEEKS,
    ],
    work: ExperimentMethod::Here {
        quick: 400_000,
        full: 40_000_000,
        most: 1 << 28,
        measure: small_tuples,
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_passes_have_the_ratio_of_the_document() {
        assert_eq!(units(2040 * 1280), (2040, 1280));
        for records in [1, 10, 2000, 20_000] {
            let (units, passes) = units(records);
            assert!(
                units * passes <= records.max(1) && units * passes * 2 > records,
                "{records}"
            );
        }
    }

    /// Leaves of different runs have keys between each other's bounds in the index, but do not
    /// overlap; stitching therefore depends only on f.
    #[test]
    fn appends_at_random_places_write_the_less_the_smaller_the_threshold() {
        let (shape, _, keys) = appends(16_000);
        let written = [F0, F3, F15, COPY_ALL].map(|threshold| {
            let store = LevelsStore::new(shape, &levels(threshold)).unwrap();
            store.load(keys()).unwrap();
            store.amplification()
        });
        println!("{written:?}");
        assert!(written[0] < 1.3, "{written:?}");
        assert!(
            written.windows(2).all(|pair| pair[0] * 1.1 < pair[1]),
            "{written:?}"
        );
    }

    #[test]
    fn every_experiment_of_stitching_is_measured_at_a_small_size() {
        for experiment in [&S1, &S2, &S3, &S5] {
            let ExperimentMethod::Here { measure, .. } = experiment.work else {
                panic!("{}", experiment.id);
            };
            let measured = measure(600).unwrap();
            for line in &measured.counts {
                assert!(line.points.len() >= 3, "{}: {line:?}", experiment.id);
                // A scan may have no jumps.
                let least = if line.name.starts_with("jumps") { -1.0 } else { 0.0 };
                assert!(line.points.iter().all(|spot| spot.value > least), "{line:?}");
            }
        }
    }
}
