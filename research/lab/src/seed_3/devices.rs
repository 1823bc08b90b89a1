//! S0: the raw performance of the device.

use super::harness::line;
use crate::device_probe::{FULL, MOST, QUICK, probed};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::{MeasurementSet, name};
use anyhow::Result;

const RANDOM: &str = "random";
const BYTES: &str = "bytes";
const READS: &str = "reads";
const WRITES: &str = "writes";
const PAGE: f64 = 4096.0;
pub(super) const S0: MeasurementProcedure = MeasurementProcedure {
    id: "seed-3/S0",
    ours: &[
        ("blocks of 4 KiB at random places", |measured| {
            measured.series_with_prefix(RANDOM)
        }),
        ("long stretches", |measured| measured.series_with_prefix(BYTES)),
    ],
    work: ExperimentMethod::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure,
    },
};

fn measure(records: u64) -> Result<MeasurementSet> {
    let found = probed(records)?;
    let (mut random, mut bytes) = (Vec::new(), Vec::new());
    for (kind, costs) in [(READS, &found.reads), (WRITES, &found.writes)] {
        // One request at a time, as the document measures.
        let alone = costs.small.iter().find(|(depth, _)| *depth == 1);
        random.extend(alone.map(|(_, bytes)| (name(kind), bytes / PAGE)));
        let longest = costs.in_order.iter().max_by_key(|(size, _)| *size);
        bytes.extend(longest.map(|(_, bytes)| (name(kind), bytes / 1e6)));
    }
    Ok(MeasurementSet {
        counts: vec![
            line(RANDOM, "this device", random),
            line(BYTES, "this device", bytes),
        ],
        ..MeasurementSet::default()
    })
}
