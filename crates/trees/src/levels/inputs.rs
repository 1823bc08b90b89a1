//! Determines the inputs of a merge, and defines the reasons for merges.

use super::policy::LevelMergePlan;
use super::state::{LevelMember, LevelsVersion, groups};
use std::sync::Arc;

/// The reason why a merge was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MergeReason {
    /// The merge policy requires the merge.
    Policy,
    /// A user has requested to merge the whole structure into one run.
    All,
    /// A run has become small and is rewritten to a faster storage tier.
    Lift,
    /// Scans of a run jump often, so the run is rewritten contiguously (defragmentation).
    Scans,
    /// Scans have skipped many deleted or expired keys, so all runs are merged into one.
    SkippedTombstones,
    /// A repair rewrites a run in place.
    Repair,
    /// Space is scarce, so all runs are merged into one run in a slice of the key space.
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
