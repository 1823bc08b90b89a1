//! A1: LevelDB's insert throughput and write amplification.

use crate::entry::{ExperimentMethod, MeasurementProcedure, RivalStudy};

pub(super) const A1: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/A1",
    ours: &[
        ("inserts, by bytes written", |measured| {
            measured.series_with_prefix("inserts by written")
        }),
        ("inserts", |measured| measured.series_with_prefix("inserts")),
        ("bytes written", |measured| measured.series_with_prefix("written")),
    ],
    work: ExperimentMethod::Study(RivalStudy {
        name: "leveldb-inserts",
        quick: 200_000,
        full: 10_000_000,
        most: 100_000_000,
    }),
};
