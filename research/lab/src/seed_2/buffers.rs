//! K3, K6 and K7: trees over a page buffer in a file.

use super::harness::{
    CHOSEN, KeySampler, PAGE, PageStorage, PagedTreeConfig, PagedTreeKind, SeriesCollector, TreeBenchmark,
    TreeWorkload,
};
use crate::entry::{AxisPosition, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{MeasurementSet, name, relative_to};
use alluvium_trees::paged::buffer::PinPolicy;
use anyhow::Result;

const RATES: &str = "rates";
const QUOTIENT: &str = "quotient";
const MOVED: &str = "moved";

const IN_MEMORY: &str = "in memory";
const BEYOND: &str = "data 4 times memory";

pub(super) const K3: MeasurementProcedure = MeasurementProcedure {
    id: "seed-2/K3",
    ours: &[("operations beside those of one thread", |measured| {
        relative_to(measured.series_with_prefix(RATES), 1.0)
    })],
    work: ExperimentMethod::Here {
        quick: 300_000,
        full: 2_000_000,
        most: 20_000_000,
        measure: by_pins,
    },
};

pub(super) const K6: MeasurementProcedure = MeasurementProcedure {
    id: "seed-2/K6",
    ours: &[
        ("further inserts beside a B⁺-tree's", |measured| {
            measured.series_with_prefix(QUOTIENT)
        }),
        ("pages read and written", |measured| {
            measured.series_with_prefix(MOVED)
        }),
    ],
    work: ExperimentMethod::Here {
        quick: 200_000,
        full: 1_000_000,
        most: 20_000_000,
        measure: |keys| beside_bplus(PAGE, keys),
    },
};

pub(super) const K7: MeasurementProcedure = MeasurementProcedure {
    id: "seed-2/K7",
    ours: &[("operations beside a B⁺-tree's", |measured| {
        measured.series_with_prefix(QUOTIENT)
    })],
    work: ExperimentMethod::Here {
        quick: 200_000,
        full: 1_000_000,
        most: 20_000_000,
        measure: reads,
    },
};

const READS: &str = "reads";
const FEW_INSERTS: &str = "reads with 5 % inserts";

fn plan(sort: PagedTreeKind, pages: PageStorage) -> PagedTreeConfig {
    PagedTreeConfig {
        sort,
        epsilon_percent: CHOSEN,
        page_bytes: PAGE,
        pages,
    }
}

fn by_pins(keys: u64) -> Result<MeasurementSet> {
    let mut lines = SeriesCollector::default();
    let draw = KeySampler::zipf(keys);
    for (tree, sort) in [
        ("Bε-tree", PagedTreeKind::Separate),
        ("B⁺-tree", PagedTreeKind::Bplus),
    ] {
        for (pins, policy) in [
            ("locked", PinPolicy::Locked),
            ("optimistic", PinPolicy::Optimistic),
            ("swizzled", PinPolicy::Swizzled),
        ] {
            // Twice the size of the pairs, because nodes are not full.
            let pages = PageStorage::File {
                memory_bytes: usize::try_from(keys * 400)?.max(16 << 20),
                policy: alluvium_trees::paged::buffer::QueuePolicy::Quarter,
                pins: policy,
            };
            for threads in [1, 2] {
                let subject = TreeBenchmark::new(plan(sort, pages))?;
                subject.run(TreeWorkload::Load, &draw, keys, 1)?;
                for (work, of) in [(TreeWorkload::Inserts, "inserts"), (TreeWorkload::Reads, "reads")] {
                    let rate = subject.run(work, &draw, keys, threads)?;
                    let line = format!("{tree}, {of}, {pins}");
                    lines.add(RATES, &line, AxisPosition::Number(threads as f64), rate);
                }
            }
        }
    }
    Ok(lines.measured())
}

fn beside_bplus(page_bytes: usize, keys: u64) -> Result<MeasurementSet> {
    let mut lines = SeriesCollector::default();
    let draw = KeySampler::zipf(keys);
    for (place, pages) in [
        (IN_MEMORY, PageStorage::Memory),
        (BEYOND, PageStorage::file(keys, 4, PinPolicy::Optimistic)),
    ] {
        let mut rates = Vec::new();
        for (tree, sort) in [
            ("Bε-tree", PagedTreeKind::Separate),
            ("B⁺-tree", PagedTreeKind::Bplus),
        ] {
            // In-memory trees use a buffer pool, too, large enough for all pages.
            let pages = match pages {
                PageStorage::Memory => PageStorage::File {
                    memory_bytes: usize::try_from(keys * 400)?.max(16 << 20),
                    policy: alluvium_trees::paged::buffer::QueuePolicy::Quarter,
                    pins: PinPolicy::Optimistic,
                },
                pages @ PageStorage::File { .. } => pages,
            };
            let subject = TreeBenchmark::new(PagedTreeConfig {
                page_bytes,
                ..plan(sort, pages)
            })?;
            subject.run(TreeWorkload::Load, &draw, keys, 1)?;
            let before = subject.moved();
            rates.push(subject.run(TreeWorkload::Inserts, &draw, keys, 1)?);
            let moved = (subject.moved() - before) / keys as f64;
            lines.add(MOVED, tree, name(place), moved);
        }
        lines.add(QUOTIENT, "Bε-tree", name(place), rates[0] / rates[1]);
    }
    Ok(lines.measured())
}

fn reads(keys: u64) -> Result<MeasurementSet> {
    let mut lines = SeriesCollector::default();
    let draw = KeySampler::zipf(keys);
    let mut rates = Vec::new();
    for sort in [PagedTreeKind::Separate, PagedTreeKind::Bplus] {
        let subject = TreeBenchmark::new(plan(sort, PageStorage::file(keys, 4, PinPolicy::Optimistic)))?;
        subject.run(TreeWorkload::Load, &draw, keys, 1)?;
        rates.push([
            subject.run(TreeWorkload::Reads, &draw, keys, 1)?,
            subject.run(TreeWorkload::FewInserts, &draw, keys, 1)?,
        ]);
    }
    for (at, place) in [READS, FEW_INSERTS].into_iter().enumerate() {
        lines.add(QUOTIENT, "Bε-tree", name(place), rates[0][at] / rates[1][at]);
    }
    Ok(lines.measured())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_over_a_page_buffer_have_their_figures() {
        let pins = by_pins(500).unwrap().series_with_prefix(RATES);
        assert!(pins.len() == 12 && pins.iter().all(|line| line.points.len() == 2));
        let beside = beside_bplus(1024, 6000).unwrap();
        let moved = beside.series_with_prefix(MOVED);
        let of = |line: usize, place: usize| moved[line].points[place].value;
        assert!(of(0, 0) < 1e-9 && of(1, 0) < 1e-9, "in memory nothing is moved");
        assert!(of(0, 1) > 0.0 && of(1, 1) > of(0, 1), "{moved:?}");
        assert_eq!(
            reads(500).unwrap().series_with_prefix(QUOTIENT)[0].points.len(),
            2
        );
    }
}
