//! S1: YCSB with small values.

use super::{FULL, QUICK};
use crate::entry::{Engines, Procedure, Work};
use crate::measured::{Line, Measured, against, name, thousands_per_s};

/// The document's workloads: our phases and their names in figure 3.3.
pub(super) const PHASES: [&str; 7] = ["load", "a", "b", "c", "f", "d", "e"];

pub(super) const PROCEDURE: Procedure = Procedure {
    id: "seed-0/S1",
    ours: &[
        ("throughput", throughput),
        ("throughput against RocksDB", against_rocksdb),
    ],
    work: Work::Engines(Engines {
        quick: QUICK,
        full: FULL,
        steps: |base| Ok(vec![base.step(name("YCSB"), &PHASES)?]),
    }),
};

pub(super) fn throughput(measured: &Measured) -> Vec<Line> {
    let places = ["load", "A", "B", "C", "F", "D", "E"];
    let phases: Vec<_> = PHASES
        .iter()
        .zip(places)
        .map(|(phase, place)| (*phase, name(place)))
        .collect();
    measured.by_phase(&phases, thousands_per_s)
}

pub(super) fn against_rocksdb(measured: &Measured) -> Vec<Line> {
    against(&throughput(measured), "rocksdb")
}
