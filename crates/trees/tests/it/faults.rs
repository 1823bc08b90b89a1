//! The tiered tree on devices that fail.

use crate::story::{Flaw, Tiered};
use alluvium_sim::Settings;
use alluvium_sim::harness::Faults;
use alluvium_storage::log::Access;

fn survives(access: Access, tiers: u8) {
    let faults = Faults {
        settings: Settings {
            steps: 160,
            verify_every: 40,
            ..Settings::default()
        },
        command: "cargo test -p alluvium-trees --test it -- the_tree_survives_every_fault",
        every: 23,
    };
    faults.survive([Tiered {
        access,
        flaw: Flaw::Right,
        tiers,
    }]);
}

#[test]
fn the_tree_survives_every_fault_with_a_mapped_log() {
    survives(Access::Mapped, 1);
}

#[test]
fn the_tree_survives_every_fault_with_a_written_log() {
    survives(Access::Written, 1);
}

#[test]
fn a_tree_that_compacts_to_a_second_tier_survives_every_fault() {
    survives(Access::Written, 2);
}
