//! Simulation campaigns for a structure's stories.

use alluvium_sim::RunSettings;
use alluvium_sim::harness::{CrashTests, FaultTests};

/// Returns crash tests that judge `points` crash images. Each run is long and has few crash points,
/// because a structure reaches several levels only after hundreds of steps.
///
/// `command` is the command that runs the test. A failure prints it, so that it can be replayed.
#[must_use]
pub fn crashes(command: &'static str, points: u64, must_meet: &'static [&'static str]) -> CrashTests {
    CrashTests {
        settings: RunSettings {
            steps: 260,
            point_every: 60,
            nested_every: 16,
            verify_every: 20,
            ..RunSettings::default()
        },
        command,
        points,
        effort: 200,
        must_meet,
        least_met: 1000,
    }
}

/// Returns fault tests. Each run fails a single device call, and one in `every` calls of each kind
/// is tried.
#[must_use]
pub fn faults(command: &'static str, every: u64) -> FaultTests {
    FaultTests {
        settings: RunSettings {
            steps: 160,
            verify_every: 40,
            ..RunSettings::default()
        },
        command,
        every,
    }
}
