//! S5: how much faster a load is when its keys come in order.

use super::{FULL_ORDER, MACHINE, QUICK_ORDER};
use crate::entry::{At, Axis, Engines, Experiment, Form, Measure, Published, Value, Work, at};
use crate::measured::{Line, Measured, Spot, relative_to, thousands_per_s, value_at};
use crate::plan::{Base, Size, Step};
use anyhow::Result;

pub(super) const ORDER: Axis = Axis {
    name: "keys in order, %",
    form: Form::Linear,
};

pub(super) const SETTING: &str = "The machine of S1; 20 GiB of insertions by one thread, sequential and random keys interleaved; 4 GiB of memory.";

pub(super) const SHARE: &str =
    "The full size has 4 GiB of insertions, a fifth of the document's 20, and a tenth of its memory.";

pub(super) const ALWAYS_LOGS: &str = "Alluvium always has its log: ours is to be compared with the lines with the log. The other lines of the document have none.";

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "seed-0/S5",
    title: "Loading keys of which some are in order",
    shows: "Throughput rises smoothly with the share of keys that come in order, where RocksDB's rises only near 100 %.",
    section: "§3.7.4",
    figure: "Figure 3.6",
    setting: SETTING,
    differs: &[MACHINE, SHARE, ALWAYS_LOGS],
    measures: &[
        Measure {
            name: "throughput",
            unit: "thousand insertions a second",
            axis: ORDER,
            published: &[
                Published {
                    name: "SplinterDB, with its log",
                    section: "§3.7.4",
                    points: &[at(0.0, Value::Is(349.0)), at(100.0, Value::Is(614.0))],
                },
                Published {
                    name: "SplinterDB, without a log",
                    section: "§3.7.4",
                    points: &[
                        at(0.0, Value::Is(430.0)),
                        at(50.0, Value::Is(521.0)),
                        at(100.0, Value::Is(866.0)),
                    ],
                },
            ],
            note: "",
            ours: throughput,
        },
        Measure {
            name: "speed-up over random keys",
            unit: "times the throughput of random keys",
            axis: ORDER,
            published: &[
                Published {
                    name: "SplinterDB, with its log",
                    section: "§3.7.4",
                    points: &[at(100.0, Value::Is(1.76))],
                },
                Published {
                    name: "SplinterDB, without a log",
                    section: "§3.7.4",
                    points: &[
                        at(50.0, Value::Derived(521.0 / 430.0)),
                        at(100.0, Value::Derived(866.0 / 430.0)),
                    ],
                },
                Published {
                    name: "RocksDB",
                    section: "§3.7.4",
                    points: &[at(95.0, Value::Below(1.2)), at(100.0, Value::Is(1.35))],
                },
            ],
            note: "",
            ours: |measured| relative_to(throughput(measured), 0.0),
        },
        Measure {
            name: "share of the ideal at 50 %",
            unit: "parts of the harmonic mean of 0 % and 100 %",
            axis: ORDER,
            published: &[Published {
                name: "SplinterDB, without a log",
                section: "§3.7.4",
                points: &[at(50.0, Value::Derived(521.0 / 575.0))],
            }],
            note: "At best the rates of the two kinds of keys have their harmonic mean.",
            ours: |measured| throughput(measured).iter().filter_map(ideal).collect(),
        },
    ],
    work: Work::Engines(Engines {
        quick: QUICK_ORDER,
        full: FULL_ORDER,
        steps,
    }),
};

pub(super) fn steps(base: &Base) -> Result<Vec<Step>> {
    let percents: &[u8] = match base.size {
        Size::Quick => &[0, 50, 90, 99, 100],
        Size::Full => &[0, 10, 25, 50, 75, 90, 95, 99, 100],
    };
    let step = |&percent: &u8| {
        let mut step = base.step(At::Number(f64::from(percent)), &["load"])?;
        step.job.keys.sequential_percent = percent;
        Ok(step)
    };
    percents.iter().map(step).collect()
}

fn throughput(measured: &Measured) -> Vec<Line> {
    measured.by_step(|of| thousands_per_s(of.phase("load")?))
}

/// What part of the harmonic mean of both ends the middle reaches.
fn ideal(line: &Line) -> Option<Line> {
    let [random, middle, sequential] = [0.0, 50.0, 100.0].map(|place| value_at(line, place));
    let (random, middle, sequential) = (random?, middle?, sequential?);
    let ideal = 2.0 / (1.0 / random + 1.0 / sequential);
    (ideal > 0.0).then(|| Line {
        name: line.name.clone(),
        points: vec![Spot {
            at: At::Number(50.0),
            value: middle / ideal,
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ideal_is_the_harmonic_mean() {
        let spot = |at, value| Spot {
            at: At::Number(at),
            value,
        };
        // The document's own numbers: 575 would be ideal.
        let line = Line {
            name: "SplinterDB".into(),
            points: vec![spot(0.0, 430.0), spot(50.0, 521.0), spot(100.0, 866.0)],
        };
        let share = ideal(&line).unwrap().points[0].value;
        assert!((share - 521.0 / 575.0).abs() < 1e-3, "{share}");
        let without = Line {
            points: line.points[1..].to_vec(),
            ..line
        };
        assert_eq!(ideal(&without), None);
    }
}
