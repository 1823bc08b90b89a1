//! The whole store under the crash driver, and on failing devices.
//!
//! The test is small in `cargo test`. This command runs the large version, which also asserts the
//! counters:
//!
//! ```text
//! ALLUVIUM_SIM_POINTS=210000 ALLUVIUM_SIM_WORKERS=2 \
//!     cargo test --release -p alluvium --test it -- the_store_survives_every_crash --nocapture
//! ```
//!
//! [`alluvium_sim::harness`] documents the other variables.

use crate::story::Whole;
use alluvium::HashedForm;
use alluvium_sim::RunSettings;
use alluvium_sim::harness::{CrashTests, FaultTests};
use alluvium_storage::log::SegmentAccess;

/// A bundle of trees. With two children per node, its trees soon grow high.
const TREES: HashedForm = HashedForm::Bot { lambda: 2 };

const STORIES: [Whole; 4] = [
    Whole {
        access: SegmentAccess::Mapped,
        lanes: 1,
        tiers: 1,
        forms: &[HashedForm::Silt],
    },
    Whole {
        access: SegmentAccess::Mapped,
        lanes: 3,
        tiers: 1,
        forms: &[HashedForm::Silt],
    },
    Whole {
        access: SegmentAccess::Written,
        lanes: 2,
        tiers: 1,
        forms: &[HashedForm::Silt, TREES],
    },
    Whole {
        access: SegmentAccess::Written,
        lanes: 1,
        tiers: 2,
        forms: &[
            TREES,
            HashedForm::Boa {
                lambda: 2,
                refined: true,
            },
        ],
    },
];

fn crashes() -> CrashTests {
    CrashTests {
        settings: RunSettings {
            steps: 240,
            point_every: 40,
            nested_every: 16,
            verify_every: 20,
            ..RunSettings::default()
        },
        command: "cargo test -p alluvium --test it -- the_store_survives_every_crash --nocapture",
        points: 60,
        effort: 200,
        must_meet: &[
            "checkpoint",
            "crash in a checkpoint",
            "crash in the background",
            "crash in a compaction of everything",
            "crash in an ingest",
            "incorporation",
            "ingest",
            "ingest given up",
            "keyspace dropped",
            "list of a bundle of trees",
            "named snapshot of an earlier opening",
            "named snapshot removed",
            "nested recovery",
            "snapshot read to its end",
            "transaction",
            "transaction whose runs were attached",
            "transaction that was read back",
            "crash in a transaction that spills",
        ],
        least_met: 100,
    }
}

#[test]
fn the_store_survives_every_crash() {
    crashes().survive(STORIES);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    // 60 steps are enough to include each kind of operation.
    let mut crashes = crashes();
    crashes.settings.steps = 60;
    // Start with the last story, which has the most kinds of structures.
    crashes.repeat(STORIES.into_iter().rev(), 1);
}

#[test]
fn the_store_survives_every_fault() {
    let faults = FaultTests {
        settings: RunSettings {
            steps: 100,
            verify_every: 40,
            ..RunSettings::default()
        },
        command: "cargo test -p alluvium --test it -- the_store_survives_every_fault",
        every: 301,
    };
    faults.survive(STORIES);
}
