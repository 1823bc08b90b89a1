//! The lengths of the simulation runs of a structure's stories.

use alluvium_sim::RunSettings;
use alluvium_sim::harness::{CrashTests, FaultTests};

/// Returns crash tests that judge `points` crash images. Each run is long and has few crash points,
/// because a structure has several levels only after some hundred steps.
///
/// `command` is the command that runs the test. It is printed with a failure, so that the failure
/// can be replayed.
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

/// Returns fault tests. In each run a single device call fails; of the calls of each kind, one in
/// `every` is tried.
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
