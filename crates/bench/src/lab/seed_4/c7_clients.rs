//! C7: a B-tree whose large nodes serve few clients as well as many.

use crate::lab::entry::{At, Axis, Experiment, Form, Measure, Published, Value, Work, at};
use crate::lab::measured::{Line, Measured, Spot};
use alluvium_model::pdam::{Nodes, Tree};
use anyhow::{Result, ensure};

/// Keys of a block, and the blocks that a device moves in a step.
const BLOCK: u64 = 64;
const PARALLEL: u64 = 8;
const QUERIES: usize = 2_000;
const SEED: u64 = 1;

const CLIENTS: Axis = Axis {
    name: "clients",
    form: Form::Logarithmic,
};

const STEPS: &str = "steps";
const FROM_BEST: &str = "beside the best";

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "seed-4/C7",
    title: "Nodes in van Emde Boas order for one client and for many",
    shows: "Nodes of P blocks in van Emde Boas order need few steps for one client, and as few as small nodes for P clients.",
    section: "§6",
    figure: "Lemma 13",
    setting: "A theorem: 2^30 keys, 64 in a block, P = 8 blocks a step; the document measures nothing.",
    differs: &["Ours plays each query step by step, with read-ahead inside of nodes, over random keys."],
    measures: &[
        Measure {
            name: "steps of a query",
            unit: "steps",
            axis: CLIENTS,
            published: &[
                Published {
                    name: "van Emde Boas, by the lemma",
                    section: "§6",
                    points: &[at(1.0, Value::Derived(3.33)), at(8.0, Value::Derived(5.0))],
                },
                Published {
                    name: "one block, by the lemma",
                    section: "§6",
                    points: &[at(1.0, Value::Derived(5.0)), at(8.0, Value::Derived(5.0))],
                },
            ],
            note: "",
            ours: |measured| measured.under(STEPS),
        },
        Measure {
            name: "van Emde Boas beside the better of the others",
            unit: "times its steps",
            axis: CLIENTS,
            published: &[],
            note: "The lemma promises a constant for every number of clients.",
            ours: |measured| measured.under(FROM_BEST),
        },
    ],
    work: Work::Here {
        quick: 1 << 24,
        full: 1 << 30,
        most: 1 << 40,
        measure,
    },
};

fn measure(keys: u64) -> Result<Measured> {
    ensure!(keys >= BLOCK, "--records {keys}: a block has {BLOCK} keys");
    let tree = Tree {
        keys,
        block: BLOCK,
        parallel: PARALLEL,
    };
    let layouts = [
        ("one block", Nodes::OneBlock),
        ("whole nodes", Nodes::Whole),
        ("van Emde Boas", Nodes::VanEmdeBoas),
    ];
    let mut lines = layouts.map(|(layout, _)| Line {
        name: format!("{STEPS}, {layout}"),
        points: Vec::new(),
    });
    let mut beside = Line {
        name: format!("{FROM_BEST}, alluvium"),
        points: Vec::new(),
    };
    for clients in [1, 2, 4, 8] {
        let mut steps = [0.0; 3];
        for ((_, nodes), steps) in layouts.iter().zip(&mut steps) {
            *steps = tree.play(*nodes, clients, QUERIES, SEED)?;
        }
        let place = At::Number(clients as f64);
        for (line, value) in lines.iter_mut().zip(steps) {
            let at = place.clone();
            line.points.push(Spot { at, value });
        }
        let [small, large, elastic] = steps;
        beside.points.push(Spot {
            at: place,
            value: elastic / small.min(large),
        });
    }
    Ok(Measured {
        counts: lines.into_iter().chain([beside]).collect(),
        ..Measured::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_layout_is_within_a_constant_of_the_best_for_every_number_of_clients() {
        let measured = measure(1 << 20).unwrap();
        assert_eq!(measured.under(STEPS).len(), 3);
        let beside = measured.under(FROM_BEST);
        for spot in &beside[0].points {
            assert!(spot.value > 0.2 && spot.value <= 2.0, "{spot:?}");
        }
        assert!(measure(1).is_err());
    }
}
