//! Runs transaction benchmarks. Each repetition measures every engine in a process of its own,
//! every second one in reverse order.

use super::job::TransactionJob;
use crate::run::{
    BenchOutcome, BenchRunner, CapMethod, ChildTask, EngineOrder, FileRetention, GroupPaths, each,
};
use anyhow::Result;
use std::path::Path;

#[derive(Clone, Debug)]
pub struct TransactionPlan {
    pub engines: Vec<String>,
    /// Number of repetitions for each engine.
    pub repetitions: usize,
    /// The work of each engine. The runner fills in the engine, the repetition, the directory and
    /// the groups.
    pub job: TransactionJob,
    pub cap: CapMethod,
}

/// Measures all engines. Each repetition measures every engine once.
///
/// # Errors
/// The first failure, if no measurement succeeds.
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
