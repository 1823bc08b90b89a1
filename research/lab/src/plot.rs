//! Plots a measure as SVG. Published values have hollow marks and dashed lines; ours have filled
//! marks. Text and axes inherit their colour from the page, so that the plot works in dark and
//! light pages.

use super::entry::{AxisLayout, AxisPosition, ExperimentMeasure};
use super::measurements::FigureSeries;
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

const SIZE: (u32, u32) = (640, 380);
const FONT: &str = "sans-serif";
/// Height of one legend entry below the axis.
const LEGEND: u32 = 20;

/// Colours that are distinguishable on dark and light backgrounds. These are for published values.
const PUBLISHED: [RGBColor; 3] = [
    RGBColor(217, 119, 6),
    RGBColor(180, 83, 160),
    RGBColor(120, 130, 140),
];
const OURS: [RGBColor; 4] = [
    RGBColor(37, 140, 235),
    RGBColor(16, 160, 110),
    RGBColor(220, 70, 70),
    RGBColor(140, 110, 220),
];

/// The source of a series.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SeriesSource {
    Theirs,
    Ours,
}

/// Values drawn in one colour.
struct PlotSeries {
    name: String,
    whose: SeriesSource,
    colour: RGBColor,
    /// Places, each with its lowest and highest value.
    points: Vec<(AxisPosition, f64, f64)>,
}

type SvgArea<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the published values of a measure and ours. Returns `None` if neither has a number.
///
/// # Errors
/// When it cannot be drawn.
pub fn plot(measure: &ExperimentMeasure, ours: &[FigureSeries]) -> Result<Option<String>> {
    let series = series(measure, ours);
    let most = series
        .iter()
        .flat_map(|series| series.points.iter().map(|(_, _, high)| *high))
        .fold(0.0, f64::max);
    if most <= 0.0 {
        return Ok(None);
    }
    let mut svg = String::new();
    {
        let height = SIZE.1 + LEGEND * series.len() as u32;
        let area = SVGBackend::with_string(&mut svg, (SIZE.0, height)).into_drawing_area();
        let (chart, legend) = area.split_vertically(SIZE.1);
        draw(&chart, measure, &series, most * 1.1)?;
        draw_legend(&legend, &series)?;
        area.present().map_err(wrong)?;
    }
    let label = format!("{}, {}", measure.name, measure.unit);
    let head = format!(
        "<svg role=\"img\" aria-label=\"{}\" ",
        alluvium_bench::report::page::escaped(&label)
    );
    // The plotting library's black becomes the colour of the surrounding text.
    let svg = svg.replace("\"#000000\"", "\"currentColor\"");
    Ok(Some(svg.replacen("<svg ", &head, 1)))
}

fn series(measure: &ExperimentMeasure, ours: &[FigureSeries]) -> Vec<PlotSeries> {
    let published = measure.published.iter().zip(PUBLISHED.iter().cycle());
    let published = published.map(|(published, colour)| PlotSeries {
        name: format!("{} (published)", published.name),
        whose: SeriesSource::Theirs,
        colour: *colour,
        points: published
            .points
            .iter()
            .filter_map(|point| {
                let (low, high) = point.value.span()?;
                Some((point.at.clone(), low, high))
            })
            .collect(),
    });
    let ours = ours
        .iter()
        .zip(OURS.iter().cycle())
        .map(|(line, colour)| PlotSeries {
            name: format!("{} (ours)", line.name),
            whose: SeriesSource::Ours,
            colour: *colour,
            points: line
                .points
                .iter()
                .map(|spot| (spot.at.clone(), spot.value, spot.value))
                .collect(),
        });
    published
        .chain(ours)
        .filter(|series| !series.points.is_empty())
        .collect()
}

fn wrong(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("drawing a plot: {error}")
}

fn draw(area: &SvgArea<'_>, measure: &ExperimentMeasure, series: &[PlotSeries], top: f64) -> Result<()> {
    let numbers = series.iter().flat_map(|series| series.points.iter());
    let numbers: Vec<f64> = numbers.filter_map(|(at, _, _)| at.number()).collect();
    let right = numbers.iter().copied().fold(0.0, f64::max);
    match measure.axis.form {
        AxisLayout::Names => draw_names(area, measure, series, top),
        AxisLayout::Linear => draw_numbers(area, measure, series, 0.0..(right * 1.04).max(1.0), top),
        AxisLayout::Logarithmic => {
            let left = numbers.iter().copied().fold(f64::MAX, f64::min).max(1e-3);
            let range = left * 0.8..(right * 1.25).max(left * 2.0);
            draw_numbers(area, measure, series, range.log_scale(), top)
        }
    }
}

/// Draws marks at numeric places and joins them with lines.
fn draw_numbers<X>(
    area: &SvgArea<'_>,
    measure: &ExperimentMeasure,
    series: &[PlotSeries],
    range: X,
    top: f64,
) -> Result<()>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(range, 0.0..top)
        .map_err(wrong)?;
    chart
        .configure_mesh()
        .light_line_style(BLACK.mix(0.06))
        .bold_line_style(BLACK.mix(0.16))
        .x_desc(measure.axis.name)
        .x_label_formatter(&|x| super::entry::figure(*x))
        .y_label_formatter(&|y| super::entry::figure(*y))
        .label_style((FONT, 14))
        .axis_desc_style((FONT, 14))
        .draw()
        .map_err(wrong)?;
    for one in series {
        let colour = one.colour;
        let middles = || {
            let place =
                |(at, low, high): &(AxisPosition, f64, f64)| Some((at.number()?, f64::midpoint(*low, *high)));
            one.points.iter().filter_map(place)
        };
        match one.whose {
            SeriesSource::Theirs => {
                let style = colour.stroke_width(2);
                let line = DashedLineSeries::new(middles(), 6, 5, style);
                chart.draw_series(line).map_err(wrong)?;
                let marks = middles().map(|place| Circle::new(place, 5, style));
                chart.draw_series(marks).map_err(wrong)?;
            }
            SeriesSource::Ours => {
                let line = LineSeries::new(middles(), colour.stroke_width(2));
                chart.draw_series(line).map_err(wrong)?;
                let marks = middles().map(|place| Circle::new(place, 4, colour.filled()));
                chart.draw_series(marks).map_err(wrong)?;
            }
        }
        let ranges = one.points.iter().filter(|(_, low, high)| low < high);
        let ranges = ranges.filter_map(|(at, low, high)| {
            let x = at.number()?;
            Some(PathElement::new([(x, *low), (x, *high)], colour.stroke_width(3)))
        });
        chart.draw_series(ranges).map_err(wrong)?;
    }
    Ok(())
}

/// Draws grouped bars at the categories. Published bars are hollow; they extend from zero to the
/// middle of their range, and a stroke shows the range.
fn draw_names(
    area: &SvgArea<'_>,
    measure: &ExperimentMeasure,
    series: &[PlotSeries],
    top: f64,
) -> Result<()> {
    let mut places: Vec<&AxisPosition> = Vec::new();
    for (at, _, _) in series.iter().flat_map(|series| &series.points) {
        if !places.contains(&at) {
            places.push(at);
        }
    }
    let name = |x: &f64| {
        // Labels are centred on their place.
        let place = x.floor() as usize;
        places.get(place).map_or_else(String::new, ToString::to_string)
    };
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..places.len() as f64, 0.0..top)
        .map_err(wrong)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .light_line_style(BLACK.mix(0.06))
        .bold_line_style(BLACK.mix(0.16))
        .x_desc(measure.axis.name)
        .y_label_formatter(&|y| super::entry::figure(*y))
        .label_style((FONT, 14))
        .axis_desc_style((FONT, 14))
        .draw()
        .map_err(wrong)?;
    let width = 0.8 / series.len() as f64;
    for (number, one) in series.iter().enumerate() {
        for (at, low, high) in &one.points {
            let Some(place) = places.iter().position(|place| *place == at) else {
                continue;
            };
            let left = place as f64 + 0.1 + number as f64 * width;
            let corners = [(left, 0.0), (left + width * 0.88, f64::midpoint(*low, *high))];
            let style = match one.whose {
                SeriesSource::Theirs => one.colour.stroke_width(2),
                SeriesSource::Ours => one.colour.filled(),
            };
            chart
                .draw_series([Rectangle::new(corners, style)])
                .map_err(wrong)?;
            if low < high {
                let x = left + width * 0.44;
                let stroke = PathElement::new([(x, *low), (x, *high)], one.colour.stroke_width(3));
                chart.draw_series([stroke]).map_err(wrong)?;
            }
        }
    }
    let drawn = chart.plotting_area();
    let (across, down) = drawn.get_pixel_range();
    for number in 0..places.len() {
        let middle = number as f64 + 0.5;
        let x = across.start + (f64::from(across.end - across.start) * middle / places.len() as f64) as i32;
        let style = TextStyle::from((FONT, 14).into_font()).pos(plotters::style::text_anchor::Pos::new(
            plotters::style::text_anchor::HPos::Center,
            plotters::style::text_anchor::VPos::Top,
        ));
        let base = area.get_base_pixel();
        let text = Text::new(name(&middle), (x - base.0, down.end - base.1 + 6), style);
        area.draw(&text).map_err(wrong)?;
    }
    Ok(())
}

fn draw_legend(area: &SvgArea<'_>, series: &[PlotSeries]) -> Result<()> {
    for (number, one) in series.iter().enumerate() {
        let top = LEGEND as i32 * number as i32;
        let style = match one.whose {
            SeriesSource::Theirs => one.colour.stroke_width(2),
            SeriesSource::Ours => one.colour.filled(),
        };
        let square = Rectangle::new([(70, top + 2), (82, top + 14)], style);
        area.draw(&square).map_err(wrong)?;
        let text = Text::new(one.name.clone(), (90, top + 1), (FONT, 14));
        area.draw(&text).map_err(wrong)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FigurePoint, experiments};

    /// Returns a line with a figure at each place where the document has a value.
    fn line(measure: &ExperimentMeasure) -> FigureSeries {
        let points = measure.published.iter().flat_map(|published| published.points);
        let spots = points.enumerate().map(|(number, point)| FigurePoint {
            at: point.at.clone(),
            value: 1.0 + number as f64,
        });
        FigureSeries {
            name: "alluvium".into(),
            points: spots.collect(),
        }
    }

    #[test]
    fn every_measure_can_be_drawn_with_both() {
        for measure in experiments().flat_map(|experiment| experiment.measures) {
            let is_stated = !measure.published.is_empty();
            let svg = plot(measure, &[line(measure)]).unwrap();
            assert_eq!(svg.is_some(), is_stated, "{}", measure.name);
            let Some(svg) = svg else { continue };
            assert!(svg.starts_with("<svg role=\"img\"") && svg.trim_end().ends_with("</svg>"));
            assert!(svg.contains("alluvium (ours)") && !svg.contains("#000000"));
        }
    }

    #[test]
    fn words_alone_are_no_plot() {
        let is_words = |measure: &&ExperimentMeasure| {
            let points = measure.published.iter().flat_map(|published| published.points);
            measure.published.len() == 1 && points.into_iter().all(|point| point.value.span().is_none())
        };
        let all = experiments().flat_map(|one| one.measures);
        let words: Vec<&ExperimentMeasure> = all.filter(is_words).collect();
        assert!(words.len() >= 4, "theorems are in words");
        for measure in words {
            assert!(plot(measure, &[]).unwrap().is_none(), "{}", measure.name);
        }
    }
}
