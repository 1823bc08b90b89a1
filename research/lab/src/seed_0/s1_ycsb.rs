//! S1: YCSB with small values.

use super::{FULL, QUICK};
use crate::entry::{EngineWorkload, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigureSeries, MeasurementSet, against, name, thousands_per_s};

/// The document's workloads: our phases and their names in figure 3.3.
pub(super) const PHASES: [&str; 7] = ["load", "a", "b", "c", "f", "d", "e"];

pub(super) const PROCEDURE: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/S1",
    ours: &[
        ("throughput", throughput),
        ("throughput against RocksDB", against_rocksdb),
    ],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK,
        full: FULL,
        steps: |base| Ok(vec![base.step(name("YCSB"), &PHASES)?]),
    }),
};

pub(super) fn throughput(measured: &MeasurementSet) -> Vec<FigureSeries> {
    let places = ["load", "A", "B", "C", "F", "D", "E"];
    let phases: Vec<_> = PHASES
        .iter()
        .zip(places)
        .map(|(phase, place)| (*phase, name(place)))
        .collect();
    measured.by_phase(&phases, thousands_per_s)
}

pub(super) fn against_rocksdb(measured: &MeasurementSet) -> Vec<FigureSeries> {
    against(&throughput(measured), "rocksdb")
}
