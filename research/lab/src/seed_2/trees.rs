//! T1 to T9: the Bε-tree with and without a separate root compared with a B⁺-tree, all in memory.

use super::harness::{
    CHOSEN, KeySampler, PagedTreeConfig, PagedTreeKind, SeriesCollector, TreeBenchmark, TreeWorkload,
};
use crate::entry::{AxisPosition, ExperimentMethod, FigureComputation, MeasurementProcedure};
use crate::measurements::FigurePoint;
use crate::measurements::{FigureSeries, MeasurementSet, relative_to, value_at};
use anyhow::Result;

const SEPARATE: &str = "separate root";
const NO_ROOT: &str = "no root";
const BPLUS: &str = "B⁺-tree";
const TREES: [(&str, PagedTreeKind); 3] = [
    (SEPARATE, PagedTreeKind::Separate),
    (NO_ROOT, PagedTreeKind::NoRoot),
    (BPLUS, PagedTreeKind::Bplus),
];

const NAMES: [(TreeWorkload, &str); 5] = [
    (TreeWorkload::Load, "inserts into an empty tree"),
    (TreeWorkload::Inserts, "further inserts"),
    (TreeWorkload::Reads, "reads"),
    (TreeWorkload::FewInserts, "reads with 5 % inserts"),
    (TreeWorkload::Updates, "reads with 50 % updates"),
];

/// Returns a procedure with the document's number of keys.
const fn procedure(
    id: &'static str,
    ours: &'static [(&'static str, FigureComputation)],
    measure: fn(u64) -> Result<MeasurementSet>,
) -> MeasurementProcedure {
    MeasurementProcedure {
        id,
        ours,
        work: ExperimentMethod::Here {
            quick: 300_000,
            full: 4_000_000,
            most: 50_000_000,
            measure,
        },
    }
}

pub(super) const T1: MeasurementProcedure = procedure(
    "seed-2/T1",
    &[("inserts into an empty tree beside a B⁺-tree's", |measured| {
        let load = lines(measured, TreeWorkload::Load);
        [SEPARATE, NO_ROOT]
            .map(|tree| quotient(&load, tree, BPLUS))
            .into()
    })],
    |keys| compared(keys, &[TreeWorkload::Load]),
);

pub(super) const T2: MeasurementProcedure = procedure(
    "seed-2/T2",
    &[("further inserts beside those with a separate root", |measured| {
        vec![quotient(
            &lines(measured, TreeWorkload::Inserts),
            NO_ROOT,
            SEPARATE,
        )]
    })],
    |keys| compared(keys, &[TreeWorkload::Load, TreeWorkload::Inserts]),
);

pub(super) const T3: MeasurementProcedure = procedure(
    "seed-2/T3",
    &[
        (
            "inserts into an empty tree beside those of one thread",
            |measured| relative_to(lines(measured, TreeWorkload::Load), 1.0),
        ),
        ("further inserts beside those of one thread", |measured| {
            relative_to(lines(measured, TreeWorkload::Inserts), 1.0)
        }),
    ],
    |keys| compared(keys, &[TreeWorkload::Load, TreeWorkload::Inserts]),
);

pub(super) const T4: MeasurementProcedure = procedure(
    "seed-2/T4",
    &[
        (
            "inserts into an empty tree beside those without a separate root",
            |measured| vec![quotient(&lines(measured, TreeWorkload::Load), SEPARATE, NO_ROOT)],
        ),
        (
            "further inserts beside those without a separate root",
            |measured| {
                vec![quotient(
                    &lines(measured, TreeWorkload::Inserts),
                    SEPARATE,
                    NO_ROOT,
                )]
            },
        ),
    ],
    |keys| compared(keys, &[TreeWorkload::Load, TreeWorkload::Inserts]),
);

pub(super) const T5: MeasurementProcedure = procedure(
    "seed-2/T5",
    &[
        ("inserts into an empty tree beside a B⁺-tree's", |measured| {
            vec![quotient(&lines(measured, TreeWorkload::Load), SEPARATE, BPLUS)]
        }),
        ("further inserts beside a B⁺-tree's", |measured| {
            vec![quotient(&lines(measured, TreeWorkload::Inserts), SEPARATE, BPLUS)]
        }),
    ],
    |keys| compared(keys, &[TreeWorkload::Load, TreeWorkload::Inserts]),
);

pub(super) const T6: MeasurementProcedure = procedure(
    "seed-2/T6",
    &[("reads", |measured| lines(measured, TreeWorkload::Reads))],
    |keys| compared(keys, &[TreeWorkload::Load, TreeWorkload::Reads]),
);

pub(super) const T7: MeasurementProcedure = procedure(
    "seed-2/T7",
    &[(
        "reads with 5 % inserts beside those with a separate root",
        |measured| {
            let both = lines(measured, TreeWorkload::FewInserts);
            [NO_ROOT, BPLUS]
                .map(|tree| quotient(&both, tree, SEPARATE))
                .into()
        },
    )],
    |keys| compared(keys, &[TreeWorkload::Load, TreeWorkload::FewInserts]),
);

pub(super) const T8: MeasurementProcedure = procedure(
    "seed-2/T8",
    &[(
        "reads with 50 % updates beside those with a separate root",
        |measured| {
            let both = lines(measured, TreeWorkload::Updates);
            [NO_ROOT, BPLUS]
                .map(|tree| quotient(&both, tree, SEPARATE))
                .into()
        },
    )],
    |keys| compared(keys, &[TreeWorkload::Load, TreeWorkload::Updates]),
);

pub(super) const T9: MeasurementProcedure = procedure(
    "seed-2/T9",
    &[("50 % updates beside 5 % inserts, separate root", |measured| {
        let find = |work| {
            lines(measured, work)
                .into_iter()
                .find(|line| line.name == SEPARATE)
        };
        let pair = find(TreeWorkload::Updates).zip(find(TreeWorkload::FewInserts));
        pair.map(|(one, other)| divided(SEPARATE, &one, &other))
            .into_iter()
            .collect()
    })],
    |keys| {
        compared(
            keys,
            &[
                TreeWorkload::Load,
                TreeWorkload::FewInserts,
                TreeWorkload::Updates,
            ],
        )
    },
);

fn name_of(work: TreeWorkload) -> &'static str {
    let named = NAMES.iter().find(|(other, _)| *other == work);
    named.map_or("", |(_, name)| name)
}

/// Returns the lines of a workload over threads, one for each tree.
fn lines(measured: &MeasurementSet, work: TreeWorkload) -> Vec<FigureSeries> {
    measured.series_with_prefix(name_of(work))
}

fn divided(name: &str, one: &FigureSeries, other: &FigureSeries) -> FigureSeries {
    let quotient = |spot: &FigurePoint| {
        let value = value_at(other, spot.at.number()?)?;
        Some(FigurePoint {
            at: spot.at.clone(),
            value: spot.value / value,
        })
    };
    FigureSeries {
        name: name.to_owned(),
        points: one.points.iter().filter_map(quotient).collect(),
    }
}

/// Returns a tree's figures as multiples of another tree's.
fn quotient(lines: &[FigureSeries], tree: &str, beside: &str) -> FigureSeries {
    let find = |name: &str| lines.iter().find(|line| line.name == name);
    match find(tree).zip(find(beside)) {
        Some((one, other)) => divided(tree, one, other),
        None => FigureSeries {
            name: tree.to_owned(),
            points: Vec::new(),
        },
    }
}

/// Runs workloads one after the other on each tree, with 1 and with 2 threads.
fn compared(keys: u64, works: &[TreeWorkload]) -> Result<MeasurementSet> {
    let mut figures = SeriesCollector::default();
    let draw = KeySampler::zipf(keys);
    for (tree, sort) in TREES {
        for threads in [1, 2] {
            let subject = TreeBenchmark::new(PagedTreeConfig::in_memory(sort, CHOSEN))?;
            for work in works {
                let rate = subject.run(*work, &draw, keys, threads)?;
                figures.add(name_of(*work), tree, AxisPosition::Number(threads as f64), rate);
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
