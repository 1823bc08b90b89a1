//! S7: how reads scale with threads.

use super::{FULL, MACHINE, QUICK, SETTING, SKEW, TENTH};
use crate::entry::{Axis, Engines, Experiment, Form, Measure, Published, Value, Work, at};
use crate::measured::{Line, Measured, relative_to, thousands_per_s};
use crate::plan::{Base, Size, Step, threads};
use anyhow::Result;

pub(super) const AXIS: Axis = Axis {
    name: "threads",
    form: Form::Linear,
};

pub(super) const FEW_CORES: &str = "Ours has as many points as say something here: up to twice as many threads as there are processors. The document goes to 32 cores.";

const GIB: f64 = (1u64 << 30) as f64;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "seed-0/S7",
    title: "Reads with more and more threads",
    shows: "Reads scale almost linearly with threads until the device is used to 88 to 95 %.",
    section: "§3.7.5",
    figure: "Figure 3.8",
    setting: SETTING,
    differs: &[
        MACHINE,
        FEW_CORES,
        SKEW,
        TENTH,
        "The document states how much of the device's advertised capability is used (SplinterDB 88 to 95 %, RocksDB 91 % with 32 threads); ours states \
         what was read, for the device's capability is not measured here.",
    ],
    measures: &[
        Measure {
            name: "speed-up",
            unit: "times the throughput of one thread",
            axis: AXIS,
            published: &[
                Published {
                    name: "SplinterDB",
                    section: "§3.7.5",
                    points: &[at(1.0, Value::Derived(1.0)), at(24.0, Value::Is(18.5))],
                },
                Published {
                    name: "RocksDB",
                    section: "§3.7.5",
                    points: &[at(1.0, Value::Derived(1.0)), at(24.0, Value::Is(17.4))],
                },
            ],
            note: "",
            ours: |measured| relative_to(throughput(measured), 1.0),
        },
        Measure {
            name: "read from the device",
            unit: "GiB a second",
            axis: AXIS,
            published: &[Published {
                name: "SplinterDB",
                section: "§3.7.5",
                points: &[
                    at(24.0, Value::Between(2.07, 2.24)),
                    at(32.0, Value::Between(2.07, 2.24)),
                ],
            }],
            note: "",
            ours: |measured| {
                measured.by_step(|of| {
                    let row = of.phase("c")?;
                    (row.seconds > 0.0).then(|| row.device_read_bytes as f64 / GIB / row.seconds)
                })
            },
        },
        Measure {
            name: "throughput",
            unit: "thousand reads a second",
            axis: AXIS,
            published: &[],
            note: "The document draws it, and states no number.",
            ours: throughput,
        },
    ],
    work: Work::Engines(Engines {
        quick: QUICK,
        full: FULL,
        steps,
    }),
};

fn throughput(measured: &Measured) -> Vec<Line> {
    measured.by_step(|of| thousands_per_s(of.phase("c")?))
}

fn steps(base: &Base) -> Result<Vec<Step>> {
    let all: &[usize] = match base.size {
        Size::Quick => &[1, 2],
        Size::Full => &[1, 2, 4, 8, 16, 24, 32],
    };
    let step = |count| base.with_threads(count, &["load", "c"]);
    threads(all).into_iter().map(step).collect()
}
