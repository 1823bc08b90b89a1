//! Compares two reports, and finds the figures that have become slower or more expensive.

use super::BenchReport;
use super::table::figures;
use crate::run::ResultRow;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureDifference {
    pub engine: String,
    pub phase: String,
    pub figure: String,
    /// The value of the figure in the earlier report.
    pub before: f64,
    /// The value of the figure in the later report.
    pub after: f64,
    /// Change relative to the earlier value: positive if the figure has become worse, negative if
    /// it has improved.
    pub worse: f64,
}

/// Whether a larger or a smaller value of a figure is better.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BetterDirection {
    More,
    Less,
}

/// A compared figure: its name, the direction in which it improves, and a function that returns it.
type ComparedFigure = (&'static str, BetterDirection, fn(&ResultRow) -> Option<f64>);

/// The compared figures. They leave out the latencies of the slowest few operations, which vary too
/// much between runs.
const FIGURES: [ComparedFigure; 8] = [
    ("ops_per_s", BetterDirection::More, |row| {
        (row.operations > 0).then_some(row.ops_per_s)
    }),
    ("p50_us", BetterDirection::Less, |row| {
        (row.operations > 0).then_some(row.latency.p50_us)
    }),
    ("p99_us", BetterDirection::Less, |row| {
        (row.operations > 0).then_some(row.latency.p99_us)
    }),
    ("cpu_us_per_op", BetterDirection::Less, |row| {
        (row.operations > 0).then_some(row.cpu_us_per_op)
    }),
    ("device_reads_per_op", BetterDirection::Less, |row| {
        (row.device_reads > 100).then(|| row.reads_per_op())
    }),
    ("write_amplification", BetterDirection::Less, |row| {
        row.write_amplification
    }),
    ("space_amplification", BetterDirection::Less, |row| {
        row.space_amplification
    }),
    ("rss_peak_bytes", BetterDirection::Less, |row| {
        Some(row.rss_peak_bytes as f64)
    }),
];

/// Compares all figures of the phases that both reports contain. Returns those that differ by more
/// than the fraction `by`, such as 0.05, the worst first.
#[must_use]
pub fn compare(before: &BenchReport, after: &BenchReport, by: f64) -> Vec<FigureDifference> {
    let mut differences = Vec::new();
    for new in &after.results {
        let same = |old: &&ResultRow| {
            (&old.engine, &old.phase, old.threads) == (&new.engine, &new.phase, new.threads)
        };
        let Some(old) = before.results.iter().find(same) else {
            continue;
        };
        for (figure, better, of) in FIGURES {
            let (Some(was), Some(is)) = (of(old), of(new)) else {
                continue;
            };
            if was <= 0.0 {
                continue;
            }
            let change = is / was - 1.0;
            if change.abs() > by {
                differences.push(FigureDifference {
                    engine: new.engine.clone(),
                    phase: new.phase.clone(),
                    figure: figure.to_owned(),
                    before: was,
                    after: is,
                    worse: if better == BetterDirection::More {
                        -change
                    } else {
                        change
                    },
                });
            }
        }
    }
    differences.sort_by(|one, other| other.worse.total_cmp(&one.worse));
    differences
}

impl std::fmt::Display for FigureDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = if self.worse > 0.0 { "worse" } else { "better" };
        write!(
            f,
            "{:>6.1} % {word:<6}  {:<12} {:<24} {:<20} {} -> {}",
            100.0 * self.worse.abs(),
            self.engine,
            self.phase,
            self.figure,
            figures(self.before),
            figures(self.after)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::tiny;

    #[test]
    fn what_became_slower_comes_first() {
        let before = tiny(&["alluvium", "rocksdb"]);
        let mut after = before.clone();
        after.results[0].ops_per_s *= 0.8;
        after.results[1].cpu_us_per_op *= 0.5;
        after.results[1].latency.p50_us *= 1.01;
        let found = compare(&before, &after, 0.05);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].figure.as_str(), found[1].figure.as_str()),
            ("ops_per_s", "cpu_us_per_op")
        );
        assert!((found[0].worse - 0.2).abs() < 1e-9 && (found[1].worse + 0.5).abs() < 1e-9);
        assert!(found[0].to_string().contains("20.0 % worse"), "{}", found[0]);
        assert!(compare(&before, &before, 0.0).is_empty());
    }

    #[test]
    fn what_only_one_has_is_not_compared() {
        let before = tiny(&["alluvium"]);
        let mut after = tiny(&["fjall"]);
        assert!(compare(&before, &after, 0.0).is_empty());
        after.results[0].engine = "alluvium".into();
        after.results[0].threads = 9;
        assert!(compare(&before, &after, 0.0).is_empty());
    }
}
