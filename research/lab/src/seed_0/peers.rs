//! B7 and B8: random inserts into third-party systems, one with and one without an insertion
//! buffer.

use super::inserts::{PAGES, RATIO};
use crate::entry::{Procedure, Study, Work};

const TIME: &str = "time";
const RATES: &str = "rates";

pub(super) const B7: Procedure = Procedure {
    id: "seed-0/B7",
    ours: &[
        ("time with a buffer", |measured| measured.under("ratio of times")),
        ("pages moved with a buffer", |measured| measured.under(RATIO)),
        ("time of an insert", |measured| measured.under(TIME)),
        ("pages moved", |measured| measured.under(PAGES)),
        ("records a merge", |measured| measured.under(RATES)),
    ],
    work: Work::Study(Study {
        name: "change-buffer",
        quick: 310_000,
        full: 3_100_000,
        most: 50_000_000,
    }),
};

pub(super) const B8: Procedure = Procedure {
    id: "seed-0/B8",
    ours: &[
        ("pages moved", |measured| measured.under(PAGES)),
        ("pages moved with a buffer", |measured| measured.under(RATIO)),
    ],
    work: Work::Study(Study {
        name: "berkeley-inserts",
        quick: 400_000,
        full: 4_000_000,
        most: 100_000_000,
    }),
};
