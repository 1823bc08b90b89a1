//! E1, E2 and E8: the throughput of index construction.

use super::harness::{
    LARGE, LEAST_MEMORY, RecordSizes, SMALL, ScratchDirectory, at_name, at_number, line, lines, thousands,
};
use super::perfect;
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::MeasurementSet;
use alluvium_hashes::index::{StaticIndex, StaticIndexKind};
use anyhow::Result;

const RATE: &str = "rate";
const BUFFER: &str = "buffer";
const SIZE: &str = "size";
const BITS: &str = "bits";

/// Ratio of data to memory: 16 GiB to 4 GiB.
const DATA_TO_MEMORY: u64 = 4;

pub(super) const E1: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/E1",
    ours: &[
        ("keys a second", |measured| lines(measured, RATE)),
        ("keys a second by memory", |measured| lines(measured, BUFFER)),
    ],
    work: ExperimentMethod::Here {
        quick: 30_000,
        full: 4_000_000,
        most: 20_000_000,
        measure: |count| rates(LARGE, count, &[1.0 / 64.0, 1.0 / 16.0, 0.25]),
    },
};

pub(super) const E8: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/E8",
    ours: &[
        ("keys a second", |measured| lines(measured, RATE)),
        ("size", |measured| lines(measured, BITS)),
    ],
    work: ExperimentMethod::Here {
        quick: 200_000,
        full: 100_000_000,
        most: 1_000_000_000,
        measure: |count| rates(SMALL, count, &[0.25]),
    },
};

pub(super) const E2: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/E2",
    ours: &[("speed against that of the largest size", |measured| {
        lines(measured, SIZE)
    })],
    work: ExperimentMethod::Here {
        quick: 40_000,
        full: 4_000_000,
        most: 20_000_000,
        measure: sizes,
    },
};

/// Measures the build with memory for each of these fractions of the data. Also builds perfect
/// hashes, with the document's ratio of memory, for comparison with the last fraction.
fn rates(records: RecordSizes, count: u64, parts: &[f64]) -> Result<MeasurementSet> {
    let bytes = records.bytes(count);
    let (mut sweep, mut bits) = (Vec::new(), Vec::new());
    let mut rate = 0.0;
    for &part in parts {
        let scratch = ScratchDirectory::new()?;
        let memory = ((bytes as f64 * part) as u64).max(LEAST_MEMORY);
        rate = thousands(
            count,
            records.build(&scratch, count, records.options(StaticIndexKind::Dense, memory))?,
        );
        sweep.push(at_number(memory as f64 / bytes as f64, rate));
        if bits.is_empty() {
            let stat = StaticIndex::open(&*scratch.directory, super::harness::NAME)?.stat();
            bits.push(at_name("tries", stat.bits_per_key));
        }
    }
    let scratch = ScratchDirectory::new()?;
    let perfect = perfect::build(records, &scratch, count, bytes / DATA_TO_MEMORY)?;
    bits.push(at_name(
        "perfect hashes",
        perfect.index.len() as f64 * 8.0 / count as f64,
    ));
    let perfect = thousands(count, perfect.took);
    Ok(MeasurementSet {
        counts: vec![
            line(RATE, "tries", vec![at_name("1 core", rate)]),
            line(
                RATE,
                "perfect hashes after sorting",
                vec![at_name("1 core", perfect)],
            ),
            line(BUFFER, "tries", sweep),
            line(BITS, "alluvium", bits),
        ],
        ..MeasurementSet::default()
    })
}

fn sizes(count: u64) -> Result<MeasurementSet> {
    let memory = LARGE.bytes(count) / DATA_TO_MEMORY;
    let mut rates = Vec::new();
    for part in 1..=4u64 {
        let scratch = ScratchDirectory::new()?;
        let count = (count * part / 4).max(1);
        let took = LARGE.build(&scratch, count, LARGE.options(StaticIndexKind::Dense, memory))?;
        rates.push((part as f64 / 4.0, thousands(count, took)));
    }
    let largest = rates.last().map_or(1.0, |&(_, rate)| rate);
    let points = rates
        .into_iter()
        .map(|(part, rate)| at_number(part, rate / largest));
    Ok(MeasurementSet {
        counts: vec![line(SIZE, "tries", points.collect())],
        ..MeasurementSet::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_indexes_are_built_and_tries_take_the_bits_that_the_document_says() {
        let measured = rates(SMALL, 60_000, &[0.25]).unwrap();
        let bits = &lines(&measured, BITS)[0].points;
        assert!((bits[0].value / 2.51 - 1.0).abs() < 0.015, "{bits:?}");
        assert!(bits[1].value > 2.6 && bits[1].value < 3.0, "{bits:?}");
        assert!(
            lines(&measured, RATE)
                .iter()
                .all(|line| line.points[0].value > 0.0)
        );
        assert_eq!(lines(&sizes(400).unwrap(), SIZE)[0].points[3].value, 1.0);
    }
}
