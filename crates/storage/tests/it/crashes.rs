//! The page-and-log story under the crash driver.
//!
//! Under `cargo test`, the test is small. The following command is the large run, which also
//! asserts the counters:
//!
//! ```text
//! ALLUVIUM_SIM_POINTS=260000 ALLUVIUM_SIM_WORKERS=2 \
//!     cargo test --release -p alluvium-storage --test it -- \
//!     the_page_and_log_story_survives_every_crash --nocapture
//! ```
//!
//! The long run has ten times the points. [`alluvium_sim::harness`] documents the other variables.

use crate::page_log::{Flaw, PageLog};
use alluvium_sim::RunSettings;
use alluvium_sim::harness::{CrashTests, LARGE};
use alluvium_sim::saboteur::PlantedBug;
use alluvium_storage::extents::UNIT;
use alluvium_storage::log::SegmentAccess;

fn story(access: SegmentAccess) -> PageLog {
    flawed(access, Flaw::Right)
}

fn flawed(access: SegmentAccess, flaw: Flaw) -> PageLog {
    PageLog {
        access,
        flaw,
        tiers: 1,
    }
}

fn on_two_tiers() -> PageLog {
    PageLog {
        tiers: 2,
        ..story(SegmentAccess::Written)
    }
}

/// Long runs with few crash points, because events that are rare within a run need many runs.
fn crashes() -> CrashTests {
    CrashTests {
        settings: RunSettings {
            steps: 160,
            point_every: 40,
            nested_every: 16,
            ..RunSettings::default()
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
    let survey = crashes().survive([SegmentAccess::Mapped, SegmentAccess::Written].map(story));
    assert!(
        !survey.is_large || survey.distinct >= LARGE,
        "{} distinct images",
        survey.distinct
    );
}

#[test]
fn leaves_on_a_second_tier_survive_every_crash() {
    let crashes = CrashTests {
        command: "cargo test -p alluvium-storage --test it -- leaves_on_a_second_tier_survive_every_crash --nocapture",
        points: 2000,
        ..crashes()
    };
    crashes.survive([on_two_tiers()]);
}

#[test]
fn every_bug_planted_under_a_second_tier_is_found() {
    let bugs = [
        PlantedBug::SkipSync("tier-1"),
        PlantedBug::SkipSync("tier.new"),
        PlantedBug::SkipDirectorySync,
        PlantedBug::SyncAfterWrite {
            file: "tier-1",
            before: "superblock",
        },
        PlantedBug::TearWrites("tier-1"),
        PlantedBug::PunchWide("tier-1", UNIT),
    ];
    crashes().find_bugs(&on_two_tiers(), &bugs);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    crashes().repeat([SegmentAccess::Mapped, SegmentAccess::Written].map(story), 3);
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
    crashes().find_mistakes(flaws.map(|flaw| flawed(SegmentAccess::Written, flaw)));
}

#[test]
fn replaying_a_commit_that_the_checkpoint_holds_is_harmless() {
    let crashes = CrashTests {
        points: 1000,
        must_meet: &[],
        ..crashes()
    };
    crashes.survive([flawed(SegmentAccess::Written, Flaw::CutsTooLow)]);
}

/// Bugs of the store, simulated at the device.
#[test]
fn every_bug_planted_under_the_store_is_found() {
    let bugs = [
        PlantedBug::SkipSync("tier"),
        PlantedBug::SkipSync("extents"),
        PlantedBug::SkipSync("superblock"),
        PlantedBug::SkipSync("log"),
        PlantedBug::SkipDirectorySync,
        PlantedBug::DelaySync("tier"),
        PlantedBug::SyncAfterWrite {
            file: "tier",
            before: "superblock",
        },
        PlantedBug::DropSecondCopy("superblock"),
        PlantedBug::OnlyFirstWrites("superblock", 4),
        PlantedBug::LoseRewrites("superblock"),
        PlantedBug::WrongSlot {
            file: "superblock",
            mask: 8 << 10,
        },
        PlantedBug::FreeBeforeWrite("superblock"),
        PlantedBug::TearWrites("tier"),
        PlantedBug::PunchWide("tier", UNIT),
    ];
    crashes().find_bugs(&story(SegmentAccess::Written), &bugs);
}
