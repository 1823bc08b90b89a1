//! S1 to S5 and S8: a store in hashed keyspaces beside what its device can do.

use super::SILT_SETTING;
use crate::entry::{Axis, Engines, Experiment, Form, Measure, Published, Value, Work, named};
use crate::measured::{Line, Measured, name, thousands_per_s};
use crate::plan::{Base, Scale, Step, Threads};
use alluvium_bench::engine::EngineOption;
use alluvium_bench::run::Row;
use anyhow::Result;

/// What holds of all of them.
const STORE: &str = "“alluvium” is one process without a network: a hashed keyspace, keys of 24 bytes, and one thread for each processor where the document has 16 clients. \
                     Compare with the rate of the device: `alluvium probe`.";

/// Keys of 20 and values of 1,000 bytes, more than there is memory for.
const QUICK: Scale = Scale {
    records: 200_000,
    value_bytes: 1000,
    threads: Threads::Processors,
    cap: 64 << 20,
    warm_ms: 1000,
    run_ms: 3000,
    settle_ms: 5000,
};

/// A fifth of the document's 100 million of 1 KiB.
const FULL: Scale = Scale {
    records: 20_000_000,
    cap: 512 << 20,
    warm_ms: 10_000,
    run_ms: 60_000,
    settle_ms: 120_000,
    ..QUICK
};

const AXIS: Axis = Axis {
    name: "requests",
    form: Form::Names,
};

const READS: &str = "reads alone";
const MIXED: &str = "nine reads to a write";
const WRITES: &str = "writes alone";
const HALF: &str = "reads and writes";

/// Does phases on a hashed keyspace.
fn step(base: &Base, place: &'static str, value_bytes: usize, phases: &[&str]) -> Result<Vec<Step>> {
    let mut step = base.step(name(place), phases)?;
    step.job.value_bytes = value_bytes;
    step.job.options.push(EngineOption {
        engine: "alluvium".to_owned(),
        name: "structure".to_owned(),
        value: "hashed".to_owned(),
    });
    Ok(vec![step])
}

/// Thousands of requests of a phase a second.
fn rate(measured: &Measured, phase: &str) -> Vec<Line> {
    measured.by_step(|of| thousands_per_s(of.phase(phase)?))
}

/// Reads of the device for each request of a phase.
fn reads(measured: &Measured, phase: &str) -> Vec<Line> {
    let each = |row: &Row| (row.operations > 0).then(|| row.device_reads as f64 / row.operations as f64);
    measured.by_step(|of| each(of.phase(phase)?))
}

/// The median latency of the requests of a phase, in microseconds.
fn median_us(measured: &Measured, phase: &str) -> Vec<Line> {
    measured.by_step(|of| Some(of.phase(phase)?.latency.p50_us))
}

/// The requests of the worst tenth of a phase, in percent of what a tenth has on average.
fn worst_tenth(measured: &Measured, phase: &str) -> Vec<Line> {
    let worst = |row: &Row| {
        let each = (row.series.len() / 10).max(1);
        let tenths = row.series.chunks_exact(each).map(|part| part.iter().sum::<u64>());
        let (least, count) = (tenths.clone().min()?, tenths.clone().count() as u64);
        let mean = tenths.sum::<u64>() as f64 / count as f64;
        (mean > 0.0).then(|| 100.0 * least as f64 / mean)
    };
    measured.by_step(|of| worst(of.phase(phase)?))
}

const RATE: &str = "thousand requests a second";

pub(super) const S1: Experiment = Experiment {
    id: "seed-1/S1",
    title: "Reads of a store with hashed keys",
    shows: "A store reads at 96 % of the rate of its device, for a lookup is one read.",
    section: "§2.5",
    figure: "in words",
    setting: SILT_SETTING,
    differs: &[STORE],
    measures: &[
        Measure {
            name: "throughput",
            unit: RATE,
            axis: AXIS,
            published: &[Published {
                name: "SILT",
                section: "§2.5",
                points: &[named(READS, Value::Is(46.0))],
            }],
            note: "The device of the document makes 48 thousand such reads a second.",
            ours: |measured| rate(measured, "c"),
        },
        Measure {
            name: "reads of the device",
            unit: "for each request",
            axis: AXIS,
            published: &[Published {
                name: "SILT",
                section: "§2.5",
                points: &[named(READS, Value::Is(1.01))],
            }],
            note: "Ours has a cache, and reads pages of 4 KiB.",
            ours: |measured| reads(measured, "c"),
        },
    ],
    work: Work::Engines(Engines {
        quick: QUICK,
        full: FULL,
        steps: |base| step(base, READS, 1000, &["load", "c:uniform"]),
    }),
};

pub(super) const S2: Experiment = Experiment {
    id: "seed-1/S2",
    title: "Reads while records are written",
    shows: "With a write to nine reads, two thirds of the device's rate are left for reads.",
    section: "§2.5",
    figure: "in words",
    setting: SILT_SETTING,
    differs: &[STORE],
    measures: &[Measure {
        name: "throughput",
        unit: RATE,
        axis: AXIS,
        published: &[Published {
            name: "SILT",
            section: "§2.5",
            points: &[named(MIXED, Value::Is(33.0))],
        }],
        note: "The document counts reads alone; ours counts all requests, of which a twentieth are writes.",
        ours: |measured| rate(measured, "b"),
    }],
    work: Work::Engines(Engines {
        quick: QUICK,
        full: FULL,
        steps: |base| step(base, MIXED, 1000, &["load", "b:uniform"]),
    }),
};

pub(super) const S3: Experiment = Experiment {
    id: "seed-1/S3",
    title: "Writes of a store with hashed keys",
    shows: "Writes alone go on at half of the rate of reads, conversions and merges included.",
    section: "§2.5",
    figure: "in words",
    setting: SILT_SETTING,
    differs: &[STORE],
    measures: &[Measure {
        name: "throughput",
        unit: RATE,
        axis: AXIS,
        published: &[Published {
            name: "SILT",
            section: "§2.5",
            points: &[named(WRITES, Value::About(23.0))],
        }],
        note: "",
        ours: |measured| rate(measured, "load"),
    }],
    work: Work::Engines(Engines {
        quick: QUICK,
        full: FULL,
        steps: |base| step(base, WRITES, 1000, &["load"]),
    }),
};

pub(super) const S4: Experiment = Experiment {
    id: "seed-1/S4",
    title: "Small records, half of the requests writes",
    shows: "Small records make more requests a second, for writes are many to a block.",
    section: "§2.5",
    figure: "in words",
    setting: SILT_SETTING,
    differs: &[STORE],
    measures: &[Measure {
        name: "throughput",
        unit: RATE,
        axis: AXIS,
        published: &[Published {
            name: "SILT",
            section: "§2.5",
            points: &[named(HALF, Value::Is(72.0))],
        }],
        note: "Records of 64 bytes.",
        ours: |measured| rate(measured, "a"),
    }],
    work: Work::Engines(Engines {
        quick: QUICK,
        full: FULL,
        steps: |base| step(base, HALF, 40, &["load", "a:uniform"]),
    }),
};

pub(super) const S5: Experiment = Experiment {
    id: "seed-1/S5",
    title: "How even throughput is while stores are converted and merged",
    shows: "Conversions and merges in the background leave throughput even.",
    section: "§2.5",
    figure: "Figure 2.9",
    setting: SILT_SETTING,
    differs: &[STORE],
    measures: &[Measure {
        name: "the worst tenth of the time",
        unit: "% of the mean",
        axis: AXIS,
        published: &[Published {
            name: "SILT",
            section: "§2.5",
            points: &[named(
                HALF,
                Value::Said("dips where an old store is removed, for the device discards its blocks"),
            )],
        }],
        note: "",
        ours: |measured| worst_tenth(measured, "a"),
    }],
    work: Work::Engines(Engines {
        quick: QUICK,
        full: FULL,
        steps: |base| step(base, HALF, 1000, &["load", "a:uniform"]),
    }),
};

pub(super) const S8: Experiment = Experiment {
    id: "seed-1/S8",
    title: "How long a read takes",
    shows: "Reads take less than 400 µs on average, whichever store has the record.",
    section: "§2.5",
    figure: "Figure 2.11",
    setting: SILT_SETTING,
    differs: &[STORE],
    measures: &[Measure {
        name: "time of a read",
        unit: "µs",
        axis: AXIS,
        published: &[Published {
            name: "SILT",
            section: "§2.5",
            points: &[named(READS, Value::Is(367.0))],
        }],
        note: "The document's mean, with 16 clients over a network; ours is the median.",
        ours: |measured| median_us(measured, "c"),
    }],
    work: Work::Engines(Engines {
        quick: QUICK,
        full: FULL,
        steps: |base| step(base, READS, 1000, &["load", "c:uniform"]),
    }),
};
