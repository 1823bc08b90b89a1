//! S6: how much less is written when keys come in order.

use super::s5_order::{ALWAYS_LOGS, ORDER, SETTING, SHARE, steps};
use super::{FULL_ORDER, MACHINE, QUICK_ORDER};
use crate::entry::{Engines, Experiment, Measure, Published, Value, Work, at};

const IOSTAT: &str = "The document counts by iostat, which sees the whole device. Ours takes bytes from the counters of the process, and counts what the engine does \
                      after the load by itself.";

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "seed-0/S6",
    title: "Writing less for keys that are in order",
    shows: "Write amplification falls towards 1 as keys come in order, where RocksDB's stays high up to 99 %.",
    section: "§3.7.4",
    figure: "Figure 3.7",
    setting: SETTING,
    differs: &[MACHINE, SHARE, ALWAYS_LOGS, IOSTAT],
    measures: &[
        Measure {
            name: "write amplification",
            unit: "bytes written for each of the user's",
            axis: ORDER,
            published: &[
                Published {
                    name: "SplinterDB, without a log",
                    section: "§3.7.4",
                    points: &[at(100.0, Value::About(1.0))],
                },
                Published {
                    name: "RocksDB",
                    section: "§3.7.4",
                    points: &[at(99.0, Value::Is(4.1)), at(100.0, Value::About(1.0))],
                },
            ],
            note: "A log adds a constant part to it.",
            ours: |measured| measured.by_step(|of| of.write_amplification()),
        },
        Measure {
            name: "I/O amplification",
            unit: "bytes written and read for each of the user's",
            axis: ORDER,
            published: &[],
            note: "The document draws it, and states no number.",
            ours: |measured| measured.by_step(|of| of.load_amplification()),
        },
    ],
    work: Work::Engines(Engines {
        quick: QUICK_ORDER,
        full: FULL_ORDER,
        steps,
    }),
};
