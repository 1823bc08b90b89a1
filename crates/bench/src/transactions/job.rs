//! What the runner tells the child of one engine with transactions. What the child answers is the
//! same as in other runs.

use super::phase::Phase;
use crate::run::Groups;
use crate::workload::phase::Amount;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Everything that an engine is to do in one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The engine.
    pub engine: String,
    /// Which repetition this is, from 1 on.
    pub repetition: usize,
    /// Where its files are to be.
    pub directory: PathBuf,
    /// How many counters there are.
    pub counters: u64,
    /// What is done.
    pub phases: Vec<Phase>,
    /// What is done of each phase before it is measured.
    pub warm: Amount,
    /// What is measured of each phase.
    pub run: Amount,
    /// What everything follows from.
    pub seed: u64,
    /// What the process may use of memory, in bytes.
    pub cap: u64,
    /// What the engine is told to use, if a size was chosen.
    pub memory: Option<u64>,
    /// The length of an interval of the throughput over time, in milliseconds.
    pub interval_ms: u64,
    /// The control groups of the process.
    pub groups: Groups,
}
