//! S8: how loading scales with threads.

use super::s7_reading_threads::{AXIS, FEW_CORES};
use super::{FULL, MACHINE, QUICK, SETTING, TENTH};
use crate::entry::{Engines, Experiment, Measure, Published, Value, Work, at};
use crate::measured::{Line, Measured, relative_to, thousands_per_s};
use crate::plan::{Base, Size, Step, threads};
use anyhow::Result;

const GIB: f64 = (1u64 << 30) as f64;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "seed-0/S8",
    title: "Loading with more and more threads",
    shows: "Loading scales almost linearly to 10 threads, where the device's sequential bandwidth is used up.",
    section: "§3.7.5",
    figure: "Figure 3.9",
    setting: SETTING,
    differs: &[
        MACHINE,
        FEW_CORES,
        TENTH,
        "The document inserts from a trace in memory; ours draws keys as it goes.",
        "Our amplification counts what the engine does after the load by itself; our bandwidth does not.",
    ],
    measures: &[
        Measure {
            name: "throughput",
            unit: "thousand insertions a second",
            axis: AXIS,
            published: &[Published {
                name: "SplinterDB",
                section: "§3.7.5, 10 threads and more",
                points: &[at(10.0, Value::Between(2000.0, 2400.0))],
            }],
            note: "",
            ours: throughput,
        },
        Measure {
            name: "speed-up",
            unit: "times the throughput of one thread",
            axis: AXIS,
            published: &[
                Published {
                    name: "SplinterDB",
                    section: "§3.7.5",
                    points: &[at(10.0, Value::Said("almost linear up to here"))],
                },
                Published {
                    name: "RocksDB",
                    section: "§3.7.5",
                    points: &[at(14.0, Value::Is(2.7))],
                },
            ],
            note: "",
            ours: |measured| relative_to(throughput(measured), 1.0),
        },
        Measure {
            name: "I/O amplification",
            unit: "bytes written and read for each of the user's",
            axis: AXIS,
            published: &[Published {
                name: "SplinterDB",
                section: "§3.7.5, 10 threads and more",
                points: &[at(10.0, Value::About(7.5))],
            }],
            note: "",
            ours: |measured| measured.by_step(|of| of.load_amplification()),
        },
        Measure {
            name: "written and read during the load",
            unit: "GiB a second",
            axis: AXIS,
            published: &[Published {
                name: "SplinterDB",
                section: "§3.7.5, 10 threads and more",
                points: &[at(10.0, Value::Between(1.9, 2.2))],
            }],
            note: "RocksDB's bandwidth is a misprint in the document (“754GiB/sec”), and is left out.",
            ours: bandwidth,
        },
    ],
    work: Work::Engines(Engines {
        quick: QUICK,
        full: FULL,
        steps,
    }),
};

fn throughput(measured: &Measured) -> Vec<Line> {
    measured.by_step(|of| thousands_per_s(of.phase("load")?))
}

fn bandwidth(measured: &Measured) -> Vec<Line> {
    measured.by_step(|of| {
        let row = of.phase("load")?;
        let bytes = row.device_write_bytes + row.device_read_bytes;
        (row.seconds > 0.0).then(|| bytes as f64 / GIB / row.seconds)
    })
}

fn steps(base: &Base) -> Result<Vec<Step>> {
    let all: &[usize] = match base.size {
        Size::Quick => &[1, 2],
        Size::Full => &[1, 2, 4, 8, 10, 14, 20, 32],
    };
    let step = |count| base.with_threads(count, &["load"]);
    threads(all).into_iter().map(step).collect()
}
