//! S13: what the formulas say, and what stores do.

use super::COMPOSED;
use super::harness::{at_number, line, lines};
use super::silt::{SET, proportioned, steady};
use crate::entry::{Axis, Experiment, Form, Measure, Published, Value, Work, at};
use crate::measured::Measured;
use anyhow::Result;

const WRITES: &str = "writes";
const READS: &str = "reads";
const MEMORY: &str = "memory";
const STORES: &str = "stores";

const MERGED: Axis = Axis {
    name: "hash stores merged at once",
    form: Form::Logarithmic,
};

/// Hash stores of a set: one to 18 million entries of the document's 25 million, and its example.
const SETS: [u64; 5] = [8, 18, 41, SET, 93];

/// The sizes of Figure 2.8, as hash stores of 122,000 entries.
pub(super) const S13: Experiment = Experiment {
    id: "seed-1/S13",
    title: "Write amplification, reads and memory by how much is merged at once",
    shows: "Merging more hash stores at once writes less, and takes more memory and reads.",
    section: "§2.4",
    figure: "Figure 2.8",
    setting: "Computed in the document: 100 million keys in 4 instances, 15-bit tags.",
    differs: &[
        COMPOSED,
        "“formula” is the document's, with the entries, the keys and the table that were measured. Absent keys are looked up: they ask all stores, as the formula has it.",
    ],
    measures: &[
        Measure {
            name: "write amplification",
            unit: "entries for each update",
            axis: MERGED,
            published: &[Published {
                name: "document",
                section: "§2.4",
                points: &[
                    at(8.2, Value::Derived(27.1)),
                    at(18.5, Value::Derived(13.2)),
                    at(41.5, Value::Derived(7.01)),
                    at(62.0, Value::Is(5.4)),
                    at(93.4, Value::Derived(4.27)),
                ],
            }],
            note: "",
            ours: |measured| lines(measured, WRITES),
        },
        Measure {
            name: "reads of a lookup",
            unit: "entries",
            axis: MERGED,
            published: &[Published {
                name: "document",
                section: "§2.4",
                points: &[
                    at(8.2, Value::Derived(1.0012)),
                    at(18.5, Value::Derived(1.0025)),
                    at(41.5, Value::Derived(1.0053)),
                    at(62.0, Value::Is(1.008)),
                    at(93.4, Value::Derived(1.0116)),
                ],
            }],
            note: "The formula takes tables to be full, and the log's too.",
            ours: |measured| lines(measured, READS),
        },
        Measure {
            name: "memory",
            unit: "bytes an entry",
            axis: MERGED,
            published: &[Published {
                name: "document",
                section: "§2.4",
                points: &[
                    at(8.2, Value::Derived(0.472)),
                    at(18.5, Value::Derived(0.522)),
                    at(41.5, Value::Derived(0.635)),
                    at(62.0, Value::Is(0.73)),
                    at(93.4, Value::Derived(0.889)),
                ],
            }],
            note: "The formula counts 0.4 bytes a key for tries; ours take 0.31.",
            ours: |measured| lines(measured, MEMORY),
        },
        Measure {
            name: "hash stores, on average",
            unit: "hash stores",
            axis: MERGED,
            published: &[Published {
                name: "document",
                section: "§2.4",
                points: &[at(62.0, Value::Is(31.0))],
            }],
            note: "",
            ours: |measured| lines(measured, STORES),
        },
    ],
    work: Work::Here {
        quick: 60_000,
        full: 5_000_000,
        most: 25_000_000,
        measure,
    },
};

fn measure(count: u64) -> Result<Measured> {
    // One table and one number of keys for all sets, as the document sweeps them.
    let (shape, keys) = proportioned(count, SET)?;
    let (mut found, mut said) = ([const { Vec::new() }; 4], [const { Vec::new() }; 4]);
    for set in SETS {
        let steady = steady(keys, shape, set)?;
        let formula = steady.formula(shape)?;
        let place = set as f64;
        let pairs = [
            (steady.write_amplification, formula.write_amplification),
            (steady.reads, formula.read_amplification),
            (steady.memory_bytes, formula.memory_bytes),
            (steady.hash_stores, formula.hash_stores),
        ];
        for (at, (measured, computed)) in pairs.into_iter().enumerate() {
            found[at].push(at_number(place, measured));
            said[at].push(at_number(place, computed));
        }
    }
    let mut counts = Vec::new();
    for (what, (found, said)) in [WRITES, READS, MEMORY, STORES]
        .into_iter()
        .zip(found.into_iter().zip(said))
    {
        counts.push(line(what, "SILT", found));
        counts.push(line(what, "formula", said));
    }
    Ok(Measured {
        counts,
        ..Measured::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_follow_the_formula_within_a_twentieth() {
        let measured = measure(30_000).unwrap();
        let both = lines(&measured, WRITES);
        for (found, said) in both[0].points.iter().zip(&both[1].points) {
            assert!(
                (found.value / said.value - 1.0).abs() < 0.05,
                "{found:?} {said:?}"
            );
        }
        let memory = &lines(&measured, MEMORY)[0].points;
        assert!(
            memory.is_sorted_by(|less, more| less.value < more.value),
            "{memory:?}"
        );
    }
}
