//! C1 to C3: how well the PDAM and the affine model predict the device at hand.

use crate::device::{FULL, MOST, PROBED, QUICK, probed};
use crate::entry::{Axis, Experiment, Form, Measure, Published, Value, Work, named};
use crate::measured::{Line, Measured, Spot, name};
use alluvium_base::{KIB, MIB};
use alluvium_model::probe::{Costs, Parallelism};
use anyhow::{Context, Result};

const ERROR: &str = "error";
const DAM: &str = "error of the DAM";
const KNEE: &str = "P";
const FIT: &str = "R²";
const ALPHA: &str = "alpha";

const READS: Axis = Axis {
    name: "requests",
    form: Form::Names,
};

/// A line of one figure for what was measured.
fn put(lines: &mut Vec<Line>, what: &str, at: &'static str, value: f64) {
    lines.push(Line {
        name: format!("{what}, alluvium"),
        points: vec![Spot { at: name(at), value }],
    });
}

fn counted(counts: Vec<Line>) -> Measured {
    Measured {
        counts,
        ..Measured::default()
    }
}

const STEP: &str = "random reads of 64 KiB";
const SIZES: &str = "random reads of 4 KiB to 4 MiB";

pub(super) const C1: Experiment = Experiment {
    id: "seed-4/C1",
    title: "How well the PDAM predicts run times",
    shows: "The PDAM predicts how long reads by many threads take; the DAM is off by its parallelism.",
    section: "§3.1",
    figure: "Table 1, in words",
    setting: "Dell T130, four SSDs of 2014 to 2020: threads that read 10 GiB each in blocks of 64 KiB.",
    differs: &[PROBED, "Requests under way stand for threads."],
    measures: &[
        Measure {
            name: "largest error of the PDAM",
            unit: "% of the time",
            axis: READS,
            published: &[Published {
                name: "all four devices",
                section: "§3.1",
                points: &[named(STEP, Value::Below(14.0))],
            }],
            note: "",
            ours: |measured| measured.under(ERROR),
        },
        Measure {
            name: "largest error of the DAM",
            unit: "times the time",
            axis: READS,
            published: &[Published {
                name: "all four devices",
                section: "§1",
                points: &[named(STEP, Value::Between(2.9, 5.5))],
            }],
            note: "",
            ours: |measured| measured.under(DAM),
        },
    ],
    work: Work::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: |records| {
            let reads = probed(records)?.reads;
            let fit = parallel(&reads)?;
            let mut lines = Vec::new();
            put(&mut lines, ERROR, STEP, 100.0 * fit.worst_time);
            put(&mut lines, DAM, STEP, 1.0 + fit.worst_time_dam);
            Ok(counted(lines))
        },
    },
};

fn parallel(costs: &Costs) -> Result<alluvium_model::fit::parallel::ParallelFit> {
    let fit = costs.parallel.as_ref();
    Ok(*fit.map_err(|why| anyhow::anyhow!("{why}"))?)
}

pub(super) const C2: Experiment = Experiment {
    id: "seed-4/C2",
    title: "How many requests a device serves at once",
    shows: "Throughput grows with the number of requests up to a sharp knee, and is flat beyond.",
    section: "§3.1",
    figure: "Table 1",
    setting: "Dell T130, four SSDs of 2014 to 2020: threads that read 10 GiB each in blocks of 64 KiB.",
    differs: &[
        PROBED,
        "Where a device has no knee within 64 requests, ours is the throughput of many in that of one.",
    ],
    measures: &[
        Measure {
            name: "requests at once",
            unit: "P",
            axis: READS,
            published: &[
                Published {
                    name: "Sandisk Ultra II",
                    section: "§3.1",
                    points: &[named(STEP, Value::Is(5.5))],
                },
                Published {
                    name: "Samsung 860 EVO",
                    section: "§3.1",
                    points: &[named(STEP, Value::Is(4.5))],
                },
                Published {
                    name: "Samsung 970 EVO",
                    section: "§3.1",
                    points: &[named(STEP, Value::Is(5.4))],
                },
                Published {
                    name: "Samsung 980 Pro",
                    section: "§3.1",
                    points: &[named(STEP, Value::Is(5.6))],
                },
            ],
            note: "",
            ours: |measured| measured.under(KNEE),
        },
        Measure {
            name: "R² of the two lines",
            unit: "R²",
            axis: READS,
            published: &[Published {
                name: "all four devices",
                section: "§3.1",
                points: &[named(STEP, Value::Between(0.963, 0.989))],
            }],
            note: "",
            ours: |measured| measured.under(FIT),
        },
    ],
    work: Work::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: |records| {
            let reads = probed(records)?.reads;
            let knee = match reads.parallelism {
                Parallelism::Knee(at) => at,
                _ => reads.gain.context("the device gave no figures")?.times,
            };
            let mut lines = Vec::new();
            put(&mut lines, KNEE, STEP, knee);
            put(&mut lines, FIT, STEP, parallel(&reads)?.goodness.r_squared);
            Ok(counted(lines))
        },
    },
};

pub(super) const C3: Experiment = Experiment {
    id: "seed-4/C3",
    title: "How well the affine model predicts the time of a read",
    shows: "A setup and a time for each byte predict reads of all sizes; on a disk the setup is worth hundreds of blocks.",
    section: "§3.2",
    figure: "Table 2",
    setting: "Five hard disks of 2006 to 2018: random reads of 4 KiB to 16 MiB, 64 of each size.",
    differs: &[
        PROBED,
        "The device is no hard disk, so that its setup is worth little.",
    ],
    measures: &[
        Measure {
            name: "R² of the line",
            unit: "R²",
            axis: READS,
            published: &[Published {
                name: "five disks",
                section: "§3.2",
                points: &[named(SIZES, Value::Between(0.9972, 0.9999))],
            }],
            note: "",
            ours: |measured| measured.under(FIT),
        },
        Measure {
            name: "largest error of a predicted time",
            unit: "%",
            axis: READS,
            published: &[Published {
                name: "five disks",
                section: "§3.2",
                points: &[named(SIZES, Value::Below(25.0))],
            }],
            note: "",
            ours: |measured| measured.under(ERROR),
        },
        Measure {
            name: "α of 4 KiB",
            unit: "share of the setup",
            axis: READS,
            published: &[Published {
                name: "five disks",
                section: "§3.2",
                points: &[named(SIZES, Value::Between(0.0012, 0.0031))],
            }],
            note: "",
            ours: |measured| measured.under(ALPHA),
        },
    ],
    work: Work::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: |records| {
            let reads = probed(records)?.reads;
            let fitted = *reads.affine.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?;
            let plain = fitted.plain.unwrap_or(fitted.fit.goodness);
            let mut lines = Vec::new();
            put(&mut lines, FIT, SIZES, plain.r_squared);
            put(
                &mut lines,
                ERROR,
                SIZES,
                100.0 * fitted.fit.goodness.worst_relative,
            );
            put(&mut lines, ALPHA, SIZES, fitted.fit.alpha(4 * KIB));
            Ok(counted(lines))
        },
    },
};

const NATURAL: &str = "natural size";
const HALF: &str = "half of the bandwidth";
const MOST_OF_IT: &str = "nine tenths";

/// The transfer size of a device, which another document measures.
pub(crate) const NATURAL_TRANSFER: Experiment = Experiment {
    id: "seed-0/A0",
    title: "The natural transfer size of a device",
    shows: "Requests must have megabytes before a device moves them nearly as fast as it can.",
    section: "§4.2",
    figure: "Figure 4.1",
    setting: "Optiplex 790, a hard disk of 500 GB at 7,200 turns a minute and an SSD of 240 GB.",
    differs: &[
        PROBED,
        "Ours follows from the line through times of random reads.",
    ],
    measures: &[Measure {
        name: "bytes of a request",
        unit: "MiB",
        axis: Axis {
            name: "share of the bandwidth",
            form: Form::Names,
        },
        published: &[Published {
            name: "hard disk and SSD",
            section: "§4.2",
            points: &[named(MOST_OF_IT, Value::About(4.0))],
        }],
        note: "",
        ours: |measured| measured.under(NATURAL),
    }],
    work: Work::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure: |records| {
            let reads = probed(records)?.reads;
            let fitted = reads.affine.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?;
            let of = |share| fitted.fit.natural_bytes(share) / MIB as f64;
            let at = |place, share| Spot {
                at: name(place),
                value: of(share),
            };
            Ok(counted(vec![Line {
                name: format!("{NATURAL}, alluvium"),
                points: vec![at(HALF, 0.5), at(MOST_OF_IT, 0.9)],
            }]))
        },
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_probe_gives_every_figure() {
        for experiment in [&C1, &C2, &C3, &NATURAL_TRANSFER] {
            let Work::Here { measure, .. } = experiment.work else {
                panic!("{} counts by itself", experiment.id);
            };
            // On a busy machine times may fit no model, which is said.
            let measured = match measure(4096) {
                Err(error) if error.to_string().contains("the measurement was disturbed") => continue,
                measured => measured.unwrap(),
            };
            for figure in experiment.measures {
                let lines = (figure.ours)(&measured);
                assert!(!lines.is_empty(), "{}: {}", experiment.id, figure.name);
                let spots = lines.iter().flat_map(|line| &line.points);
                assert!(spots.clone().all(|spot| spot.value.is_finite()), "{lines:?}");
            }
        }
    }
}
