//! The page-and-log story on failing devices.

use crate::page_log::{Flaw, PageLog};
use alluvium_sim::RunSettings;
use alluvium_sim::harness::FaultTests;
use alluvium_storage::log::SegmentAccess;

fn story(access: SegmentAccess) -> PageLog {
    PageLog {
        access,
        flaw: Flaw::Right,
        tiers: 1,
    }
}

fn faults() -> FaultTests {
    FaultTests {
        settings: RunSettings {
            steps: 40,
            verify_every: 20,
            ..RunSettings::default()
        },
        command: "cargo test -p alluvium-storage --test it -- the_page_and_log_story_survives_every_fault",
        every: 3,
    }
}

#[test]
fn the_page_and_log_story_survives_every_fault_with_a_mapped_log() {
    faults().survive([story(SegmentAccess::Mapped)]);
}

#[test]
fn the_page_and_log_story_survives_every_fault_with_a_written_log() {
    faults().survive([story(SegmentAccess::Written)]);
}

#[test]
fn leaves_on_a_second_tier_survive_every_fault() {
    let faults = FaultTests {
        command: "cargo test -p alluvium-storage --test it -- leaves_on_a_second_tier_survive_every_fault",
        ..faults()
    };
    let story = PageLog {
        tiers: 2,
        ..story(SegmentAccess::Written)
    };
    faults.survive([story]);
    faults.find_acknowledged_failures(&story, &["tier-1"]);
}

#[test]
fn a_failed_sync_that_somebody_acknowledges_is_found() {
    faults().find_acknowledged_failures(&story(SegmentAccess::Written), &["tier", "superblock", "log"]);
}
