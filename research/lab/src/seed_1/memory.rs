//! S6, S7 and S14: memory per entry, and reads per lookup.

use super::harness::{at_name, line, lines};
use super::hashed_store::{self, StoreMeasurements};
use super::silt::{SET, SiltStore, proportioned, steady};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigureSeries, MeasurementSet};
use alluvium::HashedOptions;
use anyhow::Result;

const MEMORY: &str = "memory";
const READS: &str = "reads";
const WRITES: &str = "writes";
const TIMES: &str = "times";

pub(super) const S6: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/S6",
    ours: &[("memory", |measured| lines(measured, MEMORY))],
    work: ExperimentMethod::Here {
        quick: 100_000,
        full: 20_000_000,
        most: 100_000_000,
        measure: memory,
    },
};

pub(super) const S7: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/S7",
    ours: &[("memory against that of all stores", |measured| {
        lines(measured, TIMES)
    })],
    work: ExperimentMethod::Here {
        quick: 60_000,
        full: 4_000_000,
        most: 25_000_000,
        measure: without,
    },
};

pub(super) const S14: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/S14",
    ours: &[
        ("memory", |measured| lines(measured, MEMORY)),
        ("reads of a lookup", |measured| lines(measured, READS)),
        ("bytes written", |measured| lines(measured, WRITES)),
    ],
    work: ExperimentMethod::Here {
        quick: 100_000,
        full: 20_000_000,
        most: 100_000_000,
        measure: memory,
    },
};

fn of_ours(name: &str, ours: &StoreMeasurements) -> [FigureSeries; 3] {
    [
        line(
            MEMORY,
            name,
            vec![
                at_name("on average", ours.memory_bytes),
                at_name("at most", ours.most_memory_bytes),
                at_name("at rest", ours.rest_memory_bytes),
            ],
        ),
        line(
            READS,
            name,
            vec![
                at_name("on average", ours.busy_hit_pages),
                at_name("at rest", ours.hit_pages),
                at_name("at rest, absent", ours.miss_pages),
            ],
        ),
        line(
            WRITES,
            name,
            vec![at_name("on average", ours.write_amplification)],
        ),
    ]
}

fn memory(count: u64) -> Result<MeasurementSet> {
    let (shape, keys) = proportioned(count, SET)?;
    let silt = steady(keys, shape, SET)?;
    let mut counts = vec![
        line(
            MEMORY,
            "SILT",
            vec![
                at_name("on average", silt.memory_bytes),
                at_name("at most", silt.most_memory_bytes),
            ],
        ),
        line(READS, "SILT", vec![at_name("on average", silt.reads)]),
        line(
            WRITES,
            "SILT",
            vec![at_name("on average", silt.write_amplification)],
        ),
    ];
    for (name, index) in [
        ("alluvium, PaCHash", HashedOptions::pachash()),
        ("alluvium, trie", HashedOptions::trie()),
    ] {
        counts.extend(of_ours(name, &hashed_store::measure(count, index)?));
    }
    Ok(MeasurementSet {
        counts,
        ..MeasurementSet::default()
    })
}

/// Memory of stores that never merge, that merge after each log, and that merge as the document's
/// do.
fn without(count: u64) -> Result<MeasurementSet> {
    let (shape, keys) = proportioned(count, SET)?;
    let filled = |set: u64| -> Result<SiltStore> {
        let mut silt = SiltStore::new(shape, set);
        (0..keys).try_for_each(|key| silt.put(key))?;
        Ok(silt)
    };
    let hash = filled(u64::MAX)?;
    // One table for each log that would remain, with the load of a full table.
    let slots = f64::from(shape.slots());
    let load = hash.counted.loads / hash.counted.tables as f64;
    let log = 6.0 * keys as f64 / load;
    let mut sorted = filled(1)?;
    sorted.freeze()?;
    let all = {
        let mut silt = filled(SET)?;
        // On average, half a set of hash stores exists.
        while silt.hash_stores() < SET / 2 {
            silt.freeze()?;
        }
        silt.memory_bytes() as f64
    };
    let points = vec![
        at_name("log", log.max(6.0 * slots) / all),
        at_name("log and hash", hash.memory_bytes() as f64 / all),
        at_name("log and sorted", sorted.memory_bytes() as f64 / all),
        at_name("all", 1.0),
    ];
    Ok(MeasurementSet {
        counts: vec![line(TIMES, "SILT", points)],
        ..MeasurementSet::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_stores_take_more_memory() {
        let times = lines(&without(30_000).unwrap(), TIMES).remove(0).points;
        let of = |name: &str| {
            times
                .iter()
                .find(|point| point.at.to_string() == name)
                .unwrap()
                .value
        };
        assert!((7.0..12.0).contains(&of("log")), "{times:?}");
        assert!((2.0..5.0).contains(&of("log and hash")), "{times:?}");
        assert!(of("log and sorted") < 1.5, "{times:?}");
    }
}
