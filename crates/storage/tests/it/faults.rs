//! The page-and-log story on devices that fail.

use crate::page_log::{Flaw, PageLog};
use alluvium_sim::saboteur::Sabotage;
use alluvium_sim::{FaultCampaign, Settings};
use alluvium_storage::log::Access;

fn campaign(access: Access) -> FaultCampaign<PageLog> {
    let settings = Settings {
        steps: 40,
        verify_every: 20,
        ..Settings::default()
    };
    FaultCampaign::new(PageLog {
        access,
        flaw: Flaw::Right,
    })
    .settings(settings)
    .command("cargo test -p alluvium-storage --test it -- the_page_and_log_story_survives_every_fault")
}

/// How many seeds: `ALLUVIUM_SIM_FAULT_SEEDS` asks for more than one, and then every call fails,
/// not every third.
fn seeds() -> Option<u64> {
    let seeds = std::env::var("ALLUVIUM_SIM_FAULT_SEEDS").ok()?;
    Some(seeds.parse().expect("a number of seeds"))
}

fn survives(access: Access) {
    let campaign = campaign(access)
        .seeds(1, seeds().unwrap_or(1))
        .every(if seeds().is_some() { 1 } else { 3 });
    let report = campaign.run();
    println!("{}", report.table());
    report.expect_clean();
}

#[test]
fn the_page_and_log_story_survives_every_fault_with_a_mapped_log() {
    survives(Access::Mapped);
}

#[test]
fn the_page_and_log_story_survives_every_fault_with_a_written_log() {
    survives(Access::Written);
}

#[test]
fn a_failed_sync_that_somebody_acknowledges_is_found() {
    for file in ["tier", "superblock", "log"] {
        let sabotage = Some(Sabotage::AcknowledgeFailedSync(file));
        let settings = Settings {
            sabotage,
            steps: 40,
            ..Settings::default()
        };
        let report = campaign(Access::Written).settings(settings).seeds(1, 4).run();
        assert!(report.finding.is_some(), "{file}");
    }
}
