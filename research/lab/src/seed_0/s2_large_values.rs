//! S2: YCSB with values of 1 KiB.

use super::s1_ycsb::{PHASES, against_rocksdb, throughput};
use super::{FULL, QUICK};
use crate::entry::{Engines, Procedure, Work};
use crate::measured::name;
use crate::plan::Scale;

pub(super) const PROCEDURE: Procedure = Procedure {
    id: "seed-0/S2",
    ours: &[
        ("throughput against RocksDB", against_rocksdb),
        ("throughput", throughput),
    ],
    work: Work::Engines(Engines {
        quick: Scale {
            records: 120_000,
            value_bytes: 1024,
            ..QUICK
        },
        full: Scale {
            records: 8_400_000,
            value_bytes: 1024,
            ..FULL
        },
        steps: |base| Ok(vec![base.step(name("YCSB"), &PHASES)?]),
    }),
};
