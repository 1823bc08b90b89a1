//! S0: what the device does by itself.

use super::harness::line;
use crate::device::{FULL, MOST, PROBED, QUICK, probed};
use crate::entry::{Axis, Experiment, Form, Measure, Published, Value, Work, named};
use crate::measured::{Measured, name};
use anyhow::Result;

const RANDOM: &str = "random";
const BYTES: &str = "bytes";
const READS: &str = "reads";
const WRITES: &str = "writes";
const PAGE: f64 = 4096.0;
const KINDS: Axis = Axis {
    name: "what is asked for",
    form: Form::Names,
};

pub(super) const S0: Experiment = Experiment {
    id: "seed-3/S0",
    title: "The device by itself",
    shows: "The device reads and writes blocks at random thousands of times a second, and long stretches some hundred megabytes.",
    section: "§6.3.1",
    figure: "Table 6.1",
    setting: "An Intel X-25M of 160 GB, of which 90 GB are used.",
    differs: &[PROBED],
    measures: &[
        Measure {
            name: "blocks of 4 KiB at random places",
            unit: "a second",
            axis: KINDS,
            published: &[Published {
                name: "Intel X-25M",
                section: "§6.3.1",
                points: &[named(READS, Value::Is(3000.0)), named(WRITES, Value::Is(2100.0))],
            }],
            note: "",
            ours: |measured| measured.under(RANDOM),
        },
        Measure {
            name: "long stretches",
            unit: "MB/s",
            axis: KINDS,
            published: &[Published {
                name: "Intel X-25M",
                section: "§6.3.1",
                points: &[named(READS, Value::Is(245.0)), named(WRITES, Value::Is(110.0))],
            }],
            note: "",
            ours: |measured| measured.under(BYTES),
        },
    ],
    work: Work::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure,
    },
};

fn measure(records: u64) -> Result<Measured> {
    let found = probed(records)?;
    let (mut random, mut bytes) = (Vec::new(), Vec::new());
    for (kind, costs) in [(READS, &found.reads), (WRITES, &found.writes)] {
        // Of one request at a time, as the document measures them.
        let alone = costs.small.iter().find(|(depth, _)| *depth == 1);
        random.extend(alone.map(|(_, bytes)| (name(kind), bytes / PAGE)));
        let longest = costs.in_order.iter().max_by_key(|(size, _)| *size);
        bytes.extend(longest.map(|(_, bytes)| (name(kind), bytes / 1e6)));
    }
    Ok(Measured {
        counts: vec![
            line(RANDOM, "this device", random),
            line(BYTES, "this device", bytes),
        ],
        ..Measured::default()
    })
}
