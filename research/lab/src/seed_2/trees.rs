//! T1 to T9: the Bε-tree with and without a separate root beside a B⁺-tree, all of it in memory.

use super::harness::{CHOSEN, Draw, Lines, Plan, Sort, Subject, Workload};
use super::{BY_THREADS, KEYS, MACHINE, NODES, SETTING, THOUSANDS, THREADS};
use crate::entry::{At, Experiment, Measure, Published, Value, Work, at};
use crate::measured::Spot;
use crate::measured::{Line, Measured, relative_to, value_at};
use anyhow::Result;

const SEPARATE: &str = "separate root";
const NO_ROOT: &str = "no root";
const BPLUS: &str = "B⁺-tree";
const TREES: [(&str, Sort); 3] = [
    (SEPARATE, Sort::Separate),
    (NO_ROOT, Sort::NoRoot),
    (BPLUS, Sort::Bplus),
];

const NAMES: [(Workload, &str); 5] = [
    (Workload::Load, "inserts into an empty tree"),
    (Workload::Inserts, "further inserts"),
    (Workload::Reads, "reads"),
    (Workload::FewInserts, "reads with 5 % inserts"),
    (Workload::Updates, "reads with 50 % updates"),
];

/// What the entries have in common.
macro_rules! entry {
    ($id:expr, $title:expr, $shows:expr, $measures:expr, $measure:expr $(,)?) => {
        Experiment {
            id: $id,
            title: $title,
            shows: $shows,
            section: "§6.3",
            figure: "Figure 6.3",
            setting: SETTING,
            differs: &[MACHINE, KEYS, NODES, THREADS],
            measures: $measures,
            work: Work::Here {
                quick: 300_000,
                full: 4_000_000,
                most: 50_000_000,
                measure: $measure,
            },
        }
    };
}

/// A quotient over threads.
macro_rules! by_threads {
    ($name:expr, $published:expr, $note:expr, $ours:expr $(,)?) => {
        Measure {
            name: $name,
            unit: "times",
            axis: BY_THREADS,
            published: $published,
            note: $note,
            ours: $ours,
        }
    };
}

/// Published values of section 6.3.
macro_rules! stated {
    ($name:expr, $points:expr $(,)?) => {
        Published {
            name: $name,
            section: "§6.3",
            points: $points,
        }
    };
}

pub(super) const T1: Experiment = entry!(
    "seed-2/T1",
    "Inserts into an empty tree beside a B⁺-tree",
    "One thread inserts about a quarter faster into either Bε-tree than into a B⁺-tree.",
    &[by_threads!(
        "inserts into an empty tree beside a B⁺-tree's",
        &[
            stated!(SEPARATE, &[at(1.0, Value::About(1.25))]),
            stated!(NO_ROOT, &[at(1.0, Value::About(1.25))]),
        ],
        "",
        |measured| {
            let load = lines(measured, Workload::Load);
            [SEPARATE, NO_ROOT]
                .map(|tree| quotient(&load, tree, BPLUS))
                .into()
        },
    )],
    |keys| compared(keys, &[Workload::Load]),
);

pub(super) const T2: Experiment = entry!(
    "seed-2/T2",
    "Further inserts without a separate root",
    "One thread inserts a little slower into a tree without a separate root.",
    &[by_threads!(
        "further inserts beside those with a separate root",
        &[stated!(NO_ROOT, &[at(1.0, Value::Said("a little below 1"))])],
        "",
        |measured| vec![quotient(&lines(measured, Workload::Inserts), NO_ROOT, SEPARATE)],
    )],
    |keys| compared(keys, &[Workload::Load, Workload::Inserts]),
);

pub(super) const T3: Experiment = entry!(
    "seed-2/T3",
    "How inserts scale with threads",
    "With a separate root 20 threads insert up to 10 times as much as one.",
    &[
        by_threads!(
            "inserts into an empty tree beside those of one thread",
            &[stated!(
                SEPARATE,
                &[at(1.0, Value::Derived(1.0)), at(20.0, Value::Is(10.0))],
            )],
            "The document's words allow another reading, too: as a multiple of the tree without a separate root.",
            |measured| relative_to(lines(measured, Workload::Load), 1.0),
        ),
        by_threads!(
            "further inserts beside those of one thread",
            &[stated!(
                SEPARATE,
                &[at(1.0, Value::Derived(1.0)), at(20.0, Value::Is(11.5))],
            )],
            "",
            |measured| relative_to(lines(measured, Workload::Inserts), 1.0),
        ),
    ],
    |keys| compared(keys, &[Workload::Load, Workload::Inserts]),
);

pub(super) const T4: Experiment = entry!(
    "seed-2/T4",
    "A separate root beside none",
    "With 20 threads a separate root makes inserts 3.6 to 9.4 times as fast.",
    &[
        by_threads!(
            "inserts into an empty tree beside those without a separate root",
            &[stated!(SEPARATE, &[at(20.0, Value::About(3.6))])],
            "",
            |measured| vec![quotient(&lines(measured, Workload::Load), SEPARATE, NO_ROOT)],
        ),
        by_threads!(
            "further inserts beside those without a separate root",
            &[stated!(SEPARATE, &[at(20.0, Value::About(9.4))])],
            "",
            |measured| vec![quotient(&lines(measured, Workload::Inserts), SEPARATE, NO_ROOT)],
        ),
    ],
    |keys| compared(keys, &[Workload::Load, Workload::Inserts]),
);

pub(super) const T5: Experiment = entry!(
    "seed-2/T5",
    "Inserts beside a B⁺-tree, by threads",
    "With 20 threads inserts are 2.8 times a B⁺-tree's into an empty tree, and 1.2 times afterwards.",
    &[
        by_threads!(
            "inserts into an empty tree beside a B⁺-tree's",
            &[stated!(SEPARATE, &[at(20.0, Value::Is(2.8))])],
            "The document's B⁺-tree does not scale beyond 6 threads.",
            |measured| vec![quotient(&lines(measured, Workload::Load), SEPARATE, BPLUS)],
        ),
        by_threads!(
            "further inserts beside a B⁺-tree's",
            &[stated!(SEPARATE, &[at(20.0, Value::Is(1.2))])],
            "",
            |measured| vec![quotient(&lines(measured, Workload::Inserts), SEPARATE, BPLUS)],
        ),
    ],
    |keys| compared(keys, &[Workload::Load, Workload::Inserts]),
);

pub(super) const T6: Experiment = entry!(
    "seed-2/T6",
    "Reads, by threads",
    "A B⁺-tree reads faster than a Bε-tree, and all trees scale.",
    &[Measure {
        name: "reads",
        unit: THOUSANDS,
        axis: BY_THREADS,
        published: &[stated!(
            BPLUS,
            &[
                at(1.0, Value::Said("ahead of the Bε-tree")),
                at(20.0, Value::Said("ahead by up to 1,300")),
            ],
        )],
        note: "",
        ours: |measured| lines(measured, Workload::Reads),
    }],
    |keys| compared(keys, &[Workload::Load, Workload::Reads]),
);

pub(super) const T7: Experiment = entry!(
    "seed-2/T7",
    "Reads with a few inserts, by threads",
    "Without a separate root a twentieth of inserts leaves a quarter of the throughput at 20 threads.",
    &[by_threads!(
        "reads with 5 % inserts beside those with a separate root",
        &[stated!(NO_ROOT, &[at(20.0, Value::About(0.25))])],
        "The document's B⁺-tree is ahead by up to 1.76 million operations a second.",
        |measured| {
            let both = lines(measured, Workload::FewInserts);
            [NO_ROOT, BPLUS]
                .map(|tree| quotient(&both, tree, SEPARATE))
                .into()
        },
    )],
    |keys| compared(keys, &[Workload::Load, Workload::FewInserts]),
);

pub(super) const T8: Experiment = entry!(
    "seed-2/T8",
    "Reads with as many updates, by threads",
    "With as many updates as reads a B⁺-tree does twice as much as a Bε-tree, and one without a separate root a twelfth of it.",
    &[by_threads!(
        "reads with 50 % updates beside those with a separate root",
        &[
            stated!(NO_ROOT, &[at(20.0, Value::About(0.08))]),
            stated!(BPLUS, &[at(1.0, Value::About(2.0)), at(20.0, Value::About(2.0))]),
        ],
        "",
        |measured| {
            let both = lines(measured, Workload::Updates);
            [NO_ROOT, BPLUS]
                .map(|tree| quotient(&both, tree, SEPARATE))
                .into()
        },
    )],
    |keys| compared(keys, &[Workload::Load, Workload::Updates]),
);

pub(super) const T9: Experiment = entry!(
    "seed-2/T9",
    "What updates cost reads",
    "Updates in upper buffers end lookups no more, and cost one thread about 45 %.",
    &[by_threads!(
        "50 % updates beside 5 % inserts, separate root",
        &[stated!(SEPARATE, &[at(1.0, Value::About(0.55))])],
        "",
        |measured| {
            let find = |work| {
                lines(measured, work)
                    .into_iter()
                    .find(|line| line.name == SEPARATE)
            };
            let pair = find(Workload::Updates).zip(find(Workload::FewInserts));
            pair.map(|(one, other)| divided(SEPARATE, &one, &other))
                .into_iter()
                .collect()
        },
    )],
    |keys| compared(keys, &[Workload::Load, Workload::FewInserts, Workload::Updates]),
);

fn name_of(work: Workload) -> &'static str {
    let named = NAMES.iter().find(|(other, _)| *other == work);
    named.map_or("", |(_, name)| name)
}

/// A workload's lines, one for each tree, over threads.
fn lines(measured: &Measured, work: Workload) -> Vec<Line> {
    measured.under(name_of(work))
}

fn divided(name: &str, one: &Line, other: &Line) -> Line {
    let quotient = |spot: &Spot| {
        let value = value_at(other, spot.at.number()?)?;
        Some(Spot {
            at: spot.at.clone(),
            value: spot.value / value,
        })
    };
    Line {
        name: name.to_owned(),
        points: one.points.iter().filter_map(quotient).collect(),
    }
}

/// A tree's figures as multiples of another's.
fn quotient(lines: &[Line], tree: &str, beside: &str) -> Line {
    let find = |name: &str| lines.iter().find(|line| line.name == name);
    match find(tree).zip(find(beside)) {
        Some((one, other)) => divided(tree, one, other),
        None => Line {
            name: tree.to_owned(),
            points: Vec::new(),
        },
    }
}

/// Runs workloads one after the other on each tree, by 1 and by 2 threads.
fn compared(keys: u64, works: &[Workload]) -> Result<Measured> {
    let mut figures = Lines::default();
    let draw = Draw::zipf(keys);
    for (tree, sort) in TREES {
        for threads in [1, 2] {
            let subject = Subject::new(Plan::in_memory(sort, CHOSEN))?;
            for work in works {
                let rate = subject.run(*work, &draw, keys, threads)?;
                figures.add(name_of(*work), tree, At::Number(threads as f64), rate);
            }
        }
    }
    Ok(figures.measured())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tree_has_a_rate_for_each_workload_and_number_of_threads() {
        let works = NAMES.map(|(work, _)| work);
        let measured = compared(2000, &works).unwrap();
        for work in works {
            let rates = lines(&measured, work);
            assert_eq!(rates.len(), 3);
            for tree in [SEPARATE, NO_ROOT] {
                let points = quotient(&rates, tree, BPLUS).points;
                assert!(points.len() == 2 && points.iter().all(|point| point.value > 0.0));
            }
        }
        for experiment in [&T1, &T2, &T3, &T4, &T5, &T6, &T7, &T8, &T9] {
            for measure in experiment.measures {
                assert!(!(measure.ours)(&measured).is_empty(), "{}", experiment.id);
            }
        }
    }
}
