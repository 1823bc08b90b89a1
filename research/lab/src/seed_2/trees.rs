//! T1 to T9: the Bε-tree with and without a separate root compared with a B⁺-tree, all in memory.

use super::harness::{CHOSEN, Draw, Lines, Plan, Sort, Subject, Workload};
use crate::entry::{At, Evaluation, Procedure, Work};
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

/// Returns a procedure with the document's number of keys.
const fn procedure(
    id: &'static str,
    ours: &'static [(&'static str, Evaluation)],
    measure: fn(u64) -> Result<Measured>,
) -> Procedure {
    Procedure {
        id,
        ours,
        work: Work::Here {
            quick: 300_000,
            full: 4_000_000,
            most: 50_000_000,
            measure,
        },
    }
}

pub(super) const T1: Procedure = procedure(
    "seed-2/T1",
    &[("inserts into an empty tree beside a B⁺-tree's", |measured| {
        let load = lines(measured, Workload::Load);
        [SEPARATE, NO_ROOT]
            .map(|tree| quotient(&load, tree, BPLUS))
            .into()
    })],
    |keys| compared(keys, &[Workload::Load]),
);

pub(super) const T2: Procedure = procedure(
    "seed-2/T2",
    &[("further inserts beside those with a separate root", |measured| {
        vec![quotient(&lines(measured, Workload::Inserts), NO_ROOT, SEPARATE)]
    })],
    |keys| compared(keys, &[Workload::Load, Workload::Inserts]),
);

pub(super) const T3: Procedure = procedure(
    "seed-2/T3",
    &[
        (
            "inserts into an empty tree beside those of one thread",
            |measured| relative_to(lines(measured, Workload::Load), 1.0),
        ),
        ("further inserts beside those of one thread", |measured| {
            relative_to(lines(measured, Workload::Inserts), 1.0)
        }),
    ],
    |keys| compared(keys, &[Workload::Load, Workload::Inserts]),
);

pub(super) const T4: Procedure = procedure(
    "seed-2/T4",
    &[
        (
            "inserts into an empty tree beside those without a separate root",
            |measured| vec![quotient(&lines(measured, Workload::Load), SEPARATE, NO_ROOT)],
        ),
        (
            "further inserts beside those without a separate root",
            |measured| vec![quotient(&lines(measured, Workload::Inserts), SEPARATE, NO_ROOT)],
        ),
    ],
    |keys| compared(keys, &[Workload::Load, Workload::Inserts]),
);

pub(super) const T5: Procedure = procedure(
    "seed-2/T5",
    &[
        ("inserts into an empty tree beside a B⁺-tree's", |measured| {
            vec![quotient(&lines(measured, Workload::Load), SEPARATE, BPLUS)]
        }),
        ("further inserts beside a B⁺-tree's", |measured| {
            vec![quotient(&lines(measured, Workload::Inserts), SEPARATE, BPLUS)]
        }),
    ],
    |keys| compared(keys, &[Workload::Load, Workload::Inserts]),
);

pub(super) const T6: Procedure = procedure(
    "seed-2/T6",
    &[("reads", |measured| lines(measured, Workload::Reads))],
    |keys| compared(keys, &[Workload::Load, Workload::Reads]),
);

pub(super) const T7: Procedure = procedure(
    "seed-2/T7",
    &[(
        "reads with 5 % inserts beside those with a separate root",
        |measured| {
            let both = lines(measured, Workload::FewInserts);
            [NO_ROOT, BPLUS]
                .map(|tree| quotient(&both, tree, SEPARATE))
                .into()
        },
    )],
    |keys| compared(keys, &[Workload::Load, Workload::FewInserts]),
);

pub(super) const T8: Procedure = procedure(
    "seed-2/T8",
    &[(
        "reads with 50 % updates beside those with a separate root",
        |measured| {
            let both = lines(measured, Workload::Updates);
            [NO_ROOT, BPLUS]
                .map(|tree| quotient(&both, tree, SEPARATE))
                .into()
        },
    )],
    |keys| compared(keys, &[Workload::Load, Workload::Updates]),
);

pub(super) const T9: Procedure = procedure(
    "seed-2/T9",
    &[("50 % updates beside 5 % inserts, separate root", |measured| {
        let find = |work| {
            lines(measured, work)
                .into_iter()
                .find(|line| line.name == SEPARATE)
        };
        let pair = find(Workload::Updates).zip(find(Workload::FewInserts));
        pair.map(|(one, other)| divided(SEPARATE, &one, &other))
            .into_iter()
            .collect()
    })],
    |keys| compared(keys, &[Workload::Load, Workload::FewInserts, Workload::Updates]),
);

fn name_of(work: Workload) -> &'static str {
    let named = NAMES.iter().find(|(other, _)| *other == work);
    named.map_or("", |(_, name)| name)
}

/// Returns the lines of a workload over threads, one for each tree.
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

/// Returns a tree's figures as multiples of another tree's.
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

/// Runs workloads one after the other on each tree, with 1 and with 2 threads.
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
        for procedure in [&T1, &T2, &T3, &T4, &T5, &T6, &T7, &T8, &T9] {
            for (name, ours) in procedure.ours {
                assert!(!ours(&measured).is_empty(), "{}: {name}", procedure.id);
            }
        }
    }
}
