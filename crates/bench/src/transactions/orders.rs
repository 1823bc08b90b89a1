//! Runs all engines, repetition by repetition, each in its own process. Every second repetition
//! runs them in reverse order.

use super::job::Job;
use crate::run::{Cap, Errand, Files, Groups, Outcome, Runner, Turns, each};
use anyhow::Result;
use std::path::Path;

/// The requested measurements.
#[derive(Clone, Debug)]
pub struct Orders {
    /// Names of the engines.
    pub engines: Vec<String>,
    /// Number of repetitions per engine.
    pub repetitions: usize,
    /// The work of each engine; engine, repetition, directory and groups are filled in.
    pub job: Job,
    /// Whether memory is capped.
    pub cap: Cap,
}

/// Runs every engine, repetition by repetition.
///
/// # Errors
/// The first failure, if no measurement succeeded.
pub fn run(orders: &Orders, runner: &dyn Runner) -> Result<Outcome> {
    each(
        &orders.engines,
        orders.repetitions,
        Turns::Alternating,
        runner,
        &mut |engine, repetition, outcome| {
            let errand = Errand {
                engine,
                repetition,
                directory: &orders.job.directory,
                files: Files::Removed,
                is_loaded: false,
                cap: orders.cap,
                cap_bytes: orders.job.cap,
            };
            let job = |directory: &Path, groups: Groups| {
                Ok(serde_json::to_string(&Job {
                    engine: engine.to_owned(),
                    repetition,
                    directory: directory.to_owned(),
                    groups,
                    ..orders.job.clone()
                })?)
            };
            errand.run(&job, runner, outcome)
        },
    )
}
