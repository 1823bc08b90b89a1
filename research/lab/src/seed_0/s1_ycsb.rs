//! S1: YCSB with small values.

use super::{FULL, MACHINE, QUICK, SETTING, SKEW, TENTH, THREADS};
use crate::entry::{Axis, Engines, Experiment, Form, Measure, Published, Value, Work, named};
use crate::measured::{Line, Measured, against, name, thousands_per_s};

/// The document's workloads: our phases, and what they are called in figure 3.3.
pub(super) const PHASES: [&str; 7] = ["load", "a", "b", "c", "f", "d", "e"];

pub(super) const WORKLOADS: Axis = Axis {
    name: "workload",
    form: Form::Names,
};

pub(super) const AGAINST_NOTE: &str =
    "Ours needs both engines in one run: `--engines alluvium,rocksdb`, with the program alluvium-rivals.";

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "seed-0/S1",
    title: "YCSB, values of 100 bytes",
    shows: "Loading is several times as fast as RocksDB's, and every mix but short scans is faster too.",
    section: "§3.7.2",
    figure: "Figures 3.1 and 3.3a",
    setting: SETTING,
    differs: &[
        MACHINE,
        THREADS,
        SKEW,
        TENTH,
        "A phase is measured for a time after a warm-up; the document's phases are 160 million operations each, 20 million of E.",
    ],
    measures: &[
        Measure {
            name: "throughput",
            unit: "thousand operations a second",
            axis: WORKLOADS,
            published: &[Published {
                name: "SplinterDB",
                section: "§3.7.5, the same load with 10 threads or more",
                points: &[named("load", Value::Between(2000.0, 2400.0))],
            }],
            note: "The document states no other throughput in numbers.",
            ours: throughput,
        },
        Measure {
            name: "throughput against RocksDB",
            unit: "times RocksDB's",
            axis: WORKLOADS,
            published: &[
                Published {
                    name: "SplinterDB / RocksDB",
                    section: "§3.7.2",
                    points: &[
                        named("load", Value::Said("almost an order of magnitude")),
                        named("A", Value::Between(1.4, 2.5)),
                        named("B", Value::Between(1.4, 2.5)),
                        named("C", Value::Between(1.4, 2.5)),
                        named("F", Value::Between(1.4, 2.5)),
                        named("D", Value::Between(1.4, 2.5)),
                        named("E", Value::About(0.5)),
                    ],
                },
                Published {
                    name: "SplinterDB / RocksDB, other places",
                    section: "§1.2; E in §3.7.6",
                    points: &[
                        named("load", Value::Between(2.0, 8.0)),
                        named("C", Value::Between(1.2, 2.0)),
                        named("E", Value::About(0.85)),
                    ],
                },
                Published {
                    name: "SplinterDB / RocksDB and PebblesDB",
                    section: "§3.1",
                    points: &[
                        named("load", Value::Between(6.0, 28.0)),
                        named("C", Value::Between(1.5, 3.0)),
                    ],
                },
            ],
            note: AGAINST_NOTE,
            ours: against_rocksdb,
        },
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
