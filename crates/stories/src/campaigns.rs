//! Length of the runs of a structure's stories.

use alluvium_sim::Settings;
use alluvium_sim::harness::{Crashes, Faults};

/// Returns crash tests that judge `points` images. Runs are long and have few crash points, because
/// a structure has several levels only after some hundred steps.
///
/// `command` is the command of the test, for replay lines.
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

/// Returns tests on failing devices, in which one in `every` calls of each kind fails, one per run.
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
