//! How far the runs of a structure's stories go.

use alluvium_sim::Settings;
use alluvium_sim::harness::{Crashes, Faults};

/// Returns crash tests that judge `points` images. Runs are long and have few crash points: it
/// takes some hundred steps until a structure has several levels.
///
/// `command` runs the test, for the line that replays a finding.
#[must_use]
pub fn crashes(command: &'static str, points: u64, must_meet: &'static [&'static str]) -> Crashes {
    Crashes {
        settings: Settings {
            steps: 260,
            point_every: 60,
            nested_every: 16,
            verify_every: 20,
            ..Settings::default()
        },
        command,
        points,
        effort: 200,
        must_meet,
        least_met: 1000,
    }
}

/// Returns tests on devices that fail, of which every `every`-th call of each sort fails in turn.
#[must_use]
pub fn faults(command: &'static str, every: u64) -> Faults {
    Faults {
        settings: Settings {
            steps: 160,
            verify_every: 40,
            ..Settings::default()
        },
        command,
        every,
    }
}
