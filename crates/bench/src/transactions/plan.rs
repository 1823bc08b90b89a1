//! Runs all engines, repetition by repetition, each in its own process. Every second repetition
//! runs them in reverse order.

use super::job::TransactionJob;
use crate::run::{
    BenchOutcome, BenchRunner, CapMethod, ChildTask, EngineOrder, FileRetention, GroupPaths, each,
};
use anyhow::Result;
use std::path::Path;

#[derive(Clone, Debug)]
pub struct TransactionPlan {
    pub engines: Vec<String>,
    /// Number of repetitions per engine.
    pub repetitions: usize,
    /// The work of each engine; engine, repetition, directory and groups are filled in.
    pub job: TransactionJob,
    pub cap: CapMethod,
}

/// Runs every engine, repetition by repetition.
///
/// # Errors
/// The first failure, if no measurement succeeded.
pub fn run(orders: &TransactionPlan, runner: &dyn BenchRunner) -> Result<BenchOutcome> {
    each(
        &orders.engines,
        orders.repetitions,
        EngineOrder::Alternating,
        runner,
        &mut |engine, repetition, outcome| {
            let errand = ChildTask {
                engine,
                repetition,
                directory: &orders.job.directory,
                files: FileRetention::Removed,
                is_loaded: false,
                cap: orders.cap,
                cap_bytes: orders.job.cap,
            };
            let job = |directory: &Path, groups: GroupPaths| {
                Ok(serde_json::to_string(&TransactionJob {
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
