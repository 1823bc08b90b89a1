//! Plots of a run: costs and scores over the steps, aged and unaged; and the extents of each round.

use super::report::requests_per_gib;
use super::state::{AgingRow, RunState, TreeAge};
use crate::measure::picture::{COLOURS, PictureSpan};
use crate::{Error, ErrorContext, Result};
use plotters::prelude::*;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// A line of a plot.
struct PlotSeries {
    name: String,
    colour: RGBColor,
    age: TreeAge,
    points: Vec<(f64, f64)>,
}

/// Draws all plots of a run, and returns their names and contents.
///
/// # Errors
/// A plot cannot be drawn.
pub fn plots(state: &RunState) -> Result<Vec<(&'static str, String)>> {
    let kind = state.plan.workload.kind;
    let mut plots = Vec::new();
    let mut add = |name, title: &str, of: fn(&AgingRow) -> Option<f64>| -> Result<()> {
        let lines = lines(state, of);
        let title = format!("{kind}: {title}");
        if lines.iter().any(|line| line.points.len() > 1) {
            plots.push((name, draw(&title, kind.step_name(), &lines)?));
        }
        Ok(())
    };
    add("cost.svg", "seconds per GiB of a recursive grep", |row| {
        Some(row.seconds_per_gib)
    })?;
    add("score.svg", "layout score over blocks", AgingRow::score)?;
    add("requests.svg", "device reads per GiB", requests_per_gib)?;
    add("predicted.svg", "predicted seconds per GiB", |row| {
        let gib = row.ext4_bytes as f64 / f64::from(1 << 30);
        row.predicted_s.map(|seconds| seconds / gib)
    })?;
    Ok(plots)
}

fn lines(state: &RunState, of: fn(&AgingRow) -> Option<f64>) -> Vec<PlotSeries> {
    let mut lines = Vec::new();
    for ((name, series), colour) in state.series.iter().zip(COLOURS.iter().cycle()) {
        for age in [TreeAge::Aged, TreeAge::Unaged] {
            let rows = series.rows.iter().filter(|row| row.age == age);
            lines.push(PlotSeries {
                name: name.clone(),
                colour: *colour,
                age,
                points: rows.filter_map(|row| Some((row.step as f64, of(row)?))).collect(),
            });
        }
    }
    lines
}

fn wrong(error: impl std::fmt::Display) -> Error {
    Error::Refused(format!("a plot cannot be drawn: {error}"))
}

/// Draws lines. Those of aged trees are solid, and those of unaged trees have points.
fn draw(title: &str, steps: &str, lines: &[PlotSeries]) -> Result<String> {
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let right = points().map(|(x, _)| x).fold(1.0, f64::max);
    let top = points().map(|(_, y)| y).fold(0.0, f64::max);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (960, 420)).into_drawing_area();
        area.fill(&WHITE).map_err(wrong)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..right, 0.0..(top * 1.1).max(1e-6))
            .map_err(wrong)?;
        chart.configure_mesh().x_desc(steps).draw().map_err(wrong)?;
        for line in lines {
            let colour = line.colour;
            match line.age {
                TreeAge::Aged => {
                    let drawn = LineSeries::new(line.points.iter().copied(), colour.stroke_width(2));
                    let drawn = chart.draw_series(drawn).map_err(wrong)?;
                    drawn.label(format!("{} aged", line.name)).legend(move |(x, y)| {
                        PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2))
                    });
                }
                TreeAge::Unaged => {
                    let thin = LineSeries::new(line.points.iter().copied(), colour.mix(0.5));
                    chart.draw_series(thin).map_err(wrong)?;
                    let dots = line.points.iter().map(|point| Circle::new(*point, 3, colour));
                    let drawn = chart.draw_series(dots).map_err(wrong)?;
                    drawn
                        .label(format!("{} unaged", line.name))
                        .legend(move |(x, y)| Circle::new((x + 8, y), 3, colour));
                }
            }
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .draw()
            .map_err(wrong)?;
        area.present().map_err(wrong)?;
    }
    Ok(svg)
}

/// The extents of all rounds of a workload, in a file from which the picture is drawn.
#[derive(Debug, Default)]
pub(super) struct RoundExtents {
    spans: Vec<PictureSpan>,
}

impl RoundExtents {
    fn path(output: &Path, name: &str) -> PathBuf {
        output.join(format!("extents-{name}.csv"))
    }

    /// Reads the rounds of an interrupted run.
    pub(super) fn read(output: &Path, name: &str) -> Result<RoundExtents> {
        let path = RoundExtents::path(output, name);
        if !path.exists() {
            return Ok(RoundExtents::default());
        }
        let text = fs::read_to_string(&path).at("reading", &path)?;
        let span = |line: &str| {
            let numbers: Vec<u64> = line.split(',').map_while(|cell| cell.parse().ok()).collect();
            let [row, colour, start, length] = numbers[..] else {
                return None;
            };
            Some(PictureSpan {
                row,
                colour: colour as usize,
                start,
                length,
            })
        };
        Ok(RoundExtents {
            spans: text.lines().filter_map(span).collect(),
        })
    }

    /// Sets the extents of a round.
    pub(super) fn replace(&mut self, round: u64, spans: &[PictureSpan]) {
        self.spans.retain(|span| span.row != round);
        self.spans.extend_from_slice(spans);
    }

    pub(super) fn save(&self, output: &Path, name: &str) -> Result<()> {
        let mut text = String::from("round,file,first_byte,bytes\n");
        for span in &self.spans {
            let _ = writeln!(
                text,
                "{},{},{},{}",
                span.row, span.colour, span.start, span.length
            );
        }
        let path = RoundExtents::path(output, name);
        fs::write(&path, text).at("writing", &path)
    }

    pub(super) fn spans(&self) -> &[PictureSpan] {
        &self.spans
    }
}
