//! B7 and B8: random inserts into third-party systems, one with and one without an insertion
//! buffer.

use super::insert_plan::{PAGES, RATIO};
use crate::entry::{ExperimentMethod, MeasurementProcedure, RivalStudy};

const TIME: &str = "time";
const RATES: &str = "rates";

pub(super) const B7: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/B7",
    ours: &[
        ("time with a buffer", |measured| {
            measured.series_with_prefix("ratio of times")
        }),
        ("pages moved with a buffer", |measured| {
            measured.series_with_prefix(RATIO)
        }),
        ("time of an insert", |measured| measured.series_with_prefix(TIME)),
        ("pages moved", |measured| measured.series_with_prefix(PAGES)),
        ("records a merge", |measured| measured.series_with_prefix(RATES)),
    ],
    work: ExperimentMethod::Study(RivalStudy {
        name: "change-buffer",
        quick: 310_000,
        full: 3_100_000,
        most: 50_000_000,
    }),
};

pub(super) const B8: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/B8",
    ours: &[
        ("pages moved", |measured| measured.series_with_prefix(PAGES)),
        ("pages moved with a buffer", |measured| {
            measured.series_with_prefix(RATIO)
        }),
    ],
    work: ExperimentMethod::Study(RivalStudy {
        name: "berkeley-inserts",
        quick: 400_000,
        full: 4_000_000,
        most: 100_000_000,
    }),
};
