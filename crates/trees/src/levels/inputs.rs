//! Determines the inputs of a merge, and defines why merges are started.

use super::policy::LevelMergePlan;
use super::state::{LevelMember, LevelsVersion, groups};
use std::sync::Arc;

/// Why a merge was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MergeReason {
    /// The merge policy requires the merge.
    Policy,
    /// A user has requested that the whole structure be merged into one run.
    All,
    /// A run has shrunk, and is rewritten on a faster storage tier.
    Lift,
    /// Scans jump often in a run, so it is rewritten contiguously (defragmentation).
    Scans,
    /// Scans have skipped many deleted or expired keys, so all runs are merged into one.
    SkippedTombstones,
    /// A repair rewrites a run in place.
    Repair,
    /// Space is scarce, so all runs are merged in a slice of the key space.
    Slice,
}

/// Returns the input runs of a merge, from newest to oldest.
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
