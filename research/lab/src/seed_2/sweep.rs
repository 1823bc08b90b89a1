//! E3 to E10: the effect of ε on inserts, reads, height and pages.

use super::harness::{
    KeySampler, PAGE, PagedTreeConfig, PagedTreeKind, SeriesCollector, TreeBenchmark, TreeWorkload,
};
use super::layout::{EPSILONS, place};
use crate::entry::{ExperimentMethod, FigureComputation, MeasurementProcedure};
use crate::measurements::{MeasurementSet, relative_to};
use anyhow::Result;

const INSERTS: &str = "inserts";
const READS: &str = "reads";
const HEIGHT: &str = "height";
const PAGES: &str = "pages";
const ZIPF: &str = "Zipf beside uniform";

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

pub(super) const E3: MeasurementProcedure = procedure(
    "seed-2/E3",
    &[("inserts beside those at 0.9", |measured| {
        relative_to(measured.series_with_prefix(INSERTS), 0.9)
    })],
    |keys| swept(keys, 2, &[TreeWorkload::Inserts]),
);

pub(super) const E4: MeasurementProcedure = procedure(
    "seed-2/E4",
    &[("inserts beside those at 0.98", |measured| {
        relative_to(measured.series_with_prefix(INSERTS), 0.98)
    })],
    |keys| swept(keys, 1, &[TreeWorkload::Inserts]),
);

pub(super) const E5: MeasurementProcedure = procedure(
    "seed-2/E5",
    &[("reads", |measured| measured.series_with_prefix(READS))],
    |keys| swept(keys, 1, &[TreeWorkload::Reads]),
);

pub(super) const E6: MeasurementProcedure = procedure(
    "seed-2/E6",
    &[("reads beside those at 0.3", |measured| {
        relative_to(measured.series_with_prefix(READS), 0.3)
    })],
    |keys| swept(keys, 2, &[TreeWorkload::Reads]),
);

pub(super) const E7: MeasurementProcedure = procedure(
    "seed-2/E7",
    &[("height", |measured| measured.series_with_prefix(HEIGHT))],
    |keys| swept(keys, 1, &[TreeWorkload::Inserts]),
);

pub(super) const E8: MeasurementProcedure = procedure(
    "seed-2/E8",
    &[("Zipf's law beside uniform keys", |measured| {
        measured.series_with_prefix(ZIPF)
    })],
    beside_uniform,
);

pub(super) const E9: MeasurementProcedure = procedure(
    "seed-2/E9",
    &[("pages", |measured| measured.series_with_prefix(PAGES))],
    |keys| swept(keys, 1, &[TreeWorkload::Inserts]),
);

pub(super) const E10: MeasurementProcedure = procedure(
    "seed-2/E10",
    &[("inserts beside those at 0.8", |measured| {
        relative_to(measured.series_with_prefix(INSERTS), 0.8)
    })],
    |keys| swept(keys, 1, &[TreeWorkload::Inserts]),
);

/// Runs workloads after a load, for each ε.
fn swept(keys: u64, threads: u64, works: &[TreeWorkload]) -> Result<MeasurementSet> {
    swept_with(PAGE, keys, threads, works)
}

/// Like `swept`, with the given page size.
fn swept_with(page_bytes: usize, keys: u64, threads: u64, works: &[TreeWorkload]) -> Result<MeasurementSet> {
    let mut lines = SeriesCollector::default();
    let draw = KeySampler::zipf(keys);
    for epsilon in EPSILONS {
        let subject = TreeBenchmark::new(PagedTreeConfig {
            page_bytes,
            ..PagedTreeConfig::in_memory(PagedTreeKind::Separate, epsilon)
        })?;
        subject.run(TreeWorkload::Load, &draw, keys, 1)?;
        for work in works {
            let rate = subject.run(*work, &draw, keys, threads)?;
            let measure = if *work == TreeWorkload::Reads {
                READS
            } else {
                INSERTS
            };
            lines.add(
                measure,
                &format!("Bε-tree, {threads} threads"),
                place(epsilon),
                rate,
            );
        }
        lines.add(HEIGHT, "Bε-tree", place(epsilon), subject.height()?);
        let inserts = if works.contains(&TreeWorkload::Inserts) {
            2 * keys
        } else {
            keys
        };
        let pages = 1000.0 * subject.pages() / inserts as f64;
        lines.add(PAGES, "Bε-tree", place(epsilon), pages);
    }
    let bplus = TreeBenchmark::new(PagedTreeConfig {
        page_bytes,
        ..PagedTreeConfig::in_memory(PagedTreeKind::Bplus, 100)
    })?;
    bplus.run(TreeWorkload::Load, &draw, keys, 1)?;
    bplus.run(TreeWorkload::Inserts, &draw, keys, 1)?;
    lines.add(HEIGHT, "B⁺-tree", place(100), bplus.height()?);
    lines.add(PAGES, "B⁺-tree", place(100), 500.0 * bplus.pages() / keys as f64);
    Ok(lines.measured())
}

/// Compares Zipf-distributed keys with uniform ones.
fn beside_uniform(keys: u64) -> Result<MeasurementSet> {
    let mut lines = SeriesCollector::default();
    for epsilon in EPSILONS {
        let mut rates = Vec::new();
        for draw in [KeySampler::zipf(keys), KeySampler::Uniform(keys)] {
            let subject = TreeBenchmark::new(PagedTreeConfig::in_memory(PagedTreeKind::Separate, epsilon))?;
            subject.run(TreeWorkload::Load, &draw, keys, 1)?;
            rates.push([
                subject.run(TreeWorkload::Inserts, &draw, keys, 1)?,
                subject.run(TreeWorkload::Reads, &draw, keys, 1)?,
            ]);
        }
        for (place_of, name) in [INSERTS, READS].into_iter().enumerate() {
            let ratio = rates[0][place_of] / rates[1][place_of];
            lines.add(ZIPF, name, place(epsilon), ratio);
        }
    }
    Ok(lines.measured())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::value_at;

    #[test]
    fn a_tree_becomes_lower_with_epsilon_and_has_the_leaves_of_a_b_plus_tree_at_one() {
        let measured = swept_with(1024, 6000, 1, &[TreeWorkload::Inserts, TreeWorkload::Reads]).unwrap();
        let heights = measured.series_with_prefix(HEIGHT);
        let height = |epsilon| value_at(&heights[0], epsilon).unwrap();
        assert!(
            height(0.0) > height(0.75) && height(0.75) > height(1.0),
            "{heights:?}"
        );
        let pages = measured.series_with_prefix(PAGES);
        let [ours, bplus] = [0, 1].map(|line: usize| value_at(&pages[line], 1.0).unwrap());
        assert!((0.8..1.25).contains(&(ours / bplus)), "{pages:?}");
        for lines in [
            measured.series_with_prefix(INSERTS),
            measured.series_with_prefix(READS),
        ] {
            assert_eq!(lines[0].points.len(), EPSILONS.len());
        }
    }

    #[test]
    fn every_epsilon_has_two_quotients() {
        let lines = beside_uniform(500).unwrap().series_with_prefix(ZIPF);
        let points = lines.iter().flat_map(|line| &line.points);
        assert!(lines.len() == 2 && points.into_iter().all(|point| point.value > 0.0));
    }
}
