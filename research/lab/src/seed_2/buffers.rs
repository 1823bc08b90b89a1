//! K3, K6 and K7: trees over a page buffer in a file.

use super::harness::{CHOSEN, Draw, Lines, PAGE, Pages, Plan, Sort, Subject, Workload};
use super::{BY_THREADS, KEYS, MACHINE, NODES, SETTING, THREADS};
use crate::entry::{At, Axis, Experiment, Form, Measure, Published, Value, Work, at, named};
use crate::measured::{Measured, name, relative_to};
use alluvium_trees::paged::buffer::PinPolicy;
use anyhow::Result;

const RATES: &str = "rates";
const QUOTIENT: &str = "quotient";
const MOVED: &str = "moved";

/// What holds of files.
const FILE: &str = "Files are in the system's directory for temporary files, and pages go past the page cache. Each tree has a journal of old images; the document's trees lose their data in a crash.";

const IN_MEMORY: &str = "in memory";
const BEYOND: &str = "data 4 times memory";

pub(super) const K3: Experiment = Experiment {
    id: "seed-2/K3",
    title: "Page buffers with more threads",
    shows: "Trees over a page buffer whose one table has a lock lose throughput with each thread.",
    section: "§6.4",
    figure: "Figure 6.4",
    setting: SETTING,
    differs: &[
        MACHINE,
        KEYS,
        NODES,
        THREADS,
        FILE,
        "“locked” takes the lock of the table for each pin, as the document does; “optimistic” and “swizzled” take none for a page that is in memory, which the document leaves to later work: a table guesses where it is, or its parent remembers it.",
    ],
    measures: &[Measure {
        name: "operations beside those of one thread",
        unit: "times",
        axis: BY_THREADS,
        published: &[Published {
            name: "document",
            section: "§6.4",
            points: &[at(1.0, Value::Derived(1.0)), at(2.0, Value::Said("less than 1"))],
        }],
        note: "All data fits into the memory of the buffer.",
        ours: |measured| relative_to(measured.under(RATES), 1.0),
    }],
    work: Work::Here {
        quick: 300_000,
        full: 2_000_000,
        most: 20_000_000,
        measure: by_pins,
    },
};

pub(super) const K6: Experiment = Experiment {
    id: "seed-2/K6",
    title: "Further inserts into files, beside a B⁺-tree",
    shows: "Over the same page buffer a Bε-tree inserts 2.5 times as much as a B⁺-tree with data in memory, and 7.2 times with little memory.",
    section: "§6.4",
    figure: "Figures 6.4 and 6.5",
    setting: SETTING,
    differs: &[MACHINE, KEYS, NODES, FILE],
    measures: &[
        Measure {
            name: "further inserts beside a B⁺-tree's",
            unit: "times",
            axis: Axis {
                name: "memory",
                form: Form::Names,
            },
            published: &[Published {
                name: "document",
                section: "§6.4",
                points: &[
                    named(IN_MEMORY, Value::About(2.5)),
                    named(BEYOND, Value::About(7.2)),
                ],
            }],
            note: "One thread. The document has 40 and 10 GB for 43 GB of pairs.",
            ours: |measured| measured.under(QUOTIENT),
        },
        Measure {
            name: "pages read and written",
            unit: "for an insert",
            axis: Axis {
                name: "memory",
                form: Form::Names,
            },
            published: &[],
            note: "The document does not state it. Images in the journal are among those that are written.",
            ours: |measured| measured.under(MOVED),
        },
    ],
    work: Work::Here {
        quick: 200_000,
        full: 1_000_000,
        most: 20_000_000,
        measure: |keys| beside_bplus(PAGE, keys),
    },
};

pub(super) const K7: Experiment = Experiment {
    id: "seed-2/K7",
    title: "Reads of files, beside a B⁺-tree",
    shows: "With little memory a Bε-tree reads somewhat slower than a B⁺-tree, since it is higher.",
    section: "§6.4",
    figure: "Figures 6.4 and 6.5",
    setting: SETTING,
    differs: &[MACHINE, KEYS, NODES, FILE],
    measures: &[Measure {
        name: "operations beside a B⁺-tree's",
        unit: "times",
        axis: Axis {
            name: "workload",
            form: Form::Names,
        },
        published: &[Published {
            name: "document",
            section: "§6.4",
            points: &[
                named(READS, Value::Said("somewhat below 1")),
                named(FEW_INSERTS, Value::Said("somewhat below 1")),
            ],
        }],
        note: "One thread, data four times the memory.",
        ours: |measured| measured.under(QUOTIENT),
    }],
    work: Work::Here {
        quick: 200_000,
        full: 1_000_000,
        most: 20_000_000,
        measure: reads,
    },
};

const READS: &str = "reads";
const FEW_INSERTS: &str = "reads with 5 % inserts";

fn plan(sort: Sort, pages: Pages) -> Plan {
    Plan {
        sort,
        epsilon_percent: CHOSEN,
        page_bytes: PAGE,
        pages,
    }
}

fn by_pins(keys: u64) -> Result<Measured> {
    let mut lines = Lines::default();
    let draw = Draw::zipf(keys);
    for (tree, sort) in [("Bε-tree", Sort::Separate), ("B⁺-tree", Sort::Bplus)] {
        for (pins, policy) in [
            ("locked", PinPolicy::Locked),
            ("optimistic", PinPolicy::Optimistic),
            ("swizzled", PinPolicy::Swizzled),
        ] {
            // Twice the pairs: nodes are not full.
            let pages = Pages::File {
                memory_bytes: usize::try_from(keys * 400)?.max(16 << 20),
                policy: alluvium_trees::paged::buffer::QueuePolicy::Quarter,
                pins: policy,
            };
            for threads in [1, 2] {
                let subject = Subject::new(plan(sort, pages))?;
                subject.run(Workload::Load, &draw, keys, 1)?;
                for (work, of) in [(Workload::Inserts, "inserts"), (Workload::Reads, "reads")] {
                    let rate = subject.run(work, &draw, keys, threads)?;
                    let line = format!("{tree}, {of}, {pins}");
                    lines.add(RATES, &line, At::Number(threads as f64), rate);
                }
            }
        }
    }
    Ok(lines.measured())
}

fn beside_bplus(page_bytes: usize, keys: u64) -> Result<Measured> {
    let mut lines = Lines::default();
    let draw = Draw::zipf(keys);
    for (place, pages) in [
        (IN_MEMORY, Pages::Memory),
        (BEYOND, Pages::file(keys, 4, PinPolicy::Optimistic)),
    ] {
        let mut rates = Vec::new();
        for (tree, sort) in [("Bε-tree", Sort::Separate), ("B⁺-tree", Sort::Bplus)] {
            // In memory it is a pool, too, with space for everything.
            let pages = match pages {
                Pages::Memory => Pages::File {
                    memory_bytes: usize::try_from(keys * 400)?.max(16 << 20),
                    policy: alluvium_trees::paged::buffer::QueuePolicy::Quarter,
                    pins: PinPolicy::Optimistic,
                },
                pages @ Pages::File { .. } => pages,
            };
            let subject = Subject::new(Plan {
                page_bytes,
                ..plan(sort, pages)
            })?;
            subject.run(Workload::Load, &draw, keys, 1)?;
            let before = subject.moved();
            rates.push(subject.run(Workload::Inserts, &draw, keys, 1)?);
            let moved = (subject.moved() - before) / keys as f64;
            lines.add(MOVED, tree, name(place), moved);
        }
        lines.add(QUOTIENT, "Bε-tree", name(place), rates[0] / rates[1]);
    }
    Ok(lines.measured())
}

fn reads(keys: u64) -> Result<Measured> {
    let mut lines = Lines::default();
    let draw = Draw::zipf(keys);
    let mut rates = Vec::new();
    for sort in [Sort::Separate, Sort::Bplus] {
        let subject = Subject::new(plan(sort, Pages::file(keys, 4, PinPolicy::Optimistic)))?;
        subject.run(Workload::Load, &draw, keys, 1)?;
        rates.push([
            subject.run(Workload::Reads, &draw, keys, 1)?,
            subject.run(Workload::FewInserts, &draw, keys, 1)?,
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
        let pins = by_pins(500).unwrap().under(RATES);
        assert!(pins.len() == 12 && pins.iter().all(|line| line.points.len() == 2));
        let beside = beside_bplus(1024, 6000).unwrap();
        let moved = beside.under(MOVED);
        let of = |line: usize, place: usize| moved[line].points[place].value;
        assert!(of(0, 0) < 1e-9 && of(1, 0) < 1e-9, "in memory nothing is moved");
        assert!(of(0, 1) > 0.0 && of(1, 1) > of(0, 1), "{moved:?}");
        assert_eq!(reads(500).unwrap().under(QUOTIENT)[0].points.len(), 2);
    }
}
