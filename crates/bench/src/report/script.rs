//! Presents the results of scripts over time: the dips in each phase's throughput, and the
//! throughput curve as text and as a plot.

use super::BenchReport;
use super::plots::{WIDTH, colour, curve, legend, wrong};
use super::table::{aligned, figures};
use crate::account::dips::ThroughputDips;
use crate::run::ResultRow;
use anyhow::Result;
use plotters::prelude::*;

const HEAD: [&str; 8] = [
    "phase",
    "engine",
    "from s",
    "mean k/s",
    "lowest second",
    "later mean",
    "below 1/4, s",
    "longest, s",
];

/// Maximum length of a throughput curve in characters.
const CURVE: usize = 60;
/// The characters that stand for values from zero to the maximum.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Height in pixels of a phase's panel.
const HEIGHT: u32 = 190;

/// Returns the rows of a script, of which there are none in other reports.
pub(super) fn rows(report: &BenchReport) -> Vec<&ResultRow> {
    let of_script = |row: &&ResultRow| row.began_s.is_some();
    report.results.iter().filter(of_script).collect()
}

/// Returns the names of a script's phases in execution order.
fn phases<'a>(rows: &[&'a ResultRow]) -> Vec<&'a str> {
    let mut phases: Vec<&str> = Vec::new();
    for row in rows {
        if !phases.contains(&row.phase.as_str()) {
            phases.push(&row.phase);
        }
    }
    phases
}

/// Formats the dips and the throughput curve of each phase and engine of a script, or returns an
/// empty text for other reports. All curves of a phase have the same scale.
#[must_use]
pub fn text(report: &BenchReport) -> String {
    let rows = rows(report);
    if rows.is_empty() {
        return String::new();
    }
    let mut lines = vec![HEAD.map(str::to_owned).to_vec()];
    let mut curves = String::new();
    for phase in phases(&rows) {
        let of_phase: Vec<&ResultRow> = rows.iter().copied().filter(|row| row.phase == phase).collect();
        lines.extend(of_phase.iter().map(|row| cells(row)));
        curves.push_str(&drawn(phase, &of_phase));
    }
    format!("{}\n{curves}", aligned(&lines, 2))
}

fn cells(row: &ResultRow) -> Vec<String> {
    let of = |of: fn(&ThroughputDips) -> f64, scale: f64| {
        row.dips
            .map_or_else(|| "-".to_owned(), |dips| figures(of(&dips) / scale))
    };
    vec![
        row.phase.clone(),
        row.engine.clone(),
        format!("{:.1}", row.began_s.unwrap_or_default()),
        of(|dips| dips.mean_per_s, 1e3),
        of(|dips| dips.lowest_second_per_s, 1e3),
        of(|dips| dips.later_mean_per_s, 1e3),
        of(|dips| dips.below_s, 1.0),
        of(|dips| dips.longest_below_s, 1.0),
    ]
}

/// Draws the throughput curves of a phase, one line of text per engine.
fn drawn(phase: &str, rows: &[&ResultRow]) -> String {
    let longest = rows.iter().map(|row| row.filled().len()).max().unwrap_or(0);
    let each = longest.div_ceil(CURVE).max(1);
    let curves: Vec<Vec<u64>> = rows.iter().map(|row| joined(row.filled(), each)).collect();
    let most = curves.iter().flatten().copied().max().unwrap_or(0).max(1);
    let interval_ms = rows.iter().map(|row| row.interval_ms).max().unwrap_or(1).max(1);
    let seconds = (each as u64 * interval_ms) as f64 / 1e3;
    let mut text = format!(
        "{phase}: up to {} k/s, {seconds} s a character\n",
        figures(most as f64 / seconds / 1e3)
    );
    let width = rows.iter().map(|row| row.engine.chars().count()).max();
    let width = width.unwrap_or(0);
    for (row, counts) in rows.iter().zip(&curves) {
        let bars: String = counts.iter().map(|&count| bar(count, most)).collect();
        text.push_str(&format!("  {:<width$} |{bars}|\n", row.engine));
    }
    text
}

/// Adds up each group of `each` adjacent intervals. If the last group has fewer, scales its sum up.
fn joined(series: &[u64], each: usize) -> Vec<u64> {
    let chunks = series.chunks(each);
    chunks
        .map(|counts| counts.iter().sum::<u64>() * each as u64 / counts.len() as u64)
        .collect()
}

fn bar(count: u64, most: u64) -> char {
    let steps = BARS.len() as u64 - 1;
    // Round up, so that any value other than zero is visible.
    let height = (u128::from(count) * u128::from(steps)).div_ceil(u128::from(most));
    BARS[(height as usize).min(BARS.len() - 1)]
}

/// Plots a script, with one panel per phase and one line per engine.
///
/// # Errors
/// Returns an error if the plot cannot be drawn.
pub(super) fn plot(report: &BenchReport, engines: &[String]) -> Result<Option<String>> {
    let rows = rows(report);
    let phases = phases(&rows);
    let mut svg = String::new();
    {
        let size = (WIDTH, HEIGHT * phases.len() as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).map_err(wrong)?;
        for (phase, panel) in phases.iter().zip(area.split_evenly((phases.len(), 1))) {
            let lines: Vec<(usize, Vec<(f64, f64)>)> = engines
                .iter()
                .enumerate()
                .filter_map(|(at, engine)| {
                    let of = |row: &&&ResultRow| row.phase == *phase && row.engine == *engine;
                    rows.iter().find(of).map(|row| (at, curve(row)))
                })
                .collect();
            let points = || lines.iter().flat_map(|(_, points)| points.iter());
            let right = points().map(|(x, _)| *x).fold(1e-3, f64::max);
            let top = points().map(|(_, y)| *y).fold(1e-3, f64::max);
            let title = format!("{phase}: thousand operations a second, over seconds");
            let mut chart = ChartBuilder::on(&panel)
                .caption(title, ("sans-serif", 14))
                .margin(6)
                .x_label_area_size(24)
                .y_label_area_size(64)
                .build_cartesian_2d(0.0..right, 0.0..top * 1.1)
                .map_err(wrong)?;
            chart.configure_mesh().y_labels(5).draw().map_err(wrong)?;
            for (engine, points) in lines {
                let series = LineSeries::new(points, colour(engine).stroke_width(2));
                chart.draw_series(series).map_err(wrong)?;
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
    use crate::report::tests::tiny;

    fn scripted() -> BenchReport {
        let mut report = tiny(&["alluvium", "rocksdb"]);
        let names = [("load", "1 load", 0.0), ("c", "2 c:3s", 4.5)];
        for row in &mut report.results {
            let (_, name, began_s) = names.iter().find(|(was, ..)| *was == row.phase).unwrap();
            row.phase = (*name).to_owned();
            row.began_s = Some(*began_s);
            row.series = vec![1000, 0, 500, 2000];
            row.dips = ThroughputDips::of(&row.series, 100, 0.4);
        }
        report
    }

    #[test]
    fn a_script_has_a_line_for_each_phase_and_engine_and_its_curve() {
        let text = text(&scripted());
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        // The second half has 12,500 operations per second. One of its four intervals is below a
        // quarter of this.
        assert_eq!(
            lines[4],
            [
                "2", "c:3s", "rocksdb", "4.5", "8.75", "8.75", "12.5", "0.10", "0.10"
            ],
            "{text}"
        );
        assert!(
            text.contains("2 c:3s: up to 20.0 k/s, 0.1 s a character"),
            "{text}"
        );
        assert!(text.contains("  alluvium |▄ ▂█|\n  rocksdb  |▄ ▂█|\n"), "{text}");
    }

    #[test]
    fn an_interval_that_ended_early_is_not_drawn() {
        let mut report = scripted();
        for row in &mut report.results {
            row.seconds = 0.35;
        }
        assert!(text(&report).contains("  alluvium |█ ▄|"), "{}", text(&report));
    }

    #[test]
    fn other_reports_show_nothing_over_time() {
        assert_eq!(text(&tiny(&["alluvium"])), "");
    }

    #[test]
    fn long_curves_are_joined_and_the_least_is_seen() {
        let series: Vec<u64> = vec![10; 150];
        assert_eq!(joined(&series, 4).len(), 38);
        assert_eq!(joined(&series, 4)[37], 40);
        assert_eq!((bar(0, 1000), bar(1, 1000), bar(1000, 1000)), (' ', '▁', '█'));
    }

    #[test]
    fn the_plot_has_a_panel_for_each_phase() {
        let engines = ["alluvium".to_owned(), "rocksdb".to_owned()];
        let svg = plot(&scripted(), &engines).unwrap().unwrap();
        for words in ["1 load: thousand", "2 c:3s: thousand", "alluvium", "rocksdb"] {
            assert!(svg.contains(words), "{words}");
        }
    }
}
