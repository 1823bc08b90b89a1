//! Draws where blocks lie on the device, as SVG: address to the right, file or round upwards, one
//! colour per file (Conway 2020, Fig. 4.3).

use super::layout::FileLayout;
use crate::{Error, Result};
use plotters::prelude::*;

/// The colours of files and of file systems. They repeat after the last one.
pub const COLOURS: [RGBColor; 10] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(214, 39, 40),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(127, 127, 127),
    RGBColor(188, 189, 34),
    RGBColor(23, 190, 207),
];

/// Maximum number of rectangles, so that a browser can show the picture.
const MOST: usize = 40_000;

/// A contiguous range of the device in a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PictureSpan {
    /// Row, from below: the number of a file or a round.
    pub row: u64,
    /// Index into the colours.
    pub colour: usize,
    /// First byte on the device.
    pub start: u64,
    pub length: u64,
}

/// Returns the spans of files with one row per file, in their order.
#[must_use]
pub fn spans_by_file(files: &[FileLayout]) -> Vec<PictureSpan> {
    let numbered = files.iter().enumerate();
    numbered
        .flat_map(|(number, file)| spans(file, number as u64, number))
        .collect()
}

/// Returns the spans of files in one row, with one colour per file.
#[must_use]
pub fn spans_of_round(files: &[FileLayout], round: u64) -> Vec<PictureSpan> {
    let mut names: Vec<&FileLayout> = files.iter().collect();
    // The colour of a file is the same in all rounds, in whichever order a directory lists it.
    names.sort_by(|one, other| one.path.cmp(&other.path));
    let numbered = names.into_iter().enumerate();
    numbered
        .flat_map(|(number, file)| spans(file, round, number))
        .collect()
}

fn spans(file: &FileLayout, row: u64, colour: usize) -> impl Iterator<Item = PictureSpan> {
    file.extents.iter().map(move |extent| PictureSpan {
        row,
        colour,
        start: extent.physical,
        length: extent.length,
    })
}

fn wrong(error: impl std::fmt::Display) -> Error {
    Error::Refused(format!("the picture cannot be drawn: {error}"))
}

/// Draws spans. `rows` names what a row is.
///
/// # Errors
/// There are no spans.
pub fn draw(title: &str, rows: &str, spans: &[PictureSpan]) -> Result<String> {
    let first = spans.iter().map(|span| span.start).min();
    let first = first.ok_or_else(|| wrong("no file has blocks on the device"))?;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let end = spans.iter().map(|span| mib(span.start - first + span.length));
    let end = end.fold(0.0, f64::max);
    let top = spans.iter().map(|span| span.row).max().unwrap_or(0) + 1;
    // A span narrower than a pixel would be invisible.
    let least = end / 900.0;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (960, 480)).into_drawing_area();
        area.fill(&WHITE).map_err(wrong)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..end, 0.0..top as f64)
            .map_err(wrong)?;
        chart
            .configure_mesh()
            .disable_mesh()
            .x_desc("MiB from the first block")
            .y_desc(rows)
            .draw()
            .map_err(wrong)?;
        let each = spans.len().div_ceil(MOST).max(1);
        let rectangles = spans.iter().step_by(each).map(|span| {
            let left = mib(span.start - first);
            let right = left + mib(span.length).max(least);
            let bottom = span.row as f64;
            Rectangle::new(
                [(left, bottom), (right, bottom + 0.9)],
                COLOURS[span.colour % COLOURS.len()].filled(),
            )
        });
        chart.draw_series(rectangles).map_err(wrong)?;
        area.present().map_err(wrong)?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::extents::PhysicalExtent;

    #[test]
    fn each_extent_is_a_rectangle_and_the_row_is_the_file_or_the_round() {
        let file = |name: &str, physical| FileLayout {
            path: name.into(),
            extents: vec![PhysicalExtent {
                logical: 0,
                physical,
                length: 1 << 20,
            }],
        };
        let files = [file("b", 8 << 20), file("a", 4 << 20)];
        let spans = spans_by_file(&files);
        assert_eq!((spans[0].row, spans[1].row), (0, 1));
        let round = spans_of_round(&files, 7);
        assert_eq!((round[0].start, round[0].row, round[0].colour), (4 << 20, 7, 0));
        let svg = draw("blocks", "file", &spans).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("#1F77B4") && svg.contains("#FF7F0E"));
        assert!(draw("blocks", "file", &[]).is_err());
    }
}
