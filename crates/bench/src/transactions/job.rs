//! The job that the runner sends to the child process of an engine with transactions. The child
//! sends the same events as in other benchmarks.

use super::phase::TransactionPhase;
use crate::run::GroupPaths;
use crate::workload::phase::WindowLength;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// All the work of one process on one engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TransactionJob {
    pub engine: String,
    /// Number of the repetition, counted from 1.
    pub repetition: usize,
    /// The directory for the files of the engine.
    pub directory: PathBuf,
    pub counters: u64,
    pub phases: Vec<TransactionPhase>,
    /// Length of the warm-up before each phase, which is not measured.
    pub warm: WindowLength,
    /// Length of the measured part of each phase, which follows the warm-up.
    pub run: WindowLength,
    /// Seed of all random choices.
    pub seed: u64,
    /// Memory limit of the process in bytes.
    pub cap: u64,
    /// Memory in bytes that the engine is told to use, if the user has specified it.
    pub memory: Option<u64>,
    /// Length in milliseconds of a throughput interval.
    pub interval_ms: u64,
    /// The control groups that the process belongs to.
    pub groups: GroupPaths,
}
