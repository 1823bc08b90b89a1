//! E3 to E10: what ε does to inserts, reads, height and pages.

use super::harness::{Draw, Lines, PAGE, Plan, Sort, Subject, Workload};
use super::layout::{EPSILONS, place};
use super::{EPSILON, KEYS, MACHINE, NODES, SETTING, THOUSANDS, THREADS};
use crate::entry::{Experiment, Measure, Published, Value, Work, at};
use crate::measured::{Measured, relative_to};
use anyhow::Result;

const INSERTS: &str = "inserts";
const READS: &str = "reads";
const HEIGHT: &str = "height";
const PAGES: &str = "pages";
const ZIPF: &str = "Zipf beside uniform";

/// What the sweeps of ε have in common.
macro_rules! sweep {
    ($id:expr, $title:expr, $shows:expr, $figure:expr, $measures:expr, $measure:expr $(,)?) => {
        Experiment {
            id: $id,
            title: $title,
            shows: $shows,
            section: "§6.2",
            figure: $figure,
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

/// A measure over ε.
macro_rules! over_epsilon {
    ($name:expr, $unit:expr, $published:expr, $note:expr, $ours:expr $(,)?) => {
        Measure {
            name: $name,
            unit: $unit,
            axis: EPSILON,
            published: $published,
            note: $note,
            ours: $ours,
        }
    };
}

pub(super) const E3: Experiment = sweep!(
    "seed-2/E3",
    "Inserts of several threads by ε",
    "With 16 threads inserts fall by about 53 % behind an ε of 0.9.",
    "Figure 6.1",
    &[over_epsilon!(
        "inserts beside those at 0.9",
        "times",
        &[Published {
            name: "16 threads",
            section: "§6.2",
            points: &[at(0.9, Value::Derived(1.0)), at(0.99, Value::About(0.47))],
        }],
        "Ours by 2 threads.",
        |measured| relative_to(measured.under(INSERTS), 0.9),
    )],
    |keys| swept(keys, 2, &[Workload::Inserts]),
);

pub(super) const E4: Experiment = sweep!(
    "seed-2/E4",
    "Inserts of one thread by ε",
    "With one thread inserts decline slowly to an ε of 0.98, and then fall by about 36 %.",
    "Figure 6.1",
    &[over_epsilon!(
        "inserts beside those at 0.98",
        "times",
        &[Published {
            name: "1 thread",
            section: "§6.2",
            points: &[at(0.98, Value::Derived(1.0)), at(1.0, Value::About(0.64))],
        }],
        "",
        |measured| relative_to(measured.under(INSERTS), 0.98),
    )],
    |keys| swept(keys, 1, &[Workload::Inserts]),
);

pub(super) const E5: Experiment = sweep!(
    "seed-2/E5",
    "Reads of one thread by ε",
    "With one thread reads become more than twice as fast from the least ε to the greatest.",
    "Figure 6.1",
    &[over_epsilon!(
        "reads",
        THOUSANDS,
        &[Published {
            name: "1 thread",
            section: "§6.2",
            points: &[at(0.3, Value::About(500.0)), at(1.0, Value::About(1100.0))],
        }],
        "",
        |measured| measured.under(READS),
    )],
    |keys| swept(keys, 1, &[Workload::Reads]),
);

pub(super) const E6: Experiment = sweep!(
    "seed-2/E6",
    "Reads of several threads by ε",
    "With 16 threads reads rise by about two fifths up to an ε of 0.95.",
    "Figure 6.1",
    &[over_epsilon!(
        "reads beside those at 0.3",
        "times",
        &[Published {
            name: "16 threads",
            section: "§6.2",
            points: &[at(0.3, Value::Derived(1.0)), at(0.95, Value::Derived(1.39))],
        }],
        "The document: 5.25 million reads a second become 7.3 million. Ours by 2 threads.",
        |measured| relative_to(measured.under(READS), 0.3),
    )],
    |keys| swept(keys, 2, &[Workload::Reads]),
);

pub(super) const E7: Experiment = sweep!(
    "seed-2/E7",
    "Height by ε",
    "The tree has 13 levels with the fewest pivots, 9 with two more, and 4 from an ε of 0.7 on.",
    "Figure 6.2",
    &[over_epsilon!(
        "height",
        "levels",
        &[Published {
            name: "document",
            section: "§6.2",
            points: &[
                at(0.35, Value::Is(13.0)),
                at(0.36, Value::Is(9.0)),
                at(0.7, Value::Is(4.0)),
                at(0.8, Value::Is(4.0)),
            ],
        }],
        "The document has 200 million operations after as many; ours has fewer, and a lower tree.",
        |measured| measured.under(HEIGHT),
    )],
    |keys| swept(keys, 1, &[Workload::Inserts]),
);

pub(super) const E8: Experiment = sweep!(
    "seed-2/E8",
    "Keys by Zipf's law beside uniform keys, by ε",
    "Inserts and reads by Zipf's law are as fast as uniform ones or faster, whatever ε is.",
    "Figure 6.1",
    &[over_epsilon!(
        "Zipf's law beside uniform keys",
        "times its operations a second",
        &[Published {
            name: "document",
            section: "§6.2",
            points: &[
                at(0.3, Value::Said("1 or more")),
                at(0.8, Value::Said("1 or more")),
                at(1.0, Value::Said("1 or more")),
            ],
        }],
        "One thread.",
        |measured| measured.under(ZIPF),
    )],
    beside_uniform,
);

pub(super) const E9: Experiment = sweep!(
    "seed-2/E9",
    "Pages by ε",
    "The fewest pages are taken at an ε of 0.65, and as many as by a B⁺-tree at 1.",
    "Figure 6.2",
    &[over_epsilon!(
        "pages",
        "for a thousand inserts",
        &[Published {
            name: "document",
            section: "§6.2",
            points: &[
                at(0.0, Value::Derived(11.5)),
                at(0.65, Value::Derived(8.25)),
                at(0.9, Value::Derived(11.5)),
            ],
        }],
        "The document: 4.6, 3.3 and 4.6 million pages for 400 million inserts.",
        |measured| measured.under(PAGES),
    )],
    |keys| swept(keys, 1, &[Workload::Inserts]),
);

pub(super) const E10: Experiment = sweep!(
    "seed-2/E10",
    "Inserts beside those at the ε that was chosen",
    "Inserts are about as fast for every ε from 0.4 to 0.8, of which the greatest was chosen for the sake of reads.",
    "Figure 6.1",
    &[over_epsilon!(
        "inserts beside those at 0.8",
        "times",
        &[Published {
            name: "document",
            section: "§6.2",
            points: &[
                at(0.4, Value::Said("about the same")),
                at(0.6, Value::Said("about the same")),
                at(0.8, Value::Derived(1.0)),
            ],
        }],
        "One thread.",
        |measured| relative_to(measured.under(INSERTS), 0.8),
    )],
    |keys| swept(keys, 1, &[Workload::Inserts]),
);

/// Runs workloads after a load, for each ε.
fn swept(keys: u64, threads: u64, works: &[Workload]) -> Result<Measured> {
    swept_with(PAGE, keys, threads, works)
}

/// The same with nodes of a size.
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

/// Compares keys by Zipf's law with uniform ones.
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
