//! S3: what a load and reads cost the device.

use super::s1_ycsb::{AGAINST_NOTE, WORKLOADS};
use super::{FULL, MACHINE, QUICK, SETTING, SKEW, TENTH, THREADS};
use crate::entry::{Engines, Experiment, Measure, Published, Value, Work, named};
use crate::measured::{Line, Measured, Of, Spot, against, name};

/// Where the document counts, and where we do.
const COUNTERS: &str = "The document counts by iostat, which sees the whole device. Ours takes bytes from the counters of the process; a load counts what the \
                        engine does afterwards by itself.";

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "seed-0/S3",
    title: "I/O amplification of a load and of reads",
    shows: "Size-tiering with flush-then-compact writes about half as much for each byte as other systems.",
    section: "§3.7.2",
    figure: "Figure 3.4",
    setting: SETTING,
    differs: &[MACHINE, THREADS, SKEW, TENTH, COUNTERS],
    measures: &[
        Measure {
            name: "write amplification of the load against RocksDB",
            unit: "times RocksDB's",
            axis: WORKLOADS,
            published: &[
                Published {
                    name: "SplinterDB / other systems",
                    section: "§3.7.2",
                    points: &[named("load", Value::About(0.5))],
                },
                Published {
                    name: "SplinterDB / RocksDB",
                    section: "§3.1",
                    points: &[named("load", Value::Said("almost half"))],
                },
            ],
            note: AGAINST_NOTE,
            ours: |measured| against(&writes(measured), "rocksdb"),
        },
        Measure {
            name: "write amplification of the load",
            unit: "bytes written for each of the user's",
            axis: WORKLOADS,
            published: &[],
            note: "The document states it in numbers only together with reads, below.",
            ours: writes,
        },
        Measure {
            name: "I/O amplification",
            unit: "bytes written and read for each of the user's",
            axis: WORKLOADS,
            published: &[
                Published {
                    name: "SplinterDB",
                    section: "§3.7.5, with 10 threads or more",
                    points: &[named("load", Value::About(7.5))],
                },
                Published {
                    name: "PebblesDB, with unlimited memory",
                    section: "§3.7.2",
                    points: &[named("C", Value::Said("almost no reads"))],
                },
            ],
            note: "Of C: bytes read for each that the user read.",
            ours: io,
        },
    ],
    work: Work::Engines(Engines {
        quick: QUICK,
        full: FULL,
        steps: |base| Ok(vec![base.step(name("load and C"), &["load", "c"])?]),
    }),
};

/// One figure at a place with a name, for each engine.
fn of_load(measured: &Measured, place: &'static str, figure: impl Fn(Of<'_>) -> Option<f64>) -> Vec<Line> {
    let mut lines = measured.by_step(figure);
    for spot in lines.iter_mut().flat_map(|line| &mut line.points) {
        spot.at = name(place);
    }
    lines
}

fn writes(measured: &Measured) -> Vec<Line> {
    of_load(measured, "load", |of| of.write_amplification())
}

fn io(measured: &Measured) -> Vec<Line> {
    let mut lines = of_load(measured, "load", |of| of.load_amplification());
    let reads = of_load(measured, "C", |of| of.phase("c")?.read_amplification);
    for line in &mut lines {
        let reads = reads.iter().filter(|reads| reads.name == line.name);
        let spots: Vec<Spot> = reads.flat_map(|reads| reads.points.clone()).collect();
        line.points.extend(spots);
    }
    lines
}
