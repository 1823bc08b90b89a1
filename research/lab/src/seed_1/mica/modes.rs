//! M4, M7, M9, M10: in-memory tables without a network, by skew, access mode and kind.

use super::requests::{RequestMix, RequestSkew, TINY};
use super::tables::MicaTableKind;
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::MeasurementSet;
use crate::seed_1::harness::{at_name, line, lines};
use anyhow::{Result, ensure};

const RATE: &str = "rate";
const QUOTIENT: &str = "quotient";

const QUICK: u64 = 100_000;
const FULL: u64 = 16 << 20;
/// Maximum number of items, slightly more than the document's.
const MOST: u64 = 256 << 20;

/// The document's workloads: popularity, and percentage of gets.
const WORKLOADS: [(&str, RequestSkew, u32); 4] = [
    ("uniform, 50 % gets", RequestSkew::Uniform, 50),
    ("uniform, 95 % gets", RequestSkew::Uniform, 95),
    ("skewed, 50 % gets", RequestSkew::Zipf, 50),
    ("skewed, 95 % gets", RequestSkew::Zipf, 95),
];

pub(super) const M4: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/M4",
    ours: &[
        ("skewed / uniform", |measured| lines(measured, QUOTIENT)),
        ("requests a second", |measured| lines(measured, RATE)),
    ],
    work: ExperimentMethod::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: under_skew,
    },
};

pub(super) const M7: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/M7",
    ours: &[("requests a second", |measured| lines(measured, RATE))],
    work: ExperimentMethod::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: by_mode,
    },
};

pub(super) const M9: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/M9",
    ours: &[
        ("ordered map / table", |measured| lines(measured, QUOTIENT)),
        ("requests a second", |measured| lines(measured, RATE)),
    ],
    work: ExperimentMethod::Here {
        quick: QUICK,
        full: FULL,
        most: 64 << 20,
        measure: beside_ordered,
    },
};

pub(super) const M10: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/M10",
    ours: &[
        ("store / cache", |measured| lines(measured, QUOTIENT)),
        ("requests a second", |measured| lines(measured, RATE)),
    ],
    work: ExperimentMethod::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: beside_lossless,
    },
};

/// Returns millions of requests per second of a kind of table, for each workload.
fn rates(kind: MicaTableKind, count: u64) -> Result<[f64; 4]> {
    ensure!(count > 0, "a table has keys");
    let mut rates = [0.0; 4];
    for (rate, (_, skew, get_percent)) in rates.iter_mut().zip(WORKLOADS) {
        *rate = kind.rate(RequestMix {
            items: TINY,
            count,
            skew,
            get_percent,
        })?;
    }
    Ok(rates)
}

/// Returns the line of a kind's rates.
fn by_workload(whose: &str, rates: [f64; 4]) -> crate::measurements::FigureSeries {
    let points = WORKLOADS
        .iter()
        .zip(rates)
        .map(|(workload, rate)| at_name(workload.0, rate));
    line(RATE, whose, points.collect())
}

fn under_skew(count: u64) -> Result<MeasurementSet> {
    let rates = rates(MicaTableKind::Exclusive, count)?;
    let quotients = vec![
        at_name("50 % gets", rates[2] / rates[0]),
        at_name("95 % gets", rates[3] / rates[1]),
    ];
    Ok(MeasurementSet {
        counts: vec![
            line(QUOTIENT, "alluvium", quotients),
            by_workload("alluvium", rates),
        ],
        ..MeasurementSet::default()
    })
}

fn by_mode(count: u64) -> Result<MeasurementSet> {
    let mut counts = Vec::new();
    for (whose, kind) in [
        ("EREW", MicaTableKind::Exclusive),
        ("CREW", MicaTableKind::OneWrites),
        ("CRCW", MicaTableKind::AllWrite),
    ] {
        counts.push(by_workload(whose, rates(kind, count)?));
    }
    Ok(MeasurementSet {
        counts,
        ..MeasurementSet::default()
    })
}

fn beside_ordered(count: u64) -> Result<MeasurementSet> {
    let (table, map) = (
        rates(MicaTableKind::Exclusive, count)?,
        rates(MicaTableKind::Ordered, count)?,
    );
    let quotients = vec![
        at_name("50 % gets", map[2] / table[2]),
        at_name("95 % gets", map[3] / table[3]),
    ];
    Ok(MeasurementSet {
        counts: vec![
            line(QUOTIENT, "alluvium", quotients),
            by_workload("table", table),
            by_workload("ordered map", map),
        ],
        ..MeasurementSet::default()
    })
}

fn beside_lossless(count: u64) -> Result<MeasurementSet> {
    let (cache, store) = (
        rates(MicaTableKind::Exclusive, count)?,
        rates(MicaTableKind::Lossless, count)?,
    );
    let quotients = WORKLOADS.iter().enumerate();
    let quotients = quotients.map(|(at, workload)| at_name(workload.0, store[at] / cache[at]));
    Ok(MeasurementSet {
        counts: vec![
            line(QUOTIENT, "alluvium", quotients.collect()),
            by_workload("cache", cache),
            by_workload("store", store),
        ],
        ..MeasurementSet::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_has_a_figure_of_each_kind_of_table() {
        for (measured, rows) in [
            (under_skew(2000).unwrap(), 1),
            (by_mode(2000).unwrap(), 3),
            (beside_ordered(2000).unwrap(), 2),
            (beside_lossless(2000).unwrap(), 2),
        ] {
            let found = lines(&measured, RATE);
            assert_eq!(found.len(), rows);
            for line in found.iter().chain(&lines(&measured, QUOTIENT)) {
                assert!(line.points.iter().all(|point| point.value > 0.0), "{line:?}");
            }
            assert!(found.iter().all(|line| line.points.len() == WORKLOADS.len()));
        }
    }

    #[test]
    fn a_table_without_keys_is_refused() {
        assert!(under_skew(0).is_err());
    }
}
