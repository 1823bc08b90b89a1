//! Presents the results of transaction benchmarks: a table of their own, and plots of the
//! throughput by number of clients.

use super::BenchReport;
use super::plots::{WIDTH, colour, legend, wrong};
use super::table::{aligned, figures};
use crate::run::ResultRow;
use crate::transactions::phase::TransactionPhase;
use anyhow::Result;
use plotters::prelude::*;

const HEAD: [&str; 13] = [
    "phase",
    "engine",
    "commits/s",
    "spread",
    "aborts/commit",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "max ms",
    "cpu us/commit",
    "flushes/commit",
    "write amp",
    "rss MiB",
];

/// Height in pixels of a panel of the plot.
const HEIGHT: u32 = 260;

/// Returns whether a report is of a transaction benchmark.
pub(super) fn is_of_transactions(report: &BenchReport) -> bool {
    report.results.iter().any(|row| row.aborts_per_op.is_some())
}

/// Returns a table of the results, with one line per phase and engine.
pub(super) fn table(report: &BenchReport) -> String {
    let mut lines = vec![HEAD.map(str::to_owned).to_vec()];
    for phase in different(report, |row| row.phase.clone()) {
        let rows = report.results.iter().filter(|row| row.phase == phase);
        lines.extend(rows.map(cells));
    }
    aligned(&lines, 2)
}

fn cells(row: &ResultRow) -> Vec<String> {
    let maybe = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), figures);
    vec![
        row.phase.clone(),
        row.engine.clone(),
        format!("{:.0}", row.ops_per_s),
        row.spread
            .map_or_else(|| "-".to_owned(), |spread| format!("{:.0} %", 100.0 * spread)),
        row.aborts_per_op
            .map_or_else(|| "-".to_owned(), |aborts| format!("{aborts:.3}")),
        figures(row.latency.p50_us),
        figures(row.latency.p99_us),
        figures(row.latency.p999_us),
        figures(row.latency.max_us / 1e3),
        figures(row.cpu_us_per_op),
        row.flushes_per_op
            .map_or_else(|| "-".to_owned(), |flushes| format!("{flushes:.3}")),
        maybe(row.write_amplification),
        format!("{:.0}", row.rss_peak_bytes as f64 / f64::from(1 << 20)),
    ]
}

/// Returns the distinct texts that `of` yields for the rows, in the order of their first
/// occurrence.
fn different(report: &BenchReport, of: impl Fn(&ResultRow) -> String) -> Vec<String> {
    let mut texts = Vec::new();
    for text in report.results.iter().map(of) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

/// Returns the points of an engine's line: the numbers of clients, and the commits per second.
fn points(report: &BenchReport, series: &str, engine: &str) -> Vec<(f64, f64)> {
    let rows = report.results.iter().filter(|row| {
        row.engine == engine && TransactionPhase::series(&row.phase) == series && row.ops_per_s > 0.0
    });
    let mut points: Vec<_> = rows.map(|row| (row.threads as f64, row.ops_per_s)).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

/// Plots commits per second by number of clients. Phases that differ only in the number of clients
/// form a series. The plot has one panel per series and one line per engine. Returns `None` if
/// there are no series.
///
/// # Errors
/// Returns an error if the plot cannot be drawn.
pub(super) fn plot(report: &BenchReport, engines: &[String]) -> Result<Option<String>> {
    let mut panels = different(report, |row| TransactionPhase::series(&row.phase));
    panels.retain(|series| {
        engines
            .iter()
            .any(|engine| points(report, series, engine).len() > 1)
    });
    if !is_of_transactions(report) || panels.is_empty() {
        return Ok(None);
    }
    let mut svg = String::new();
    {
        let size = (WIDTH, HEIGHT * panels.len() as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).map_err(wrong)?;
        for (series, panel) in panels.iter().zip(area.split_evenly((panels.len(), 1))) {
            let lines: Vec<Vec<(f64, f64)>> = engines
                .iter()
                .map(|engine| points(report, series, engine))
                .collect();
            let all = || lines.iter().flatten().copied();
            let right = all().map(|(clients, _)| clients).fold(2.0, f64::max);
            let most = all().map(|(_, rate)| rate).fold(1.0, f64::max);
            let least = all().map(|(_, rate)| rate).fold(most, f64::min);
            let mut chart = ChartBuilder::on(&panel)
                .caption(
                    format!("{series}: commits a second, over clients"),
                    ("sans-serif", 14),
                )
                .margin(6)
                .x_label_area_size(24)
                .y_label_area_size(64)
                .build_cartesian_2d(
                    (1.0..right).log_scale().base(2.0),
                    (least * 0.8..most * 1.2).log_scale(),
                )
                .map_err(wrong)?;
            chart.configure_mesh().y_labels(5).draw().map_err(wrong)?;
            for (engine, points) in lines.into_iter().enumerate() {
                let dots = points
                    .clone()
                    .into_iter()
                    .map(|point| Circle::new(point, 3, colour(engine).filled()));
                chart.draw_series(dots).map_err(wrong)?;
                let line = LineSeries::new(points, colour(engine).stroke_width(2));
                chart.draw_series(line).map_err(wrong)?;
            }
        }
        legend(&area, engines)?;
        area.present().map_err(wrong)?;
    }
    Ok(Some(svg))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{plots, table};

    fn report() -> BenchReport {
        let mut report = crate::report::tests::tiny(&["alluvium", "rocksdb"]);
        let names = [("load", "rmw:1", 1), ("c", "rmw:16", 16)];
        for row in &mut report.results {
            let (_, name, clients) = names.iter().find(|(was, ..)| *was == row.phase).unwrap();
            row.phase = (*name).to_owned();
            row.threads = *clients;
            row.aborts_per_op = Some(0.25);
            row.flushes_per_op = Some(0.0625);
        }
        report
    }

    #[test]
    fn the_table_says_how_often_transactions_were_run_again() {
        let text = table::table(&report());
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0][..4], ["phase", "engine", "commits/s", "spread"]);
        assert_eq!(
            lines[4][..7],
            ["rmw:16", "rocksdb", "200000", "-", "0.250", "7.00", "20.0"]
        );
        assert_eq!((lines.len(), lines[4][10]), (5, "0.062"));
    }

    #[test]
    fn a_series_is_drawn_over_its_clients() {
        let report = report();
        assert_eq!(points(&report, "rmw", "rocksdb"), [(1.0, 2e5), (16.0, 2e5)]);
        let plots = plots::plots(&report).unwrap();
        let plot = plots.iter().find(|plot| plot.name == "clients").unwrap();
        for words in ["rmw: commits a second, over clients", "alluvium", "rocksdb"] {
            assert!(plot.svg.contains(words), "{words}");
        }
    }

    #[test]
    fn other_reports_have_no_such_plot() {
        let report = crate::report::tests::tiny(&["alluvium"]);
        assert!(plot(&report, &["alluvium".to_owned()]).unwrap().is_none());
        assert!(!is_of_transactions(&report));
    }
}
