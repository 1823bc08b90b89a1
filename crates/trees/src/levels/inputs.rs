//! Which runs a merge takes, and what asks for it.

use super::policy::Merge;
use super::state::{Member, Version, groups};
use std::sync::Arc;

/// What asks for a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The policy.
    Policy,
    /// A user: all of the structure becomes one run.
    All,
    /// A run has shrunk, and is written to a faster tier.
    Lift,
    /// Scans: a run is written again.
    Scans,
    /// Scans that waded through what was deleted or has expired: everything becomes one run.
    Waded,
    /// A repair: a run is written again where it stands.
    Repair,
    /// Scarce space: all runs become one in a slice of their keys.
    Slice,
}

/// The runs that a merge takes, newest first.
pub(super) fn inputs(version: &Version, merge: &Merge) -> Vec<Arc<Member>> {
    let mut inputs = Vec::new();
    for level in merge.from..=merge.to {
        let Some(runs) = version.levels.get(level) else {
            continue;
        };
        let runs: Vec<&[Arc<Member>]> = groups(runs).collect();
        let taken = match level == merge.from {
            true => &runs[merge.skips..merge.skips + merge.runs],
            false => &runs[..],
        };
        inputs.extend(taken.iter().rev().flat_map(|parts| parts.iter().rev()).cloned());
    }
    assert!(!inputs.is_empty(), "a merge takes runs");
    inputs
}
