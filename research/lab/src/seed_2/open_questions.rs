//! N1 and Q1: questions that the thesis leaves open: the size of nodes and the order of eviction.

use super::harness::{
    CHOSEN, KeySampler, PAGE, PageStorage, PagedTreeConfig, PagedTreeKind, SeriesCollector, TreeBenchmark,
    TreeWorkload,
};
use crate::entry::{AxisPosition, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{MeasurementSet, name};
use alluvium_trees::paged::buffer::{PinPolicy, QueuePolicy};
use anyhow::Result;

const INSERTS: &str = "inserts";
const READS: &str = "reads";
const MOVED: &str = "moved";

const FIFO: &str = "pages used once";
const QUARTER: &str = "those, while they are a quarter";

pub(super) const N1: MeasurementProcedure = MeasurementProcedure {
    id: "seed-2/N1",
    ours: &[
        ("further inserts", |measured| measured.series_with_prefix(INSERTS)),
        ("reads", |measured| measured.series_with_prefix(READS)),
    ],
    work: ExperimentMethod::Here {
        quick: 200_000,
        full: 1_000_000,
        most: 20_000_000,
        measure: sizes,
    },
};

pub(super) const Q1: MeasurementProcedure = MeasurementProcedure {
    id: "seed-2/Q1",
    ours: &[
        ("pages read and written", |measured| {
            measured.series_with_prefix(MOVED)
        }),
        ("reads", |measured| measured.series_with_prefix(READS)),
    ],
    work: ExperimentMethod::Here {
        quick: 200_000,
        full: 1_000_000,
        most: 20_000_000,
        measure: policies,
    },
};

fn sizes(keys: u64) -> Result<MeasurementSet> {
    let mut lines = SeriesCollector::default();
    let draw = KeySampler::zipf(keys);
    for kib in [1, 4, 16, 64] {
        for (tree, sort) in [
            ("Bε-tree", PagedTreeKind::Separate),
            ("B⁺-tree", PagedTreeKind::Bplus),
        ] {
            let subject = TreeBenchmark::new(PagedTreeConfig {
                sort,
                epsilon_percent: CHOSEN,
                page_bytes: kib << 10,
                pages: PageStorage::file(keys, 4, PinPolicy::Optimistic),
            })?;
            subject.run(TreeWorkload::Load, &draw, keys, 1)?;
            let place = || AxisPosition::Number(kib as f64);
            let inserts = subject.run(TreeWorkload::Inserts, &draw, keys, 1)?;
            lines.add(INSERTS, tree, place(), inserts);
            let reads = subject.run(TreeWorkload::Reads, &draw, keys, 1)?;
            lines.add(READS, tree, place(), reads);
        }
    }
    Ok(lines.measured())
}

fn policies(keys: u64) -> Result<MeasurementSet> {
    let mut lines = SeriesCollector::default();
    let draw = KeySampler::zipf(keys);
    for (place, policy) in [(FIFO, QueuePolicy::Fifo), (QUARTER, QueuePolicy::Quarter)] {
        for (tree, sort) in [
            ("Bε-tree", PagedTreeKind::Separate),
            ("B⁺-tree", PagedTreeKind::Bplus),
        ] {
            let PageStorage::File {
                memory_bytes, pins, ..
            } = PageStorage::file(keys, 4, PinPolicy::Optimistic)
            else {
                continue;
            };
            let subject = TreeBenchmark::new(PagedTreeConfig {
                sort,
                epsilon_percent: CHOSEN,
                page_bytes: PAGE,
                pages: PageStorage::File {
                    memory_bytes,
                    policy,
                    pins,
                },
            })?;
            subject.run(TreeWorkload::Load, &draw, keys, 1)?;
            let before = subject.moved();
            let reads = subject.run(TreeWorkload::Reads, &draw, keys, 1)?;
            lines.add(READS, tree, name(place), reads);
            lines.add(MOVED, tree, name(place), (subject.moved() - before) / keys as f64);
        }
    }
    Ok(lines.measured())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_and_policy_has_its_figures() {
        let sizes = sizes(500).unwrap();
        for lines in [sizes.series_with_prefix(INSERTS), sizes.series_with_prefix(READS)] {
            assert!(lines.len() == 2 && lines.iter().all(|line| line.points.len() == 4));
        }
        let policies = policies(500).unwrap();
        for lines in [
            policies.series_with_prefix(MOVED),
            policies.series_with_prefix(READS),
        ] {
            assert!(lines.len() == 2 && lines.iter().all(|line| line.points.len() == 2));
        }
    }
}
