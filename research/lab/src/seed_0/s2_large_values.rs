//! S2: YCSB with values of 1 KiB.

use super::s1_ycsb::{PHASES, against_rocksdb, throughput};
use super::{FULL, QUICK};
use crate::entry::{EngineWorkload, ExperimentMethod, MeasurementProcedure};
use crate::measurements::name;
use crate::plan::ExperimentScale;

pub(super) const PROCEDURE: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/S2",
    ours: &[
        ("throughput against RocksDB", against_rocksdb),
        ("throughput", throughput),
    ],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: ExperimentScale {
            records: 120_000,
            value_bytes: 1024,
            ..QUICK
        },
        full: ExperimentScale {
            records: 8_400_000,
            value_bytes: 1024,
            ..FULL
        },
        steps: |base| Ok(vec![base.step(name("YCSB"), &PHASES)?]),
    }),
};
