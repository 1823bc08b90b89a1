//! The tiered tree on devices that fail.

use crate::story::{Flaw, Tiered};
use alluvium_sim::{FaultCampaign, Settings};
use alluvium_storage::log::Access;

fn campaign(access: Access) -> FaultCampaign<Tiered> {
    let settings = Settings {
        steps: 160,
        verify_every: 40,
        ..Settings::default()
    };
    FaultCampaign::new(Tiered {
        access,
        flaw: Flaw::Right,
    })
    .settings(settings)
    .command("cargo test -p alluvium-trees --test it -- the_tree_survives_every_fault")
}

/// How many seeds: `ALLUVIUM_SIM_FAULT_SEEDS` asks for more than one, and then every call fails,
/// not every 23rd.
fn seeds() -> Option<u64> {
    let seeds = std::env::var("ALLUVIUM_SIM_FAULT_SEEDS").ok()?;
    Some(seeds.parse().expect("a number of seeds"))
}

fn survives(access: Access) {
    let campaign = campaign(access)
        .seeds(1, seeds().unwrap_or(1))
        .every(if seeds().is_some() { 1 } else { 23 });
    let report = campaign.run();
    println!("{}", report.table());
    report.expect_clean();
}

#[test]
fn the_tree_survives_every_fault_with_a_mapped_log() {
    survives(Access::Mapped);
}

#[test]
fn the_tree_survives_every_fault_with_a_written_log() {
    survives(Access::Written);
}
