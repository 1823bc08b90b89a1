//! E3 to E10: the effect of ε on inserts, reads, height and pages.

use super::harness::{Draw, Lines, PAGE, Plan, Sort, Subject, Workload};
use super::layout::{EPSILONS, place};
use crate::entry::{Evaluation, Procedure, Work};
use crate::measured::{Measured, relative_to};
use anyhow::Result;

const INSERTS: &str = "inserts";
const READS: &str = "reads";
const HEIGHT: &str = "height";
const PAGES: &str = "pages";
const ZIPF: &str = "Zipf beside uniform";

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

pub(super) const E3: Procedure = procedure(
    "seed-2/E3",
    &[("inserts beside those at 0.9", |measured| {
        relative_to(measured.under(INSERTS), 0.9)
    })],
    |keys| swept(keys, 2, &[Workload::Inserts]),
);

pub(super) const E4: Procedure = procedure(
    "seed-2/E4",
    &[("inserts beside those at 0.98", |measured| {
        relative_to(measured.under(INSERTS), 0.98)
    })],
    |keys| swept(keys, 1, &[Workload::Inserts]),
);

pub(super) const E5: Procedure = procedure(
    "seed-2/E5",
    &[("reads", |measured| measured.under(READS))],
    |keys| swept(keys, 1, &[Workload::Reads]),
);

pub(super) const E6: Procedure = procedure(
    "seed-2/E6",
    &[("reads beside those at 0.3", |measured| {
        relative_to(measured.under(READS), 0.3)
    })],
    |keys| swept(keys, 2, &[Workload::Reads]),
);

pub(super) const E7: Procedure = procedure(
    "seed-2/E7",
    &[("height", |measured| measured.under(HEIGHT))],
    |keys| swept(keys, 1, &[Workload::Inserts]),
);

pub(super) const E8: Procedure = procedure(
    "seed-2/E8",
    &[("Zipf's law beside uniform keys", |measured| measured.under(ZIPF))],
    beside_uniform,
);

pub(super) const E9: Procedure = procedure(
    "seed-2/E9",
    &[("pages", |measured| measured.under(PAGES))],
    |keys| swept(keys, 1, &[Workload::Inserts]),
);

pub(super) const E10: Procedure = procedure(
    "seed-2/E10",
    &[("inserts beside those at 0.8", |measured| {
        relative_to(measured.under(INSERTS), 0.8)
    })],
    |keys| swept(keys, 1, &[Workload::Inserts]),
);

/// Runs workloads after a load, for each ε.
fn swept(keys: u64, threads: u64, works: &[Workload]) -> Result<Measured> {
    swept_with(PAGE, keys, threads, works)
}

/// Like `swept`, with the given page size.
fn swept_with(page_bytes: usize, keys: u64, threads: u64, works: &[Workload]) -> Result<Measured> {
    let mut lines = Lines::default();
    let draw = Draw::zipf(keys);
    for epsilon in EPSILONS {
        let subject = Subject::new(Plan {
            page_bytes,
            ..Plan::in_memory(Sort::Separate, epsilon)
        })?;
        subject.run(Workload::Load, &draw, keys, 1)?;
        for work in works {
            let rate = subject.run(*work, &draw, keys, threads)?;
            let measure = if *work == Workload::Reads { READS } else { INSERTS };
            lines.add(
                measure,
                &format!("Bε-tree, {threads} threads"),
                place(epsilon),
                rate,
            );
        }
        lines.add(HEIGHT, "Bε-tree", place(epsilon), subject.height()?);
        let inserts = if works.contains(&Workload::Inserts) {
            2 * keys
        } else {
            keys
        };
        let pages = 1000.0 * subject.pages() / inserts as f64;
        lines.add(PAGES, "Bε-tree", place(epsilon), pages);
    }
    let bplus = Subject::new(Plan {
        page_bytes,
        ..Plan::in_memory(Sort::Bplus, 100)
    })?;
    bplus.run(Workload::Load, &draw, keys, 1)?;
    bplus.run(Workload::Inserts, &draw, keys, 1)?;
    lines.add(HEIGHT, "B⁺-tree", place(100), bplus.height()?);
    lines.add(PAGES, "B⁺-tree", place(100), 500.0 * bplus.pages() / keys as f64);
    Ok(lines.measured())
}

/// Compares Zipf-distributed keys with uniform ones.
fn beside_uniform(keys: u64) -> Result<Measured> {
    let mut lines = Lines::default();
    for epsilon in EPSILONS {
        let mut rates = Vec::new();
        for draw in [Draw::zipf(keys), Draw::Uniform(keys)] {
            let subject = Subject::new(Plan::in_memory(Sort::Separate, epsilon))?;
            subject.run(Workload::Load, &draw, keys, 1)?;
            rates.push([
                subject.run(Workload::Inserts, &draw, keys, 1)?,
                subject.run(Workload::Reads, &draw, keys, 1)?,
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
    use crate::measured::value_at;

    #[test]
    fn a_tree_becomes_lower_with_epsilon_and_has_the_leaves_of_a_b_plus_tree_at_one() {
        let measured = swept_with(1024, 6000, 1, &[Workload::Inserts, Workload::Reads]).unwrap();
        let heights = measured.under(HEIGHT);
        let height = |epsilon| value_at(&heights[0], epsilon).unwrap();
        assert!(
            height(0.0) > height(0.75) && height(0.75) > height(1.0),
            "{heights:?}"
        );
        let pages = measured.under(PAGES);
        let [ours, bplus] = [0, 1].map(|line: usize| value_at(&pages[line], 1.0).unwrap());
        assert!((0.8..1.25).contains(&(ours / bplus)), "{pages:?}");
        for lines in [measured.under(INSERTS), measured.under(READS)] {
            assert_eq!(lines[0].points.len(), EPSILONS.len());
        }
    }

    #[test]
    fn every_epsilon_has_two_quotients() {
        let lines = beside_uniform(500).unwrap().under(ZIPF);
        let points = lines.iter().flat_map(|line| &line.points);
        assert!(lines.len() == 2 && points.into_iter().all(|point| point.value > 0.0));
    }
}
