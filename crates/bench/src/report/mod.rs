//! Reports: medians of repetitions, a table, JSON, plots, a page, a comparison.
//!
//! *Knows*: which figures are shown, and how.
//!
//! *Does not know*: how they came about.
//!
//! *Read in this order*: this file, `machine.rs`, `table.rs`.

pub mod machine;
pub mod table;

use crate::run::{Outcome, Row};
use machine::Machine;
use serde::{Deserialize, Serialize};

/// Everything that was measured, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// What was asked for.
    pub orders: Vec<(String, String)>,
    /// The settings of every engine.
    pub settings: Vec<(String, Vec<(String, String)>)>,
    /// One for every engine and phase: the repetition whose throughput is the median.
    pub results: Vec<Row>,
    /// All repetitions.
    pub repetitions: Vec<Row>,
}

impl Report {
    /// Of what was measured.
    #[must_use]
    pub fn new(machine: Machine, orders: Vec<(String, String)>, outcome: Outcome) -> Report {
        Report {
            machine,
            orders,
            settings: outcome.settings,
            results: medians(&outcome.rows),
            repetitions: outcome.rows,
        }
    }
}

/// For every engine and phase the median of each figure by itself; percentile curves and throughput over time are those of the repetition in the middle.
fn medians(rows: &[Row]) -> Vec<Row> {
    let mut results: Vec<Row> = Vec::new();
    for row in rows {
        if results
            .iter()
            .any(|one| (&one.engine, &one.phase) == (&row.engine, &row.phase))
        {
            continue;
        }
        let same = |other: &&Row| (&other.engine, &other.phase) == (&row.engine, &row.phase);
        let mut group: Vec<&Row> = rows.iter().filter(same).collect();
        // Of the same throughput, as when there is none, the order of the repetitions stays.
        group.sort_by(|one, other| one.ops_per_s.total_cmp(&other.ops_per_s));
        results.push(median(&group));
    }
    results
}

/// The median of rows that are sorted by their throughput.
fn median(group: &[&Row]) -> Row {
    let middle = group[group.len() / 2];
    let real = |of: fn(&Row) -> f64| {
        let mut values: Vec<f64> = group.iter().map(|row| of(row)).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let whole = |of: fn(&Row) -> u64| {
        let mut values: Vec<u64> = group.iter().map(|row| of(row)).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    let maybe = |of: fn(&Row) -> Option<f64>| {
        let mut values: Vec<f64> = group.iter().filter_map(|row| of(row)).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let mut row = middle.clone();
    row.latency.p50_us = real(|row| row.latency.p50_us);
    row.latency.p99_us = real(|row| row.latency.p99_us);
    row.latency.p999_us = real(|row| row.latency.p999_us);
    row.latency.max_us = real(|row| row.latency.max_us);
    row.cpu_us_per_op = real(|row| row.cpu_us_per_op);
    row.seconds = real(|row| row.seconds);
    row.write_amplification = maybe(|row| row.write_amplification);
    row.read_amplification = maybe(|row| row.read_amplification);
    row.space_amplification = maybe(|row| row.space_amplification);
    row.rss_peak_bytes = whole(|row| row.rss_peak_bytes);
    let ops = |row: &Row| row.ops_per_s;
    row.spread = (group.len() > 1 && ops(middle) > 0.0)
        .then(|| (ops(group[group.len() - 1]) - ops(group[0])) / ops(middle));
    row.repetition = group.len();
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engine: &str, phase: &str, ops_per_s: f64, rss: u64) -> Row {
        Row {
            engine: engine.into(),
            phase: phase.into(),
            ops_per_s,
            rss_peak_bytes: rss,
            ..Row::default()
        }
    }

    #[test]
    fn each_engine_and_phase_has_one_result_the_median() {
        let rows = [
            row("a", "load", 10.0, 3),
            row("b", "load", 5.0, 7),
            row("a", "load", 30.0, 1),
            row("a", "load", 20.0, 2),
        ];
        let results = medians(&rows);
        assert_eq!(results.len(), 2);
        assert_eq!((results[0].ops_per_s, results[0].rss_peak_bytes), (20.0, 2));
        assert_eq!((results[0].spread, results[0].repetition), (Some(1.0), 3));
        assert_eq!((results[1].ops_per_s, results[1].spread), (5.0, None));
    }
}
