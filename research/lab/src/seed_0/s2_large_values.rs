//! S2: YCSB with values of a kibibyte.

use super::s1_ycsb::{AGAINST_NOTE, PHASES, WORKLOADS, against_rocksdb, throughput};
use super::{FULL, MACHINE, QUICK, SKEW, TENTH, THREADS};
use crate::entry::{Engines, Experiment, Measure, Published, Value, Work, named};
use crate::measured::name;
use crate::plan::Scale;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "seed-0/S2",
    title: "YCSB, values of 1 KiB",
    shows: "With larger values, even short scans are faster than RocksDB's.",
    section: "§3.7.2 and §3.7.6",
    figure: "Figure 3.3b",
    setting: "The machine of S1; 84 million records of 24 + 1024 bytes, runs of 10 million operations, 1.3 million of E; 4 GiB of memory.",
    differs: &[MACHINE, THREADS, SKEW, TENTH],
    measures: &[
        Measure {
            name: "throughput against RocksDB",
            unit: "times RocksDB's",
            axis: WORKLOADS,
            published: &[Published {
                name: "SplinterDB / RocksDB",
                section: "§3.7.6",
                points: &[named("E", Value::About(1.16))],
            }],
            note: AGAINST_NOTE,
            ours: against_rocksdb,
        },
        Measure {
            name: "throughput",
            unit: "thousand operations a second",
            axis: WORKLOADS,
            published: &[],
            note: "The document states no throughput in numbers.",
            ours: throughput,
        },
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
