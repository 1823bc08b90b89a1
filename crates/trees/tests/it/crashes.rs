//! The tiered tree under the crash driver.
//!
//! In `cargo test` it is small. The large run, of which the counters are asserted, is
//!
//! ```text
//! ALLUVIUM_SIM_POINTS=260000 ALLUVIUM_SIM_WORKERS=2 \
//!     cargo test --release -p alluvium-trees --test it -- the_tree_survives_every_crash --nocapture
//! ```
//!
//! [`alluvium_sim::harness`] has the other variables.

use crate::story::{Flaw, Tiered};
use alluvium_sim::Settings;
use alluvium_sim::harness::Crashes;
use alluvium_sim::saboteur::Sabotage;
use alluvium_storage::extents::UNIT;
use alluvium_storage::log::Access;

fn story(access: Access) -> Tiered {
    flawed(access, Flaw::Right)
}

fn flawed(access: Access, flaw: Flaw) -> Tiered {
    Tiered {
        access,
        flaw,
        tiers: 1,
    }
}

/// Long runs with few crash points: it takes some hundred steps until there is a trunk to speak of.
fn crashes() -> Crashes {
    Crashes {
        settings: Settings {
            steps: 320,
            point_every: 60,
            nested_every: 16,
            verify_every: 20,
            ..Settings::default()
        },
        command: "cargo test -p alluvium-trees --test it -- the_tree_survives_every_crash --nocapture",
        points: 2000,
        effort: 200,
        must_meet: &[
            "checkpoint",
            "crash in a checkpoint",
            "crash in a compaction",
            "crash in an incorporation",
            "crash behind an ingest",
            "ingest",
            "nested recovery",
            "flush",
            "leaf split",
            "index split",
            "merge of nodes",
            "extent reuse",
        ],
        least_met: 1000,
    }
}

#[test]
fn the_tree_survives_every_crash() {
    crashes().survive([Access::Mapped, Access::Written].map(story));
}

#[test]
fn a_tree_that_compacts_to_a_second_tier_survives_every_crash() {
    let crashes = Crashes {
        command: "cargo test -p alluvium-trees --test it -- a_tree_that_compacts_to_a_second_tier_survives --nocapture",
        points: 1000,
        ..crashes()
    };
    crashes.survive([on_two_tiers()]);
}

#[test]
fn a_second_tier_that_is_not_synced_is_found() {
    let bugs = [Sabotage::SkipSync("tier-1"), Sabotage::TearWrites("tier-1")];
    crashes().find_bugs(&on_two_tiers(), &bugs);
}

fn on_two_tiers() -> Tiered {
    Tiered {
        tiers: 2,
        ..story(Access::Written)
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    crashes().repeat([Access::Mapped, Access::Written].map(story), 2);
}

/// Wrong uses of the tree: what its caller must not do.
#[test]
fn every_wrong_use_of_the_tree_is_found() {
    let flaws = [
        Flaw::ReusesEarly,
        Flaw::ReleasesTheLogFirst,
        Flaw::CutsTooHigh,
        Flaw::CutsTooLow,
        Flaw::DropsTheMemtable,
        Flaw::ForgetsDeletes,
        Flaw::ForgetsRangeDeletes,
        Flaw::ReplaysOneLess,
        Flaw::LeavesIngestsToTheLog,
        Flaw::AcknowledgesEarly,
    ];
    crashes().find_mistakes(flaws.map(|flaw| flawed(Access::Written, flaw)));
}

/// Bugs below the tree, as they look from the device.
#[test]
fn every_bug_planted_under_the_tree_is_found() {
    let bugs = [
        Sabotage::SkipSync("tier"),
        Sabotage::SkipSync("superblock"),
        Sabotage::SkipSync("log"),
        Sabotage::SyncAfterWrite {
            file: "tier",
            before: "superblock",
        },
        Sabotage::LoseRewrites("superblock"),
        Sabotage::WrongSlot {
            file: "superblock",
            mask: 8 << 10,
        },
        Sabotage::TearWrites("tier"),
        Sabotage::PunchWide("tier", UNIT),
    ];
    crashes().find_bugs(&story(Access::Written), &bugs);
}
