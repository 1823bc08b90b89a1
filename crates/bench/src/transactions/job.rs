//! The job that the runner sends to the child of an engine with transactions. The child's events
//! are the same as in other runs.

use super::phase::TransactionPhase;
use crate::run::GroupPaths;
use crate::workload::phase::WindowLength;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// All work of an engine in one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TransactionJob {
    pub engine: String,
    /// Number of the repetition, from 1.
    pub repetition: usize,
    /// Directory for the engine's files.
    pub directory: PathBuf,
    pub counters: u64,
    pub phases: Vec<TransactionPhase>,
    /// Amount of unmeasured warm-up per phase.
    pub warm: WindowLength,
    /// Amount measured per phase, after the warm-up.
    pub run: WindowLength,
    /// Seed of all random choices.
    pub seed: u64,
    /// Memory limit of the process, in bytes.
    pub cap: u64,
    /// Memory size configured for the engine, if one was chosen.
    pub memory: Option<u64>,
    /// Interval of the throughput series, in milliseconds.
    pub interval_ms: u64,
    /// Control groups of the process.
    pub groups: GroupPaths,
}
