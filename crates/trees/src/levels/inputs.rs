//! The inputs of a merge, and the reason for it.

use super::policy::LevelMergePlan;
use super::state::{LevelMember, LevelsVersion, groups};
use std::sync::Arc;

/// The reason for a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MergeReason {
    /// The policy asks for it.
    Policy,
    /// A user asks for it: the whole structure becomes one run.
    All,
    /// A run has shrunk, and is rewritten to a faster tier.
    Lift,
    /// Scans seek in a run: it is rewritten in one piece (defragmentation).
    Scans,
    /// Scans skip many deleted or expired keys: the whole structure becomes one run.
    SkippedTombstones,
    /// A repair: a run is rewritten in its place.
    Repair,
    /// Space is scarce: all runs become one run in a slice of their keys.
    Slice,
}

/// Returns the input runs of a merge, newest first.
pub(super) fn inputs(version: &LevelsVersion, merge: &LevelMergePlan) -> Vec<Arc<LevelMember>> {
    let mut inputs = Vec::new();
    for level in merge.from..=merge.to {
        let Some(runs) = version.levels.get(level) else {
            continue;
        };
        let runs: Vec<&[Arc<LevelMember>]> = groups(runs).collect();
        let taken = match level == merge.from {
            true => &runs[merge.skips..merge.skips + merge.runs],
            false => &runs[..],
        };
        inputs.extend(taken.iter().rev().flat_map(|parts| parts.iter().rev()).cloned());
    }
    assert!(!inputs.is_empty(), "a merge takes runs");
    inputs
}
