//! Draws measured costs as SVG: times by request size, and throughput by queue depth, each with the
//! fitted model.

use super::plural;
use alluvium_base::cost::AccessKind;
use alluvium_base::measurements::{DeviceMeasurements, IssueMode, OffsetOrder};
use alluvium_model::probe::{DeviceParallelism, ProbeConclusions, RequestCosts};
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

const SIZE: (u32, u32) = (960, 400);
const FONT: &str = "sans-serif";

type PlotArea<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn wrong(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("drawing the costs: {error}")
}

fn colour(kind: AccessKind) -> RGBColor {
    match kind {
        AccessKind::Read => RGBColor(37, 140, 235),
        AccessKind::Write => RGBColor(217, 119, 6),
    }
}

/// The data of reads or of writes. Samples are drawn as circles, and the fitted model as a line.
struct CostSeries {
    kind: AccessKind,
    samples: Vec<(f64, f64)>,
    line: Vec<(f64, f64)>,
}

/// Draws both charts next to each other.
///
/// # Errors
/// Returns an error if drawing fails. This happens only if there are no measurements.
pub(super) fn draw(measured: &DeviceMeasurements, conclusions: &ProbeConclusions) -> Result<String> {
    let both = [&conclusions.reads, &conclusions.writes];
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(wrong)?;
        let (left, right) = area.split_horizontally(SIZE.0 / 2);
        let times = both.map(|costs| over_size(measured, costs));
        chart(&left, "microseconds of a random request, by KiB", &times)?;
        let rates = both.map(|costs| over_depth(measured, costs));
        chart(&right, "MiB/s of random 64 KiB, by requests under way", &rates)?;
        area.present().map_err(wrong)?;
    }
    Ok(svg)
}

fn over_size(measured: &DeviceMeasurements, costs: &RequestCosts) -> CostSeries {
    let windows = measured.samples.iter().filter(|window| {
        let point = window.point;
        point.kind == costs.kind
            && point.order == OffsetOrder::Random
            && point.issue == IssueMode::Steady
            && point.depth == 1
    });
    let samples: Vec<(f64, f64)> = windows
        .map(|window| (window.point.bytes as f64 / 1024.0, window.typical_ns as f64 / 1e3))
        .collect();
    let fit = costs.affine.as_ref().ok().map(|fitted| fitted.fit);
    let line = fit.map(|fit| along(&samples, |kib| fit.seconds(kib * 1024.0) * 1e6));
    CostSeries {
        kind: costs.kind,
        samples,
        line: line.unwrap_or_default(),
    }
}

fn over_depth(measured: &DeviceMeasurements, costs: &RequestCosts) -> CostSeries {
    let windows = measured.samples.iter().filter(|window| {
        let point = window.point;
        point.kind == costs.kind
            && point.order == OffsetOrder::Random
            && point.issue == IssueMode::Steady
            && point.bytes == alluvium_device::probe::STEP
    });
    let samples: Vec<(f64, f64)> = windows
        .map(|window| {
            let mib_s = window.undisturbed_bytes_per_s() / (1024.0 * 1024.0);
            (f64::from(window.point.depth), mib_s)
        })
        .collect();
    let line = match (&costs.parallel, costs.parallelism) {
        (Ok(fit), DeviceParallelism::Knee(knee)) => {
            along(&samples, |depth| fit.plateau * depth.min(knee) / knee)
        }
        _ => Vec::new(),
    };
    CostSeries {
        kind: costs.kind,
        samples,
        line,
    }
}

/// Returns closely spaced points on a logarithmic axis along a curve, from the first to the last
/// sample.
fn along(samples: &[(f64, f64)], of: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    const STEPS: u32 = 96;
    let Some((least, most)) = range(samples.iter().map(|&(x, _)| x)) else {
        return Vec::new();
    };
    (0..=STEPS)
        .map(|step| least * (most / least).powf(f64::from(step) / f64::from(STEPS)))
        .map(|x| (x, of(x)))
        .collect()
}

fn range(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let positive = values.filter(|value| *value > 0.0);
    let least = positive.clone().fold(f64::INFINITY, f64::min);
    let most = positive.fold(0.0, f64::max);
    (least <= most).then_some((least, most))
}

/// Draws a chart with two series. Both axes are logarithmic.
fn chart(area: &PlotArea<'_>, title: &str, series: &[CostSeries; 2]) -> Result<()> {
    let points = || {
        series
            .iter()
            .flat_map(|series| series.samples.iter().chain(&series.line).copied())
    };
    let nothing = || anyhow!("drawing the costs: there are no samples of {title}");
    let (left, right) = range(points().map(|(x, _)| x)).ok_or_else(nothing)?;
    let (low, high) = range(points().map(|(_, y)| y)).ok_or_else(nothing)?;
    let x = (left * 0.9..right * 1.1).log_scale();
    let y = (low * 0.7..high * 1.4).log_scale();
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 15))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(56)
        .build_cartesian_2d(x, y)
        .map_err(wrong)?;
    chart.configure_mesh().draw().map_err(wrong)?;
    for (at, series) in series.iter().enumerate() {
        let colour = colour(series.kind);
        let circles = series.samples.iter().filter(|(_, y)| *y > 0.0);
        chart
            .draw_series(circles.map(|&point| Circle::new(point, 3, colour.stroke_width(1))))
            .map_err(wrong)?;
        chart
            .draw_series(LineSeries::new(
                series.line.iter().copied(),
                colour.stroke_width(2),
            ))
            .map_err(wrong)?;
        let place = (80, 40 + 16 * at as i32);
        let name = Text::new(plural(series.kind), place, (FONT, 13).into_font().color(&colour));
        area.draw(&name).map_err(wrong)?;
    }
    Ok(())
}
