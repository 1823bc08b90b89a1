//! Bar charts drawn with characters. A bar shows a measurement, and a mark shows the value that the
//! fitted model predicts.

use crate::verbs::probe::plural;
use alluvium_base::measurements::{DeviceMeasurements, IssueMode, OffsetOrder, ProbePoint};
use alluvium_model::probe::{DeviceParallelism, ProbeConclusions, RequestCosts};

/// Length of the longest bar in characters.
const WIDTH: f64 = 48.0;

pub(super) struct BarChart {
    pub(super) title: String,
    pub(super) bars: Vec<ChartBar>,
}

/// A bar of a chart: its name, the measured value, and the value that the fitted model predicts.
pub(super) struct ChartBar {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) fit: Option<f64>,
}

/// Returns the charts for reads and for writes: throughput by request size and by queue depth.
pub(super) fn charts(measured: &DeviceMeasurements, conclusions: &ProbeConclusions) -> Vec<BarChart> {
    let mut charts = Vec::new();
    for costs in [&conclusions.reads, &conclusions.writes] {
        charts.push(over_size(measured, costs));
        charts.push(over_depth(measured, costs));
    }
    charts.retain(|chart| chart.bars.len() > 1);
    charts
}

const MIB: f64 = 1024.0 * 1024.0;

/// For each kind of request that `is_wanted` accepts, returns the mean over all rounds of the value
/// that `of` extracts from a sample.
fn means(
    measured: &DeviceMeasurements,
    is_wanted: impl Fn(ProbePoint) -> bool,
    of: impl Fn(&alluvium_base::measurements::ProbeSample) -> f64,
) -> Vec<(ProbePoint, f64)> {
    let first = measured.samples.iter().filter(|window| window.round == 0);
    let points = first.map(|window| window.point).filter(|point| is_wanted(*point));
    points
        .map(|point| {
            let all: Vec<f64> = measured.samples_of(point).map(&of).collect();
            (point, all.iter().sum::<f64>() / all.len() as f64)
        })
        .collect()
}

fn is_steady(point: ProbePoint, costs: &RequestCosts) -> bool {
    point.kind == costs.kind && point.order == OffsetOrder::Random && point.issue == IssueMode::Steady
}

fn over_size(measured: &DeviceMeasurements, costs: &RequestCosts) -> BarChart {
    let seconds = means(
        measured,
        |point| is_steady(point, costs) && point.depth == 1,
        |window| window.typical_ns as f64 / 1e9,
    );
    let fit = costs.affine.as_ref().ok().map(|fitted| fitted.fit);
    let mut bars: Vec<(u64, ChartBar)> = seconds
        .into_iter()
        .filter(|(_, seconds)| *seconds > 0.0)
        .map(|(point, seconds)| {
            let bytes = point.bytes as f64;
            let bar = ChartBar {
                name: short(point.bytes),
                value: bytes / seconds / MIB,
                fit: fit.map(|fit| bytes / fit.seconds(bytes) / MIB),
            };
            (point.bytes, bar)
        })
        .collect();
    bars.sort_by_key(|&(bytes, _)| bytes);
    BarChart {
        title: format!(
            "random {}, one at a time: MiB/s by size (│ affine model)",
            plural(costs.kind)
        ),
        bars: bars.into_iter().map(|(_, bar)| bar).collect(),
    }
}

fn over_depth(measured: &DeviceMeasurements, costs: &RequestCosts) -> BarChart {
    let rates = means(
        measured,
        |point| is_steady(point, costs) && point.bytes == alluvium_device::probe::STEP,
        |window| window.undisturbed_bytes_per_s() / MIB,
    );
    let fit = costs.parallel.as_ref().ok();
    // The curve is that of the fitted model alone, whose throughput grows with the queue depth up
    // to the device's parallelism.
    let of_fit = |depth: f64| {
        let fit = fit?;
        match costs.parallelism {
            DeviceParallelism::Knee(knee) => Some(fit.plateau * depth.min(knee) / knee),
            DeviceParallelism::Beyond(_) => Some(fit.per_request * depth),
            DeviceParallelism::One | DeviceParallelism::Unknown => None,
        }
    };
    let mut bars: Vec<(u32, ChartBar)> = rates
        .into_iter()
        .map(|(point, rate)| {
            let bar = ChartBar {
                name: point.depth.to_string(),
                value: rate,
                fit: of_fit(f64::from(point.depth)),
            };
            (point.depth, bar)
        })
        .collect();
    bars.sort_by_key(|&(depth, _)| depth);
    BarChart {
        title: format!(
            "random {} of 64 KiB: MiB/s by requests under way (│ PDAM)",
            plural(costs.kind)
        ),
        bars: bars.into_iter().map(|(_, bar)| bar).collect(),
    }
}

/// Formats a power of two in as few characters as possible.
fn short(bytes: u64) -> String {
    match bytes {
        ..1_048_576 => format!("{}K", bytes >> 10),
        _ => format!("{}M", bytes >> 20),
    }
}

/// Returns the lines of a chart, without its title.
pub(super) fn lines(chart: &BarChart) -> Vec<String> {
    let values = chart.bars.iter().flat_map(|bar| [Some(bar.value), bar.fit]);
    let most = values.flatten().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let names = chart.bars.iter().map(|bar| bar.name.len()).max().unwrap_or(0);
    let line = |bar: &ChartBar| {
        let cells = bar.value / most * WIDTH;
        let mark = bar.fit.map(|fit| (fit / most * WIDTH).round() as usize);
        let mut text = String::new();
        for cell in 0..=WIDTH as usize {
            text.push(match cells - cell as f64 {
                _ if mark == Some(cell) => '│',
                whole if whole >= 0.75 => '█',
                half if half >= 0.25 => '▌',
                _ => ' ',
            });
        }
        format!("{:>names$}  {text} {}", bar.name, figures(bar.value))
    };
    chart.bars.iter().map(line).collect()
}

/// Formats a number with three significant digits.
pub(super) fn figures(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values_and_the_mark_stands_at_the_fit() {
        let bar = |name: &str, value, fit| ChartBar {
            name: name.to_owned(),
            value,
            fit,
        };
        let chart = BarChart {
            title: String::new(),
            bars: vec![
                bar("4K", 25.0, Some(50.0)),
                bar("16K", 100.0, None),
                bar("1M", 0.0, None),
            ],
        };
        let lines = lines(&chart);
        let count = |line: &str, wanted| line.chars().filter(|one| *one == wanted).count();
        assert_eq!(
            (
                count(&lines[0], '█'),
                count(&lines[1], '█'),
                count(&lines[2], '█')
            ),
            (12, 48, 0)
        );
        assert_eq!(lines[0].chars().position(|one| one == '│'), Some(5 + 24));
        assert!(
            lines[0].starts_with(" 4K  █") && lines[1].ends_with(" 100"),
            "{lines:?}"
        );
        assert_eq!(
            [0.5, 5.0, 50.0, 500.0].map(figures),
            ["0.500", "5.00", "50.0", "500"]
        );
    }
}
