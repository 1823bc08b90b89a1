//! A1: how fast LevelDB takes inserts, beside what it writes for them.

use super::KEYS;
use crate::entry::{Axis, Experiment, Form, Measure, Published, Study, Value, Work, at};

const WRITTEN: Axis = Axis {
    name: "bytes written for each byte inserted",
    form: Form::Linear,
};

pub(super) const A1: Experiment = Experiment {
    id: "seed-1/A1",
    title: "Inserts into LevelDB, by what it writes for each",
    shows: "The more a store writes for an insert, the fewer it takes: with more data, and with keys that are equally popular.",
    section: "§4.2",
    figure: "Figure 4.3",
    setting: "LevelDB 1.18 with fsync, items of 1,000 bytes, 1 to 10 GB, on an Intel SSDSC2BB160G4T.",
    differs: &[
        "LevelDB 1.23 of the system. The time is that until the last compaction is done that the inserts bring about: as many as there are keys.",
    ],
    measures: &[
        Measure {
            name: "inserts, by bytes written",
            unit: "a second",
            axis: WRITTEN,
            published: &[Published {
                name: "LevelDB",
                section: "§4.2",
                points: &[at(
                    10.0,
                    Value::Said("an increase in write amplification leads to a decrease"),
                )],
            }],
            note: "The document shows its figures as a curve alone.",
            ours: |measured| measured.under("inserts by written"),
        },
        Measure {
            name: "inserts",
            unit: "a second",
            axis: KEYS,
            published: &[],
            note: "The same, by the size of the store.",
            ours: |measured| measured.under("inserts"),
        },
        Measure {
            name: "bytes written",
            unit: "for each byte inserted",
            axis: KEYS,
            published: &[],
            note: "Those of a store that takes inserts as fast as it can. A4 has the document's, of one that is not driven so hard.",
            ours: |measured| measured.under("written"),
        },
    ],
    work: Work::Study(Study {
        name: "leveldb-inserts",
        quick: 200_000,
        full: 10_000_000,
        most: 100_000_000,
    }),
};
