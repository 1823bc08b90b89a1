//! The results of a run as tables: all measurements as CSV, and a summary of each file system.

use super::state::{AgingRow, RunState, SeriesState, TreeAge};
use crate::measure::correlation::{pearson, spearman};
use serde::Serialize;
use std::fmt::Write;

/// The columns of the CSV.
const COLUMNS: [&str; 20] = [
    "file_system",
    "workload",
    "step",
    "tree",
    "files",
    "ext4_bytes",
    "seconds",
    "seconds_per_gib",
    "read_requests",
    "read_bytes",
    "written_bytes",
    "request_score",
    "block_score",
    "seeks",
    "layout_score",
    "tree_score",
    "fragmentation",
    "predicted_s",
    "modelled_disk_s",
    "read_requests_per_gib",
];

fn cell<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Returns requests per GiB of the tree.
#[must_use]
pub fn requests_per_gib(row: &AgingRow) -> Option<f64> {
    let gib = row.ext4_bytes as f64 / f64::from(1 << 30);
    row.read_requests.map(|requests| requests as f64 / gib)
}

/// Returns all measurements of a run, one a line.
#[must_use]
pub fn csv(state: &RunState) -> String {
    let mut text = COLUMNS.join(",");
    text.push('\n');
    let workload = state.plan.workload.kind.to_string();
    for (name, series) in &state.series {
        for row in &series.rows {
            let age = match row.age {
                TreeAge::Aged => "aged",
                TreeAge::Unaged => "unaged",
            };
            let cells = [
                name.clone(),
                workload.clone(),
                row.step.to_string(),
                age.to_owned(),
                row.files.to_string(),
                row.ext4_bytes.to_string(),
                row.seconds.to_string(),
                row.seconds_per_gib.to_string(),
                cell(row.read_requests),
                cell(row.read_bytes),
                cell(row.written_bytes),
                cell(row.request_score),
                cell(row.block_score),
                cell(row.seeks),
                cell(row.layout_score),
                cell(row.tree_score),
                cell(row.fragmentation),
                cell(row.predicted_s),
                cell(row.modelled_disk_s),
                cell(requests_per_gib(row)),
            ];
            text.push_str(&cells.join(","));
            text.push('\n');
        }
    }
    text
}

/// Correlation of layout score and cost. −1 means that costs grow as the score falls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ScoreCorrelation {
    pub measurements: usize,
    pub pearson: Option<f64>,
    pub spearman: Option<f64>,
}

/// Returns the correlation of the dynamic layout score over blocks with a cost.
#[must_use]
pub fn correlation<'a>(
    rows: impl IntoIterator<Item = &'a AgingRow>,
    cost: impl Fn(&AgingRow) -> Option<f64>,
) -> ScoreCorrelation {
    let pairs: Vec<(f64, f64)> = rows
        .into_iter()
        .filter_map(|row| row.score().zip(cost(row)))
        .collect();
    ScoreCorrelation {
        measurements: pairs.len(),
        pearson: pearson(&pairs),
        spearman: spearman(&pairs),
    }
}

/// What a run found for one file system: its last step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeriesSummary {
    pub file_system: String,
    pub step: u64,
    pub ext4_bytes: u64,
    pub unaged_s_per_gib: f64,
    pub aged_s_per_gib: f64,
    pub unaged_requests_per_gib: Option<f64>,
    pub aged_requests_per_gib: Option<f64>,
    pub unaged_score: Option<f64>,
    pub aged_score: Option<f64>,
    /// Aged divided by unaged: measured time, predicted time, and time of the modelled disk.
    pub time_ratio: f64,
    pub predicted_ratio: Option<f64>,
    pub disk_ratio: Option<f64>,
    /// Bytes written to the device by all steps.
    pub written_bytes: Option<u64>,
    pub correlation: ScoreCorrelation,
    pub request_correlation: ScoreCorrelation,
}

/// Returns the summaries of all file systems with a complete measurement.
#[must_use]
pub fn summaries(state: &RunState) -> Vec<SeriesSummary> {
    let series = state.series.iter();
    series
        .filter_map(|(name, series)| summary(name, series))
        .collect()
}

fn summary(name: &str, series: &SeriesState) -> Option<SeriesSummary> {
    let last = |age| series.rows.iter().rev().find(|row| row.age == age);
    let (aged, unaged) = (last(TreeAge::Aged)?, last(TreeAge::Unaged)?);
    let ratio = |of: fn(&AgingRow) -> Option<f64>| {
        let (aged, unaged) = of(aged).zip(of(unaged))?;
        (unaged > 0.0).then(|| aged / unaged)
    };
    let aged_rows = series.rows.iter().filter(|row| row.age == TreeAge::Aged);
    let written: Option<Vec<u64>> = aged_rows.map(|row| row.written_bytes).collect();
    Some(SeriesSummary {
        file_system: name.to_owned(),
        step: aged.step,
        ext4_bytes: aged.ext4_bytes,
        unaged_s_per_gib: unaged.seconds_per_gib,
        aged_s_per_gib: aged.seconds_per_gib,
        unaged_requests_per_gib: requests_per_gib(unaged),
        aged_requests_per_gib: requests_per_gib(aged),
        unaged_score: unaged.score(),
        aged_score: aged.score(),
        time_ratio: aged.seconds / unaged.seconds,
        predicted_ratio: ratio(|row| row.predicted_s),
        disk_ratio: ratio(|row| row.modelled_disk_s),
        written_bytes: written.map(|written| written.iter().sum()),
        correlation: correlation(&series.rows, |row| Some(row.seconds_per_gib)),
        request_correlation: correlation(&series.rows, requests_per_gib),
    })
}

/// Returns the correlation over all file systems of a run: with the time, and with device reads.
#[must_use]
pub fn overall_correlations(state: &RunState) -> [ScoreCorrelation; 2] {
    let rows = || state.series.values().flat_map(|series| &series.rows);
    [
        correlation(rows(), |row| Some(row.seconds_per_gib)),
        correlation(rows(), requests_per_gib),
    ]
}

/// Returns the summaries as a Markdown table.
#[must_use]
pub fn markdown(state: &RunState) -> String {
    let figure = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
    };
    let mut text = String::from(
        "| file system | MiB | s/GiB unaged | aged | ratio | predicted | disk, modelled | score unaged | aged | requests/GiB unaged | aged | Pearson | Spearman | Pearson, requests |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in summaries(state) {
        let cells = [
            row.file_system,
            (row.ext4_bytes >> 20).to_string(),
            figure(Some(row.unaged_s_per_gib), 2),
            figure(Some(row.aged_s_per_gib), 2),
            figure(Some(row.time_ratio), 2),
            figure(row.predicted_ratio, 2),
            figure(row.disk_ratio, 2),
            figure(row.unaged_score, 3),
            figure(row.aged_score, 3),
            figure(row.unaged_requests_per_gib, 0),
            figure(row.aged_requests_per_gib, 0),
            figure(row.correlation.pearson, 2),
            figure(row.correlation.spearman, 2),
            figure(row.request_correlation.pearson, 2),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{AgingPlan, CacheMode, WorkloadKind, WorkloadSettings};

    fn row(step: u64, age: TreeAge, seconds: f64, score: Option<f64>) -> AgingRow {
        AgingRow {
            step,
            age,
            files: 10,
            ext4_bytes: 1 << 29,
            seconds,
            seconds_per_gib: seconds * 2.0,
            read_requests: Some(100),
            read_bytes: Some(1 << 29),
            written_bytes: (age == TreeAge::Aged).then_some(7),
            request_score: score,
            block_score: score,
            seeks: Some(3),
            layout_score: None,
            tree_score: Some(0.25),
            fragmentation: None,
            predicted_s: Some(seconds * 3.0),
            modelled_disk_s: None,
        }
    }

    fn state(rows: Vec<AgingRow>) -> RunState {
        let mut state = RunState::new(AgingPlan {
            workload: WorkloadSettings::published(WorkloadKind::Git, 1),
            file_systems: vec!["ext4".to_owned()],
            directory: None,
            image_bytes: 1 << 30,
            read_ahead_kib: 0,
            caches: CacheMode::Cold,
            warm_bytes: None,
            settle_s: 0,
        });
        state.series_mut("ext4").rows = rows;
        state
    }

    #[test]
    fn a_summary_compares_the_last_step_and_correlates_all() {
        let state = state(vec![
            row(0, TreeAge::Aged, 1.0, Some(0.9)),
            row(0, TreeAge::Unaged, 1.0, Some(0.9)),
            row(5, TreeAge::Aged, 4.0, Some(0.3)),
            row(5, TreeAge::Unaged, 2.0, Some(0.7)),
        ]);
        let summary = &summaries(&state)[0];
        assert_eq!((summary.step, summary.time_ratio), (5, 2.0));
        assert_eq!((summary.predicted_ratio, summary.disk_ratio), (Some(2.0), None));
        assert_eq!((summary.aged_score, summary.unaged_score), (Some(0.3), Some(0.7)));
        assert_eq!(summary.written_bytes, Some(14));
        assert_eq!(summary.aged_requests_per_gib, Some(200.0));
        // Each fall of the score by 0.2 adds a second: a line.
        assert!((summary.correlation.pearson.unwrap() + 1.0).abs() < 1e-9);
        let lines = csv(&state);
        let first: Vec<&str> = lines.lines().nth(1).unwrap().split(',').collect();
        assert_eq!((first.len(), first[0], first[3]), (COLUMNS.len(), "ext4", "aged"));
    }

    #[test]
    fn the_static_score_stands_in_only_where_requests_are_unknown() {
        let mut row = row(0, TreeAge::Aged, 1.0, None);
        assert_eq!(row.score(), None, "a warm grep reads nothing");
        row.read_requests = None;
        assert_eq!(row.score(), Some(0.25));
    }
}
