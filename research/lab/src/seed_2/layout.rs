//! E1 and E2: the division of a node by ε.

use super::harness::{
    CHOSEN, KEY, KeySampler, PAGE, PagedTreeConfig, PagedTreeKind, SeriesCollector, TreeBenchmark,
    TreeWorkload, VALUE,
};
use crate::entry::{AxisPosition, ExperimentMethod, MeasurementProcedure};
use crate::measurements::MeasurementSet;
use alluvium_trees::paged::buffer::PAGE_HEADER;
use alluvium_trees::paged::node::{NodeShape, TreeSizes, divide};
use anyhow::Result;

const PIVOTS: &str = "pivots";
const MESSAGES: &str = "messages";
const INSERTS: &str = "inserts";

/// Bytes of a node, a pivot and a message in the thesis.
const THESIS: (usize, usize, usize) = (16_180, 16, 128);

pub(super) const E1: MeasurementProcedure = MeasurementProcedure {
    id: "seed-2/E1",
    ours: &[("pivots of a node", |measured| measured.series_with_prefix(PIVOTS))],
    work: ExperimentMethod::Here {
        quick: 1,
        full: 1,
        most: 1 << 40,
        measure: |_| layouts(),
    },
};

pub(super) const E2: MeasurementProcedure = MeasurementProcedure {
    id: "seed-2/E2",
    ours: &[
        ("messages of a node", |measured| {
            measured.series_with_prefix(MESSAGES)
        }),
        ("inserts", |measured| measured.series_with_prefix(INSERTS)),
    ],
    work: ExperimentMethod::Here {
        quick: 300_000,
        full: 4_000_000,
        most: 50_000_000,
        measure: inserts,
    },
};

/// Values of ε in percent at which the document's curves bend.
pub(super) const EPSILONS: [u32; 15] = [0, 30, 35, 36, 40, 50, 60, 65, 70, 75, CHOSEN, 90, 95, 98, 100];

/// Returns the place of a value of ε on the axis.
pub(super) fn place(epsilon_percent: u32) -> AxisPosition {
    AxisPosition::Number(f64::from(epsilon_percent) / 100.0)
}

/// Returns the numbers of pivots and messages in our nodes.
fn ours(epsilon_percent: u32) -> Result<(usize, usize)> {
    let sizes = TreeSizes {
        key_limit: KEY,
        value_limit: VALUE,
        epsilon_percent,
    };
    let shape = NodeShape::new(PAGE - PAGE_HEADER, sizes)?;
    Ok((shape.pivots.capacity(), shape.buffer.capacity()))
}

fn add_layouts(lines: &mut SeriesCollector) -> Result<()> {
    for epsilon in 0..=100 {
        let (bytes, pivot, message) = THESIS;
        for (name, (pivots, messages)) in [
            ("its formula", divide(bytes, epsilon, pivot, message)),
            ("ours", ours(epsilon)?),
        ] {
            lines.add(PIVOTS, name, place(epsilon), pivots as f64);
            lines.add(MESSAGES, name, place(epsilon), messages as f64);
        }
    }
    Ok(())
}

fn layouts() -> Result<MeasurementSet> {
    let mut lines = SeriesCollector::default();
    add_layouts(&mut lines)?;
    Ok(lines.measured())
}

fn inserts(keys: u64) -> Result<MeasurementSet> {
    let mut lines = SeriesCollector::default();
    add_layouts(&mut lines)?;
    let draw = KeySampler::zipf(keys);
    for epsilon in EPSILONS {
        let subject = TreeBenchmark::new(PagedTreeConfig::in_memory(PagedTreeKind::Separate, epsilon))?;
        subject.run(TreeWorkload::Load, &draw, keys, 1)?;
        let rate = subject.run(TreeWorkload::Inserts, &draw, keys, 1)?;
        lines.add(INSERTS, "Bε-tree", place(epsilon), rate);
    }
    Ok(lines.measured())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::value_at;

    #[test]
    fn the_formula_gives_what_the_document_plots() {
        let measured = layouts().unwrap();
        let pivots = &measured.series_with_prefix(PIVOTS)[0];
        for (epsilon, expected) in [(0.0, 3.0), (0.35, 3.0), (0.36, 5.0), (0.7, 57.0), (0.8, 147.0)] {
            assert_eq!(value_at(pivots, epsilon), Some(expected));
        }
        let messages = &measured.series_with_prefix(MESSAGES)[0];
        assert_eq!(value_at(messages, 0.8), Some(109.0));
        assert_eq!(measured.series_with_prefix(PIVOTS)[1].points.len(), 101);
    }
}
