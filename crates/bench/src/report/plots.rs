//! Draws SVG plots: bars for each phase, and lines over time and over percentiles.

use super::{BenchReport, script, transactions};
use crate::run::ResultRow;
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

/// A plot, as SVG.
#[derive(Clone, Debug)]
pub struct SvgPlot {
    /// Suffix of the file name.
    pub name: &'static str,
    pub svg: String,
}

pub(super) const WIDTH: u32 = 960;
const SIZE: (u32, u32) = (WIDTH, 420);

/// The colours of engines in plots. No two engines have the same colour.
const COLOURS: [RGBColor; 8] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(214, 39, 40),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(127, 127, 127),
    RGBColor(23, 190, 207),
];

/// Draws all plots that the report has data for.
///
/// # Errors
/// Returns an error if a plot cannot be drawn.
pub fn plots(report: &BenchReport) -> Result<Vec<SvgPlot>> {
    let engines = names(&report.results, |row| &row.engine);
    let phases = names(&report.results, |row| &row.phase);
    let bars = |title: &str, of: &dyn Fn(&ResultRow) -> Option<f64>| {
        let groups: Vec<BarGroup> = phases
            .iter()
            .map(|phase| BarGroup {
                name: phase.clone(),
                values: engines
                    .iter()
                    .map(|engine| find(report, engine, phase).and_then(of))
                    .collect(),
            })
            .filter(|group| group.values.iter().flatten().any(|value| *value > 0.0))
            .collect();
        draw_bars(title, &engines, &groups)
    };
    let done = |row: &ResultRow| row.operations > 0;
    let mut plots = Vec::new();
    let mut add = |name, svg: Result<Option<String>>| -> Result<()> {
        plots.extend(svg?.map(|svg| SvgPlot { name, svg }));
        Ok(())
    };
    add(
        "throughput",
        bars("thousand operations a second", &|row| {
            done(row).then_some(row.ops_per_s / 1e3)
        }),
    )?;
    add(
        "processor",
        bars("microseconds of processor time for an operation", &|row| {
            done(row).then_some(row.cpu_us_per_op)
        }),
    )?;
    add(
        "reads",
        bars("device reads for an operation", &|row| {
            (done(row) && row.device_reads > 0).then(|| row.reads_per_op())
        }),
    )?;
    add(
        "write-amplification",
        bars("bytes written for each byte of the user", &|row| {
            row.write_amplification
        }),
    )?;
    add(
        "space",
        bars("bytes on the device for each byte of the records", &|row| {
            row.space_amplification
        }),
    )?;
    add("clients", transactions::plot(report, &engines))?;
    add("latency", latency(report, &engines, &phases))?;
    match script::rows(report).is_empty() {
        true => add("over-time", over_time(report, &engines, &phases))?,
        false => add("over-time", script::plot(report, &engines))?,
    }
    Ok(plots)
}

/// Returns the distinct names in the rows, in the order of their first occurrence.
fn names(rows: &[ResultRow], of: impl Fn(&ResultRow) -> &String) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in rows {
        if !names.contains(of(row)) {
            names.push(of(row).clone());
        }
    }
    names
}

fn find<'a>(report: &'a BenchReport, engine: &str, phase: &str) -> Option<&'a ResultRow> {
    report
        .results
        .iter()
        .find(|row| row.engine == engine && row.phase == phase)
}

/// Adjacent bars, one per engine.
struct BarGroup {
    name: String,
    values: Vec<Option<f64>>,
}

/// An engine's line in a plot.
struct PlotLine {
    colour: RGBColor,
    points: Vec<(f64, f64)>,
}

pub(super) type PlotCanvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub(super) fn wrong(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("drawing a plot: {error}")
}

pub(super) fn colour(engine: usize) -> RGBColor {
    COLOURS[engine % COLOURS.len()]
}

fn draw_bars(title: &str, engines: &[String], groups: &[BarGroup]) -> Result<Option<String>> {
    let all = || {
        groups
            .iter()
            .flat_map(|group| group.values.iter().flatten().copied())
    };
    let most = all().fold(0.0, f64::max);
    if most <= 0.0 {
        return Ok(None);
    }
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(wrong)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..groups.len() as f64, 0.0..most * 1.15)
            .map_err(wrong)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(0)
            .draw()
            .map_err(wrong)?;
        let width = 0.8 / engines.len() as f64;
        for (at, group) in groups.iter().enumerate() {
            for (engine, value) in group.values.iter().enumerate() {
                let Some(value) = *value else { continue };
                let left = at as f64 + 0.1 + engine as f64 * width;
                let bar = Rectangle::new(
                    [(left, 0.0), (left + width * 0.92, value)],
                    colour(engine).filled(),
                );
                let label = Text::new(
                    super::table::figures(value),
                    (left, value + most * 0.05),
                    ("sans-serif", 10),
                );
                chart.draw_series([bar]).map_err(wrong)?;
                chart.draw_series([label]).map_err(wrong)?;
            }
            let name = Text::new(
                group.name.clone(),
                (at as f64 + 0.12, -most * 0.04),
                ("sans-serif", 12),
            );
            chart.plotting_area().draw(&name).map_err(wrong)?;
        }
        legend(&area, engines)?;
        area.present().map_err(wrong)?;
    }
    Ok(Some(svg))
}

pub(super) fn legend(area: &PlotCanvas<'_>, engines: &[String]) -> Result<()> {
    for (engine, name) in engines.iter().enumerate() {
        let (left, top) = (WIDTH as i32 - 150, 12 + 16 * engine as i32);
        let square = Rectangle::new([(left, top), (left + 10, top + 10)], colour(engine).filled());
        area.draw(&square).map_err(wrong)?;
        let text = Text::new(name.clone(), (left + 16, top), ("sans-serif", 12));
        area.draw(&text).map_err(wrong)?;
    }
    Ok(())
}

/// Plots the latencies of the first phase with reads, by percentile. Both axes are logarithmic. On
/// the horizontal axis, each step to the right stands for operations that are ten times rarer.
fn latency(report: &BenchReport, engines: &[String], phases: &[String]) -> Result<Option<String>> {
    let Some(phase) = phases
        .iter()
        .find(|phase| !phase.ends_with("load") && phase.as_str() != "settle")
    else {
        return Ok(None);
    };
    let rarity = |percentile: f64| 100.0 / (100.0 - percentile).max(0.001);
    let lines = lines(report, engines, phase, |row| {
        let curve = row.latency.curve.iter();
        curve.map(|&(percentile, us)| (rarity(percentile), us)).collect()
    });
    let title = format!("latency, microseconds: one operation of {phase} in this many takes longer");
    draw_lines(&title, engines, &lines, PlotScale::Logarithmic)
}

/// Plots throughput over time, of the load or else of the first phase.
fn over_time(report: &BenchReport, engines: &[String], phases: &[String]) -> Result<Option<String>> {
    let Some(phase) = phases.iter().find(|phase| *phase == "load").or(phases.first()) else {
        return Ok(None);
    };
    let lines = lines(report, engines, phase, curve);
    let title = format!("{phase}: thousand operations a second, over seconds");
    draw_lines(&title, engines, &lines, PlotScale::Linear)
}

/// Returns the throughput of a phase as a curve of seconds since its start and thousands of
/// operations per second. The curve has at most a few hundred points, each the mean of adjacent
/// intervals.
pub(super) fn curve(row: &ResultRow) -> Vec<(f64, f64)> {
    let seconds = row.interval_ms as f64 / 1e3;
    let series = row.filled();
    let each = series.len().div_ceil(400).max(1);
    let chunks = series.chunks(each).enumerate();
    chunks
        .map(|(at, counts)| {
            let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
            ((at * each) as f64 * seconds, mean / seconds / 1e3)
        })
        .collect()
}

fn lines(
    report: &BenchReport,
    engines: &[String],
    phase: &str,
    of: impl Fn(&ResultRow) -> Vec<(f64, f64)>,
) -> Vec<PlotLine> {
    let line = |(at, engine): (usize, &String)| {
        let row = find(report, engine, phase).filter(|row| row.operations > 0)?;
        Some(PlotLine {
            colour: colour(at),
            points: of(row),
        })
    };
    engines.iter().enumerate().filter_map(line).collect()
}

#[derive(Clone, Copy)]
enum PlotScale {
    Linear,
    Logarithmic,
}

fn draw_lines(
    title: &str,
    engines: &[String],
    lines: &[PlotLine],
    scale: PlotScale,
) -> Result<Option<String>> {
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    if points().count() < 2 {
        return Ok(None);
    }
    let right = points().map(|(x, _)| x).fold(0.0, f64::max);
    let top = points().map(|(_, y)| y).fold(0.0, f64::max);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(wrong)?;
        let mut builder = ChartBuilder::on(&area);
        builder
            .caption(title, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(64);
        let style = |line: &PlotLine| line.colour.stroke_width(2);
        match scale {
            PlotScale::Linear => {
                let mut chart = builder
                    .build_cartesian_2d(0.0..right.max(1e-3), 0.0..(top * 1.1).max(1e-3))
                    .map_err(wrong)?;
                chart.configure_mesh().draw().map_err(wrong)?;
                for line in lines {
                    let series = LineSeries::new(line.points.iter().copied(), style(line));
                    chart.draw_series(series).map_err(wrong)?;
                }
            }
            PlotScale::Logarithmic => {
                let least = points().map(|(_, y)| y).fold(f64::MAX, f64::min).max(0.01);
                let (x, y) = (
                    (1.0..right).log_scale(),
                    (least..top.max(least * 2.0)).log_scale(),
                );
                let mut chart = builder.build_cartesian_2d(x, y).map_err(wrong)?;
                chart.configure_mesh().draw().map_err(wrong)?;
                for line in lines {
                    let points = line.points.iter().map(|&(x, y)| (x, y.max(least)));
                    chart
                        .draw_series(LineSeries::new(points, style(line)))
                        .map_err(wrong)?;
                }
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

    #[test]
    fn every_plot_names_every_engine() {
        let plots = plots(&tiny(&["alluvium", "rocksdb"])).unwrap();
        let names: Vec<&str> = plots.iter().map(|plot| plot.name).collect();
        assert_eq!(
            names,
            [
                "throughput",
                "processor",
                "reads",
                "write-amplification",
                "space",
                "latency",
                "over-time"
            ]
        );
        for plot in &plots {
            assert!(plot.svg.starts_with("<svg") && plot.svg.trim_end().ends_with("</svg>"));
            for engine in ["alluvium", "rocksdb"] {
                assert!(plot.svg.contains(engine), "{engine} in {}", plot.name);
            }
        }
    }

    #[test]
    fn a_report_without_figures_has_no_plots() {
        let mut report = tiny(&["alluvium"]);
        report.results.clear();
        assert!(plots(&report).unwrap().is_empty());
    }
}
