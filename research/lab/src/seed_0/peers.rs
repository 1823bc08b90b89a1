//! B7 and B8: random inserts into systems of others, one with an insertion buffer and one without.

use super::inserts::{PAGES, RATIO};
use super::recycling::INSERTED;
use crate::entry::{Experiment, Measure, Published, Study, Value, Work, at};

const TIME: &str = "time";
const RATES: &str = "rates";

/// What the document says of time.
const PUBLISHED: &[Published] = &[Published {
    name: "InnoDB",
    section: "§5.5",
    points: &[at(1e6, Value::Is(0.123)), at(5e7, Value::Is(0.683))],
}];

/// What stands beside each.
const BESIDE: &str = "Beside it are trees of ours with as much memory for leaves: without a buffer, and with half of the memory for one. Their inner nodes take no memory.";
const PLACES: &str = "Places are those of the document's 50 million inserts, whose memory holds 200,000: of fewer, as many times what memory holds.";

pub(super) const B7: Experiment = Experiment {
    id: "seed-0/B7",
    title: "InnoDB with and without its change buffer",
    shows: "InnoDB's change buffer saves most of the time at first, and less the more leaves there are.",
    section: "§5.5",
    figure: "Figures 5.1 and 5.5",
    setting: "InnoDB, batches of 10,000 rows, 50 million rows; the first 200,000 are in memory.",
    differs: &[
        "MariaDB 10.11, the last version with a change buffer, as it is installed: innodb_change_buffering is all, then none. Without MariaDB nothing is measured, and a note says so.",
        "Its buffer pool has 6 MiB, the least, and leaves of the index 160 records: it holds 61,440 records, if the table's own pages and the system's are left out.",
        PLACES,
        BESIDE,
        "Golden Gate needs InnoDB's source to be changed: it is among ours alone.",
    ],
    measures: &[
        Measure {
            name: "time with a buffer",
            unit: "parts of the time without",
            axis: INSERTED,
            published: PUBLISHED,
            note: "",
            ours: |measured| measured.under("ratio of times"),
        },
        Measure {
            name: "pages moved with a buffer",
            unit: "parts of those without",
            axis: INSERTED,
            published: &[],
            note: "The document shows it as time alone.",
            ours: |measured| measured.under(RATIO),
        },
        Measure {
            name: "time of an insert",
            unit: "µs",
            axis: INSERTED,
            published: &[Published {
                name: "InnoDB without a buffer",
                section: "§5.5",
                points: &[at(1e6, Value::About(5000.0))],
            }],
            note: "",
            ours: |measured| measured.under(TIME),
        },
        Measure {
            name: "pages moved",
            unit: "for an insert",
            axis: INSERTED,
            published: &[],
            note: "InnoDB's have those of the table itself, of the undo log and of the buffer, too.",
            ours: |measured| measured.under(PAGES),
        },
        Measure {
            name: "records a merge",
            unit: "records",
            axis: INSERTED,
            published: &[],
            note: "The document shows them as curves alone. A leaf that is read for another reason takes what waits for it, too.",
            ours: |measured| measured.under(RATES),
        },
    ],
    work: Work::Study(Study {
        name: "change-buffer",
        quick: 310_000,
        full: 3_100_000,
        most: 50_000_000,
    }),
};

pub(super) const B8: Experiment = Experiment {
    id: "seed-0/B8",
    title: "Inserts into Berkeley DB, which has no buffer",
    shows: "Without an insertion buffer each insert moves two pages once leaves no longer fit into memory.",
    section: "§5.5",
    figure: "Figure 5.1",
    setting: "InnoDB without its buffer, 50 million rows; the first 200,000 are in memory, and at a million it inserts about 200 a second.",
    differs: &[
        "Berkeley DB 5.3 with pages of 16 KiB, whose cache counts pages that it reads and writes. Its inner nodes are in the same cache, which is larger by about as much; 512 KiB are the least.",
        PLACES,
        BESIDE,
    ],
    measures: &[
        Measure {
            name: "pages moved",
            unit: "for an insert",
            axis: INSERTED,
            published: &[Published {
                name: "InnoDB without a buffer",
                section: "§5.5",
                points: &[at(1e6, Value::Said("about 200 inserts a second"))],
            }],
            note: "",
            ours: |measured| measured.under(PAGES),
        },
        Measure {
            name: "pages moved with a buffer",
            unit: "parts of those without, of ours",
            axis: INSERTED,
            published: PUBLISHED,
            note: "The document states parts of the time.",
            ours: |measured| measured.under(RATIO),
        },
    ],
    work: Work::Study(Study {
        name: "berkeley-inserts",
        quick: 400_000,
        full: 4_000_000,
        most: 100_000_000,
    }),
};
