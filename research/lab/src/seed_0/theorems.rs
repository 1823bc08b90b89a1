//! T2 to T5: the bounds of chapter 2 for its hash tables, compared with the transfers of ours.
//!
//! The chapter has no experiment. Our experiment inserts records and looks some of them up with a
//! cold memory, in a space that counts the transfer of each block.

use super::transfer_counts::{self, HashTableKind, TransferCounts};
use crate::entry::{AxisPosition, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigurePoint, FigureSeries, MeasurementSet, name};
use anyhow::{Result, ensure};

const INSERTS: &str = "inserts";
pub(super) const HITS: &str = "lookups that find";
const MISSES: &str = "lookups that do not";
pub(super) const OPERATION: &str = "an operation";

const GROWTHS: [u32; 4] = [2, 4, 16, 64];
/// The growth factor whose transfers are shown unscaled.
const SHOWN: u32 = 4;
/// Minimum number of keys; fewer fit in memory.
const LEAST: u64 = 1 << 10;

pub(super) const T2: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/T2",
    ours: &[
        ("I/Os", an_operation),
        (INSERTS, inserts),
        (HITS, hits),
        (MISSES, misses),
    ],
    work: here(boa),
};

pub(super) const T3: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/T3",
    ours: &[
        ("I/Os", an_operation),
        (INSERTS, inserts),
        (HITS, hits),
        (MISSES, misses),
    ],
    work: here(bot),
};

pub(super) const T4: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/T4",
    ours: &[
        ("I/Os", an_operation),
        (INSERTS, inserts),
        (HITS, hits),
        (MISSES, misses),
    ],
    work: here(asymmetric),
};

pub(super) const T5: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/T5",
    ours: &[
        ("I/Os", an_operation),
        (INSERTS, inserts),
        (HITS, hits),
        (MISSES, misses),
    ],
    work: here(oblivious),
};

/// Returns the work that counts a table at a given number of keys.
pub(super) const fn here(measure: fn(u64) -> Result<MeasurementSet>) -> ExperimentMethod {
    ExperimentMethod::Here {
        quick: 1 << 14,
        full: 1 << 20,
        // The blocks are held in memory.
        most: 1 << 24,
        measure,
    }
}

fn inserts(measured: &MeasurementSet) -> Vec<FigureSeries> {
    measured.series_with_prefix(INSERTS)
}

pub(super) fn hits(measured: &MeasurementSet) -> Vec<FigureSeries> {
    measured.series_with_prefix(HITS)
}

fn misses(measured: &MeasurementSet) -> Vec<FigureSeries> {
    measured.series_with_prefix(MISSES)
}

pub(super) fn an_operation(measured: &MeasurementSet) -> Vec<FigureSeries> {
    measured.series_with_prefix(OPERATION)
}

fn boa(keys: u64) -> Result<MeasurementSet> {
    measure(keys, HashTableKind::Refined, log)
}

fn bot(keys: u64) -> Result<MeasurementSet> {
    measure(keys, HashTableKind::Trees, |_, _| {
        transfer_counts::memory_records().log2().log2()
    })
}

fn oblivious(keys: u64) -> Result<MeasurementSet> {
    measure(keys, HashTableKind::Oblivious, |_, _| {
        transfer_counts::memory_records().log2().log2()
    })
}

fn asymmetric(keys: u64) -> Result<MeasurementSet> {
    let beta = f64::from(transfer_counts::BETA);
    measure(keys, HashTableKind::Asymmetric, move |lambda, n| {
        beta + log(lambda, n) / beta
    })
}

pub(super) fn log(base: f64, value: f64) -> f64 {
    value.ln() / base.ln()
}

/// Counts a table's transfers for growing numbers of keys. `extra` returns the term that the
/// table's theorem adds to the cost of an insert, from λ and log_{M/B} N.
fn measure(keys: u64, table: HashTableKind, extra: impl Fn(f64, f64) -> f64) -> Result<MeasurementSet> {
    ensure!(
        keys >= LEAST,
        "--records {keys}: fewer than {LEAST} keys fit the memory"
    );
    let mut counts = Vec::new();
    for growth in GROWTHS {
        let lambda = f64::from(growth);
        let lines = [INSERTS, HITS, MISSES].map(|what| format!("{what}, λ = {growth}"));
        let mut lines = lines.map(|name| FigureSeries {
            name,
            points: Vec::new(),
        });
        let sizes = (0..)
            .map(|step| LEAST << (2 * step))
            .take_while(|&records| records < keys);
        for records in sizes.chain([keys]) {
            let counted = table.count(growth, records)?;
            let n = records as f64;
            let merging = log(
                transfer_counts::memory_records() / transfer_counts::block_records(),
                n,
            );
            let bound = lambda + merging + extra(lambda, n);
            let levels = log(lambda, n);
            let values = [
                (counted.insert_reads + counted.insert_writes) * transfer_counts::block_records() / bound,
                counted.hit / levels,
                counted.miss / levels,
            ];
            for (line, value) in lines.iter_mut().zip(values) {
                let at = AxisPosition::Number(n);
                line.points.push(FigurePoint { at, value });
            }
            if growth == SHOWN && records == keys {
                counts.push(an_operation_of(table, &counted));
            }
        }
        counts.extend(lines);
    }
    Ok(MeasurementSet {
        counts,
        ..MeasurementSet::default()
    })
}

/// Returns the absolute transfers, at the places that the theorem names.
fn an_operation_of(table: HashTableKind, counted: &TransferCounts) -> FigureSeries {
    let (reads, writes) = (counted.insert_reads, counted.insert_writes);
    let places = match table {
        HashTableKind::Asymmetric => vec![
            ("insert, writes", writes),
            ("insert, reads", reads),
            ("query, reads", counted.hit),
        ],
        HashTableKind::Refined | HashTableKind::Trees | HashTableKind::Oblivious => {
            vec![("insert", reads + writes), ("query", counted.hit)]
        }
    };
    let spot = |(place, value)| FigurePoint {
        at: name(place),
        value,
    };
    FigureSeries {
        name: format!("{OPERATION}, alluvium, λ = {SHOWN}"),
        points: places.into_iter().map(spot).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_stay_within_a_constant_of_the_bounds() {
        for count in [boa, bot, asymmetric, oblivious] {
            let measured = count(4 * LEAST).unwrap();
            let shown = an_operation(&measured);
            assert!(!shown.is_empty() && shown[0].points.len() >= 2);
            for lines in [inserts(&measured), hits(&measured), misses(&measured)] {
                assert_eq!(lines.len(), GROWTHS.len());
                for spot in lines.iter().flat_map(|line| &line.points) {
                    assert!(spot.value >= 0.0 && spot.value < 6.0, "{spot:?}");
                }
            }
        }
        assert!(boa(100).is_err());
    }
}
