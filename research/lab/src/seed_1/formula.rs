//! S13: the document's formulas compared with measured stores.

use super::harness::{at_number, line, lines};
use super::silt::{SET, proportioned, steady};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::MeasurementSet;
use anyhow::Result;

const WRITES: &str = "writes";
const READS: &str = "reads";
const MEMORY: &str = "memory";
const STORES: &str = "stores";

/// Numbers of hash stores in a set: 1 to 11 million entries of the document's 25 million, and the
/// document's example.
const SETS: [u64; 5] = [8, 18, 41, SET, 93];

/// The sizes of Figure 2.8, as hash stores of 122,000 entries.
pub(super) const S13: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/S13",
    ours: &[
        ("write amplification", |measured| lines(measured, WRITES)),
        ("reads of a lookup", |measured| lines(measured, READS)),
        ("memory", |measured| lines(measured, MEMORY)),
        ("hash stores, on average", |measured| lines(measured, STORES)),
    ],
    work: ExperimentMethod::Here {
        quick: 60_000,
        full: 5_000_000,
        most: 25_000_000,
        measure,
    },
};

fn measure(count: u64) -> Result<MeasurementSet> {
    // All sets use the same table and number of keys, as in the document's sweep.
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
    Ok(MeasurementSet {
        counts,
        ..MeasurementSet::default()
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
