//! A1: LevelDB's insert throughput and write amplification.

use crate::entry::{Procedure, Study, Work};

pub(super) const A1: Procedure = Procedure {
    id: "seed-1/A1",
    ours: &[
        ("inserts, by bytes written", |measured| {
            measured.under("inserts by written")
        }),
        ("inserts", |measured| measured.under("inserts")),
        ("bytes written", |measured| measured.under("written")),
    ],
    work: Work::Study(Study {
        name: "leveldb-inserts",
        quick: 200_000,
        full: 10_000_000,
        most: 100_000_000,
    }),
};
