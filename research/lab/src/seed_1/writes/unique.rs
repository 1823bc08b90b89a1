//! A2: the number of distinct keys in a sequence of requests.

use super::{SeriesBuilder, place, popularity};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::MeasurementSet;
use anyhow::Result;

const UNIQUE: &str = "different keys";
const SKEWS: [(&str, f64); 3] = [("uniform", 0.0), ("Zipf 0.99", 0.99), ("Zipf 1.2", 1.2)];

pub(super) const A2: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/A2",
    ours: &[("different keys, of all keys", |measured| {
        measured.series_with_prefix(UNIQUE)
    })],
    work: ExperimentMethod::Here {
        quick: 100_000_000,
        full: 100_000_000,
        most: 10_000_000_000,
        measure,
    },
};

fn measure(keys: u64) -> Result<MeasurementSet> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = SeriesBuilder::default();
    for (name, skew) in SKEWS {
        let popularity = popularity(keys, skew)?;
        for share in [0.001, 0.01, 0.1, 1.0, 10.0] {
            let unique = popularity.unique(share * keys as f64)?;
            sheet.put(UNIQUE, name, place(share), unique / keys as f64);
        }
    }
    Ok(sheet.measured())
}
