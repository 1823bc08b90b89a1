//! C6: the cost of a wrong node size for a B-tree and a Bε-tree.

use super::c4_b_tree::B_TREE;
use super::c5_buffered::SUBJECTS;
use super::sweep::{NodeSizeCosts, SweepDevice, line};
use crate::entry::{AxisPosition, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigurePoint, FigureSeries, MeasurementSet, name};
use alluvium_model::nodes;
use alluvium_model::presets::HITACHI_1TB_2009;
use anyhow::{Result, ensure};

/// Bytes of an element, and of the 4 KiB block to which the document's α refers.
const ELEMENT: f64 = 116.0;
const BLOCK: f64 = 4096.0;
/// The largest and the smallest α of a disk in Table 2.
const ALPHAS: [(&str, f64); 2] = [("1 TB Hitachi", 0.0031), ("2 TB Seagate", 0.0012)];

const INSERTS: &str = "inserts";
const BEST: &str = "best";
const QUERIES: &str = "queries";

pub(super) const PROCEDURE: MeasurementProcedure = MeasurementProcedure {
    id: "seed-4/C6",
    ours: &[
        ("cost of inserts", |measured| measured.series_with_prefix(INSERTS)),
        ("best nodes for inserts", |measured| {
            measured.series_with_prefix(BEST)
        }),
        ("cost of queries, measured", |measured| {
            measured.series_with_prefix(QUERIES)
        }),
    ],
    work: ExperimentMethod::Here {
        // Predicted costs are per level, so that any number of keys will do.
        quick: 1 << 18,
        full: 1 << 22,
        most: 1 << 28,
        measure,
    },
};

fn measure(records: u64) -> Result<MeasurementSet> {
    ensure!(records >= 100, "--records {records}: a tree has 100 at least");
    let mut counts = predicted()?;
    let query_us = |point: &NodeSizeCosts| point.query_us;
    for subject in [&B_TREE, &SUBJECTS[3], &SUBJECTS[4]] {
        let mut points = subject.sweep(SweepDevice::Clock(&HITACHI_1TB_2009), records)?;
        let least = points.iter().map(query_us).fold(f64::INFINITY, f64::min);
        points.iter_mut().for_each(|point| point.query_us /= least);
        counts.push(line(QUERIES, subject.name, &points, query_us));
    }
    Ok(MeasurementSet {
        counts,
        ..MeasurementSet::default()
    })
}

/// Returns the model's predictions for inserts.
fn predicted() -> Result<Vec<FigureSeries>> {
    let mut counts = Vec::new();
    for (disk, block_alpha) in ALPHAS {
        // α is for a block; scale it to an element.
        let alpha = block_alpha * ELEMENT / BLOCK;
        let kib = |elements: f64| elements * ELEMENT / 1024.0;
        let best_b = nodes::best_b_tree_node(alpha)?;
        let best_buffered = nodes::best_buffered_node(alpha)?;
        let least_b = nodes::b_tree(alpha, best_b)?.insert;
        let least_buffered = nodes::buffered(alpha, best_buffered, best_buffered.sqrt())?.insert;
        let mut lines = ["B-tree", "Bε-tree"].map(|tree| FigureSeries {
            name: format!("{INSERTS}, {tree}, {disk}"),
            points: Vec::new(),
        });
        for step in 0..=12 {
            let bytes = f64::from(1 << step) * BLOCK;
            let node = bytes / ELEMENT;
            let costs = [
                nodes::b_tree(alpha, node)?.insert / least_b,
                nodes::buffered(alpha, node, node.sqrt())?.insert / least_buffered,
            ];
            for (line, value) in lines.iter_mut().zip(costs) {
                let at = AxisPosition::Number(bytes / 1024.0);
                line.points.push(FigurePoint { at, value });
            }
        }
        counts.extend(lines);
        let spot = |tree, elements| FigurePoint {
            at: name(tree),
            value: kib(elements),
        };
        counts.push(FigureSeries {
            name: format!("{BEST}, {disk}"),
            points: vec![spot("B-tree", best_b), spot("Bε-tree", best_buffered)],
        });
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::value_at;

    #[test]
    fn large_nodes_cost_a_b_tree_more_than_a_buffered_one() {
        let measured = measure(4000).unwrap();
        let inserts = measured.series_with_prefix(INSERTS);
        for pair in inserts.chunks(2) {
            let [b, buffered] = [&pair[0], &pair[1]].map(|line| value_at(line, 16_384.0).unwrap());
            assert!(b > 1.5 && buffered < b, "{b} {buffered}");
            let values = pair.iter().flat_map(|line| &line.points);
            assert!(
                values.into_iter().all(|spot| spot.value >= 0.999),
                "nothing is better than the best"
            );
        }
        for line in measured.series_with_prefix(BEST) {
            let [b, buffered] = [0, 1].map(|place: usize| line.points[place].value);
            assert!((64.0..1024.0).contains(&b) && buffered > b, "{line:?}");
        }
    }
}
