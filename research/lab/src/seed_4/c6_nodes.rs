//! C6: what nodes of a wrong size cost a B-tree and a Bε-tree.

use super::c4_b_tree::B_TREE;
use super::c5_buffered::SUBJECTS;
use super::sweep::{Place, Point, line};
use crate::entry::{At, Axis, Experiment, Form, Measure, Published, Value, Work, at, named};
use crate::measured::{Line, Measured, Spot, name};
use alluvium_model::nodes;
use alluvium_model::presets::HITACHI_1TB_2009;
use anyhow::{Result, ensure};

/// Bytes of an element, and of the block of 4 KiB that α of the document is for.
const ELEMENT: f64 = 116.0;
const BLOCK: f64 = 4096.0;
/// α of two disks of Table 2: the largest and the smallest.
const ALPHAS: [(&str, f64); 2] = [("1 TB Hitachi", 0.0031), ("2 TB Seagate", 0.0012)];

const INSERTS: &str = "inserts";
const BEST: &str = "best";
const QUERIES: &str = "queries";

const NODES: Axis = Axis {
    name: "KiB of a node",
    form: Form::Logarithmic,
};
const TREES: Axis = Axis {
    name: "tree",
    form: Form::Names,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "seed-4/C6",
    title: "Nodes of a wrong size",
    shows: "Inserts into a B-tree pay for nodes that are too large, those into a Bε-tree hardly do.",
    section: "§5",
    figure: "Figures 2 and 3",
    setting: "BerkeleyDB and TokuDB on a hard disk, keys of 16 bytes and values of 100, nodes of 4 KiB to 4 MiB.",
    differs: &[
        "Ours are the costs of the affine model with the disks of Table 2, which the document fits to what it measured.",
        "The Bε-tree has as many children as the root of its elements.",
        "What is measured are the trees of C4 and C5, on the affine disk, for the sizes that the data allows.",
    ],
    measures: &[
        Measure {
            name: "cost of inserts",
            unit: "times that with the best nodes",
            axis: NODES,
            published: &[Published {
                name: "BerkeleyDB",
                section: "§5",
                points: &[at(64.0, Value::Said("the best, above its default"))],
            }],
            note: "",
            ours: |measured| measured.under(INSERTS),
        },
        Measure {
            name: "best nodes for inserts",
            unit: "KiB",
            axis: TREES,
            published: &[Published {
                name: "measured in the document",
                section: "§5",
                points: &[
                    named("B-tree", Value::Is(64.0)),
                    named("Bε-tree", Value::Is(4096.0)),
                ],
            }],
            note: "The model's best nodes of a B-tree are larger than those that were measured.",
            ours: |measured| measured.under(BEST),
        },
        Measure {
            name: "cost of queries, measured",
            unit: "times that with the best nodes",
            axis: NODES,
            published: &[],
            note: "The document says that a Bε-tree is much less sensitive to the size of its nodes, and states no figure.",
            ours: |measured| measured.under(QUERIES),
        },
    ],
    work: Work::Here {
        // Predicted costs are for each level, of which any number of keys has some.
        quick: 1 << 18,
        full: 1 << 22,
        most: 1 << 28,
        measure,
    },
};

fn measure(records: u64) -> Result<Measured> {
    ensure!(records >= 100, "--records {records}: a tree has 100 at least");
    let mut counts = predicted()?;
    let query_us = |point: &Point| point.query_us;
    for subject in [&B_TREE, &SUBJECTS[3], &SUBJECTS[4]] {
        let mut points = subject.sweep(Place::Clock(&HITACHI_1TB_2009), records)?;
        let least = points.iter().map(query_us).fold(f64::INFINITY, f64::min);
        points.iter_mut().for_each(|point| point.query_us /= least);
        counts.push(line(QUERIES, subject.name, &points, query_us));
    }
    Ok(Measured {
        counts,
        ..Measured::default()
    })
}

/// What the model says of inserts.
fn predicted() -> Result<Vec<Line>> {
    let mut counts = Vec::new();
    for (disk, block_alpha) in ALPHAS {
        // α is for a block: an element's transfer is a part of it.
        let alpha = block_alpha * ELEMENT / BLOCK;
        let kib = |elements: f64| elements * ELEMENT / 1024.0;
        let best_b = nodes::best_b_tree_node(alpha)?;
        let best_buffered = nodes::best_buffered_node(alpha)?;
        let least_b = nodes::b_tree(alpha, best_b)?.insert;
        let least_buffered = nodes::buffered(alpha, best_buffered, best_buffered.sqrt())?.insert;
        let mut lines = ["B-tree", "Bε-tree"].map(|tree| Line {
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
                let at = At::Number(bytes / 1024.0);
                line.points.push(Spot { at, value });
            }
        }
        counts.extend(lines);
        let spot = |tree, elements| Spot {
            at: name(tree),
            value: kib(elements),
        };
        counts.push(Line {
            name: format!("{BEST}, {disk}"),
            points: vec![spot("B-tree", best_b), spot("Bε-tree", best_buffered)],
        });
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::value_at;

    #[test]
    fn large_nodes_cost_a_b_tree_more_than_a_buffered_one() {
        let measured = measure(4000).unwrap();
        let inserts = measured.under(INSERTS);
        for pair in inserts.chunks(2) {
            let [b, buffered] = [&pair[0], &pair[1]].map(|line| value_at(line, 16_384.0).unwrap());
            assert!(b > 1.5 && buffered < b, "{b} {buffered}");
            let values = pair.iter().flat_map(|line| &line.points);
            assert!(
                values.into_iter().all(|spot| spot.value >= 0.999),
                "nothing is better than the best"
            );
        }
        for line in measured.under(BEST) {
            let [b, buffered] = [0, 1].map(|place: usize| line.points[place].value);
            assert!((64.0..1024.0).contains(&b) && buffered > b, "{line:?}");
        }
    }
}
