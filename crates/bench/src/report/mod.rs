//! Reports of measurements: medians of the repetitions, tables, JSON, plots, HTML pages and
//! comparisons.
//!
//! *Scope*: which measured values a report contains, and how they are displayed.
//!
//! *Must not depend on*: how they were measured.

pub mod compare;
pub mod machine;
pub mod page;
pub mod plots;
pub mod script;
pub mod table;
mod transactions;

use crate::run::{BenchOutcome, RepetitionFailure, ResultRow};
use anyhow::{Context, Result};
use machine::MachineInfo;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The results of all measurements, and a description of the machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BenchReport {
    pub machine: MachineInfo,
    /// The names and values of the parameters that the user chose, in display order.
    pub orders: Vec<(String, String)>,
    /// The names and values of each engine's settings.
    pub settings: Vec<(String, Vec<(String, String)>)>,
    /// One row per engine and phase, with the medians of all repetitions.
    pub results: Vec<ResultRow>,
    pub repetitions: Vec<ResultRow>,
    /// The failed measurements, with the reasons.
    #[serde(default)]
    pub failures: Vec<RepetitionFailure>,
}

impl BenchReport {
    /// Creates a report from the results of a run.
    #[must_use]
    pub fn new(machine: MachineInfo, orders: Vec<(String, String)>, outcome: BenchOutcome) -> BenchReport {
        BenchReport {
            machine,
            orders,
            settings: outcome.settings,
            results: medians(&outcome.rows),
            repetitions: outcome.rows,
            failures: outcome.failures,
        }
    }

    /// Adds the results of another report from the same machine, such as the next point of a sweep.
    pub fn add(&mut self, other: BenchReport) {
        self.results.extend(other.results);
        self.repetitions.extend(other.repetitions);
        self.failures.extend(other.failures);
        for of_engine in other.settings {
            if !self.settings.contains(&of_engine) {
                self.settings.push(of_engine);
            }
        }
        for order in other.orders {
            if !self.orders.contains(&order) {
                self.orders.push(order);
            }
        }
    }

    /// Adds the results of another report. If both contain the same phase of an engine, appends
    /// `name` to the name of the engine from `other`.
    pub fn join(&mut self, mut other: BenchReport, name: &str) {
        let is_same = |one: &ResultRow, row: &ResultRow| {
            (&one.engine, &one.phase, one.threads) == (&row.engine, &row.phase, row.threads)
        };
        let mut twice: Vec<String> = Vec::new();
        for row in &other.results {
            if !twice.contains(&row.engine) && self.results.iter().any(|one| is_same(one, row)) {
                twice.push(row.engine.clone());
            }
        }
        let rows = other.results.iter_mut().chain(&mut other.repetitions);
        let engines = rows
            .map(|row| &mut row.engine)
            .chain(other.failures.iter_mut().map(|failure| &mut failure.engine));
        for engine in engines.filter(|engine| twice.contains(engine)) {
            *engine = format!("{engine}, {name}");
        }
        self.add(other);
    }

    /// Writes the report to a JSON file, and next to it each plot as an SVG file and the whole
    /// report as an HTML page.
    ///
    /// # Errors
    /// I/O errors.
    pub fn write(&self, file: &Path) -> Result<()> {
        let write = |path: &Path, text: &str| {
            std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
        };
        write(file, &(serde_json::to_string_pretty(self)? + "\n"))?;
        let plots = plots::plots(self)?;
        let stem = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        for plot in &plots {
            write(
                &file.with_file_name(format!("{stem}-{}.svg", plot.name)),
                &plot.svg,
            )?;
        }
        write(&file.with_extension("html"), &page::page(self, &plots))
    }

    /// Reads a report from a JSON file.
    ///
    /// # Errors
    /// Returns I/O errors, and an error if the file does not contain a report.
    pub fn read(file: &Path) -> Result<BenchReport> {
        let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is not a report of `alluvium bench`", file.display()))
    }
}

/// Combines the repetitions of each engine and phase into one row. Each figure is the median of its
/// own values. Percentile curves and throughput series are those of the repetition with the median
/// throughput.
fn medians(rows: &[ResultRow]) -> Vec<ResultRow> {
    let mut results: Vec<ResultRow> = Vec::new();
    for row in rows {
        if results
            .iter()
            .any(|one| (&one.engine, &one.phase) == (&row.engine, &row.phase))
        {
            continue;
        }
        let same = |other: &&ResultRow| (&other.engine, &other.phase) == (&row.engine, &row.phase);
        let mut group: Vec<&ResultRow> = rows.iter().filter(same).collect();
        // Rows of equal throughput, such as zero, stay in the order of their repetitions.
        group.sort_by(|one, other| one.ops_per_s.total_cmp(&other.ops_per_s));
        results.push(median(&group));
    }
    results
}

/// Combines rows sorted by throughput into a row of medians.
fn median(group: &[&ResultRow]) -> ResultRow {
    let middle = group[group.len() / 2];
    let real = |of: fn(&ResultRow) -> f64| {
        let mut values: Vec<f64> = group.iter().map(|row| of(row)).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let whole = |of: fn(&ResultRow) -> u64| {
        let mut values: Vec<u64> = group.iter().map(|row| of(row)).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    let maybe = |of: fn(&ResultRow) -> Option<f64>| {
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
    row.aborts_per_op = maybe(|row| row.aborts_per_op);
    row.flushes_per_op = maybe(|row| row.flushes_per_op);
    row.write_amplification = maybe(|row| row.write_amplification);
    row.read_amplification = maybe(|row| row.read_amplification);
    row.space_amplification = maybe(|row| row.space_amplification);
    row.rss_peak_bytes = whole(|row| row.rss_peak_bytes);
    let ops = |row: &ResultRow| row.ops_per_s;
    row.spread = (group.len() > 1 && ops(middle) > 0.0)
        .then(|| (ops(group[group.len() - 1]) - ops(group[0])) / ops(middle));
    row.repetition = group.len();
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::latency::LatencyPercentiles;

    /// Returns a small report with two phases, for tests.
    pub(super) fn tiny(engines: &[&str]) -> BenchReport {
        let mut results = Vec::new();
        for phase in ["load", "c"] {
            for (at, engine) in engines.iter().enumerate() {
                results.push(ResultRow {
                    threads: 1,
                    operations: 1000,
                    device_reads: 300,
                    cpu_us_per_op: 3.0,
                    latency: LatencyPercentiles {
                        p50_us: 7.0,
                        p99_us: 20.0,
                        curve: vec![(50.0, 7.0), (99.0, 20.0), (100.0, 900.0)],
                        ..LatencyPercentiles::default()
                    },
                    write_amplification: Some(2.0),
                    space_amplification: Some(1.1),
                    series: vec![10, 20, 15],
                    interval_ms: 100,
                    ..row(engine, phase, 1e5 * (at + 1) as f64, 1 << 20)
                });
            }
        }
        BenchReport {
            machine: MachineInfo::default(),
            orders: Vec::new(),
            settings: vec![("alluvium".into(), vec![("memory".into(), "1".into())])],
            repetitions: results.clone(),
            failures: Vec::new(),
            results,
        }
    }

    #[test]
    fn a_report_is_written_with_its_plots_and_its_page_and_read_again() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("of today.json");
        let report = tiny(&["alluvium", "lmdb"]);
        report.write(&file).unwrap();
        assert_eq!(BenchReport::read(&file).unwrap().results, report.results);
        for name in [
            "of today.html",
            "of today-throughput.svg",
            "of today-over-time.svg",
        ] {
            assert!(place.path().join(name).exists(), "{name}");
        }
        std::fs::write(&file, "{}").unwrap();
        assert!(format!("{:#}", BenchReport::read(&file).unwrap_err()).contains("is not a report"));
    }

    fn row(engine: &str, phase: &str, ops_per_s: f64, rss: u64) -> ResultRow {
        ResultRow {
            engine: engine.into(),
            phase: phase.into(),
            ops_per_s,
            rss_peak_bytes: rss,
            ..ResultRow::default()
        }
    }

    #[test]
    fn an_engine_that_was_measured_twice_has_two_columns() {
        let mut whole = tiny(&["alluvium"]);
        whole.join(tiny(&["alluvium", "rocksdb"]), "384 MiB");
        let head = table::markdown(&whole);
        let head = head.lines().next().unwrap();
        assert_eq!(
            head,
            "| phase, threads | alluvium | alluvium, 384 MiB | rocksdb |"
        );
        let mut threads = tiny(&["alluvium"]);
        threads.results.iter_mut().for_each(|row| row.threads = 2);
        whole.join(threads, "two");
        assert_eq!(
            table::markdown(&whole).lines().next().unwrap(),
            head,
            "other rows"
        );
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
