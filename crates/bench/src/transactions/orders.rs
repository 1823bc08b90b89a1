//! All engines, repetition by repetition, each in a process of its own. Every second repetition
//! they take turns the other way about.

use super::job::Job;
use crate::run::{Cap, Errand, Files, Groups, Outcome, Runner, Turns, each};
use anyhow::Result;
use std::path::Path;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Orders {
    /// The engines, by their names.
    pub engines: Vec<String>,
    /// How often each.
    pub repetitions: usize,
    /// What each is to do; engine, repetition, directory and groups are filled in.
    pub job: Job,
    /// Whether there is a cap.
    pub cap: Cap,
}

/// Runs every engine, repetition by repetition.
///
/// # Errors
/// When nothing could be measured at all: why the first failed.
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
