//! The page-and-log story under the crash driver.
//!
//! The test is small in `cargo test`. The large run, which also asserts the counters, is
//!
//! ```text
//! ALLUVIUM_SIM_POINTS=260000 ALLUVIUM_SIM_WORKERS=2 \
//!     cargo test --release -p alluvium-storage --test it -- \
//!     the_page_and_log_story_survives_every_crash --nocapture
//! ```
//!
//! The long run has ten times the points.
//! [`alluvium_sim::harness`] has the other variables.

use crate::page_log::{Flaw, PageLog};
use alluvium_sim::Settings;
use alluvium_sim::harness::{Crashes, LARGE};
use alluvium_sim::saboteur::Sabotage;
use alluvium_storage::extents::UNIT;
use alluvium_storage::log::Access;

fn story(access: Access) -> PageLog {
    flawed(access, Flaw::Right)
}

fn flawed(access: Access, flaw: Flaw) -> PageLog {
    PageLog {
        access,
        flaw,
        tiers: 1,
    }
}

fn on_two_tiers() -> PageLog {
    PageLog {
        tiers: 2,
        ..story(Access::Written)
    }
}

/// Long runs with few crash points: events that are rare within a run need many runs.
fn crashes() -> Crashes {
    Crashes {
        settings: Settings {
            steps: 160,
            point_every: 40,
            nested_every: 16,
            ..Settings::default()
        },
        command: "cargo test -p alluvium-storage --test it -- the_page_and_log_story_survives_every_crash --nocapture",
        points: 4000,
        effort: 2000,
        must_meet: &[
            "log wrap",
            "extent reuse",
            "growth",
            "checkpoint",
            "nested recovery",
            "map rewritten",
            "punched",
        ],
        least_met: 1000,
    }
}

#[test]
fn the_page_and_log_story_survives_every_crash() {
    let survey = crashes().survive([Access::Mapped, Access::Written].map(story));
    assert!(
        !survey.is_large || survey.distinct >= LARGE,
        "{} distinct images",
        survey.distinct
    );
}

#[test]
fn leaves_on_a_second_tier_survive_every_crash() {
    let crashes = Crashes {
        command: "cargo test -p alluvium-storage --test it -- leaves_on_a_second_tier_survive_every_crash --nocapture",
        points: 2000,
        ..crashes()
    };
    crashes.survive([on_two_tiers()]);
}

#[test]
fn every_bug_planted_under_a_second_tier_is_found() {
    let bugs = [
        Sabotage::SkipSync("tier-1"),
        Sabotage::SkipSync("tier.new"),
        Sabotage::SkipDirectorySync,
        Sabotage::SyncAfterWrite {
            file: "tier-1",
            before: "superblock",
        },
        Sabotage::TearWrites("tier-1"),
        Sabotage::PunchWide("tier-1", UNIT),
    ];
    crashes().find_bugs(&on_two_tiers(), &bugs);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    crashes().repeat([Access::Mapped, Access::Written].map(story), 3);
}

/// Incorrect uses of the store by its caller.
#[test]
fn every_wrong_use_of_the_store_is_found() {
    let flaws = [
        Flaw::ReusesEarly,
        Flaw::ReleasesTheLogFirst,
        Flaw::ForgetsToInstall,
        Flaw::ForgetsToRelease,
        Flaw::ReleasesAtAnOldEpoch,
        Flaw::CutsTooHigh,
        Flaw::ReplaysOneLess,
        Flaw::SplitsBatches,
        Flaw::ForgetsDeletes,
        Flaw::AcknowledgesEarly,
    ];
    crashes().find_mistakes(flaws.map(|flaw| flawed(Access::Written, flaw)));
}

#[test]
fn replaying_a_commit_that_the_checkpoint_holds_is_harmless() {
    let crashes = Crashes {
        points: 1000,
        must_meet: &[],
        ..crashes()
    };
    crashes.survive([flawed(Access::Written, Flaw::CutsTooLow)]);
}

/// Bugs of the store, simulated at the device.
#[test]
fn every_bug_planted_under_the_store_is_found() {
    let bugs = [
        Sabotage::SkipSync("tier"),
        Sabotage::SkipSync("extents"),
        Sabotage::SkipSync("superblock"),
        Sabotage::SkipSync("log"),
        Sabotage::SkipDirectorySync,
        Sabotage::DelaySync("tier"),
        Sabotage::SyncAfterWrite {
            file: "tier",
            before: "superblock",
        },
        Sabotage::DropSecondCopy("superblock"),
        Sabotage::OnlyFirstWrites("superblock", 4),
        Sabotage::LoseRewrites("superblock"),
        Sabotage::WrongSlot {
            file: "superblock",
            mask: 8 << 10,
        },
        Sabotage::FreeBeforeWrite("superblock"),
        Sabotage::TearWrites("tier"),
        Sabotage::PunchWide("tier", UNIT),
    ];
    crashes().find_bugs(&story(Access::Written), &bugs);
}
