//! S4: lookups in levels with and without merges.

use super::harness::{KEY, LevelsStore, StoreSizing, key, line, per_second};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::{MeasurementSet, name};
use alluvium::LevelsOptions;
use anyhow::Result;

const LOOKUPS: &str = "lookups";
const MERGED: &str = "merged";
const NEVER: &str = "not merged";
const STITCHED: &str = "merged, f = 0";
const VALUE: usize = 3800;
/// Maximum number of lookups. Smaller stores have one lookup for each record.
const MOST_LOOKUPS: u64 = 100_000;
/// Number of memtables in the document's 10 GB.
const EVICTIONS: u64 = 1280;

pub(super) const S4: MeasurementProcedure = MeasurementProcedure {
    id: "seed-3/S4",
    ours: &[("lookups of keys that are there", |measured| {
        measured.series_with_prefix(LOOKUPS)
    })],
    work: ExperimentMethod::Here {
        quick: 20_000,
        full: 2_611_200,
        most: 1 << 24,
        measure,
    },
};

fn measure(records: u64) -> Result<MeasurementSet> {
    let shape = StoreSizing::of((records / EVICTIONS).max(16), VALUE);
    let mut order: Vec<u64> = (0..records).collect();
    fastrand::Rng::with_seed(4).shuffle(&mut order);
    let mut random = fastrand::Rng::with_seed(5);
    let asked: Vec<[u8; KEY]> = (0..records.min(MOST_LOOKUPS))
        .map(|_| key(random.u64(..records), 0))
        .collect();
    let mut points = Vec::new();
    for (place, levels) in [
        (MERGED, LevelsOptions::samt(4)),
        (STITCHED, LevelsOptions::samt(4).stitch(0)),
        (NEVER, LevelsOptions::never()),
    ] {
        let store = LevelsStore::new(shape, &levels)?;
        store.load(order.iter().map(|&number| key(number, 0)))?;
        let took = store.reopen()?.look(&asked)?;
        points.push((name(place), per_second(asked.len() as u64, took)));
    }
    Ok(MeasurementSet {
        counts: vec![line(LOOKUPS, "Alluvium", points)],
        ..MeasurementSet::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_found_in_each_kind_of_levels() {
        let measured = measure(400).unwrap();
        assert_eq!(measured.series_with_prefix(LOOKUPS)[0].points.len(), 3);
    }
}
