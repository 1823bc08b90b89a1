//! Defragmentation: rewrites runs in which scans seek often, so that leaves read together are
//! stored together (Spillane 2012, section 6.2).
//!
//! Scan cursors count jumps: reads that do not continue where the previous read ended. A jump costs
//! a scan as much time as the device needs to transfer `half_bandwidth` bytes. A run is rewritten
//! once its jumps have cost as much as rewriting it, so the total cost is at most twice that of the
//! best decision in hindsight. If several runs qualify, the one with the most jumps goes first.
//! Defragmentation may write only a given percentage of all other bytes written since the structure
//! was opened.
//!
//! Long sequences of leaves that are already contiguous are adopted where they are, with their
//! values, so that only fragmented leaves are rewritten.

use super::LevelsDictionary;
use super::policy::LevelMergePlan;
use super::state::{LevelMember, LevelsVersion, LevelsWriterState, bytes_of, groups};
use crate::merge::stitch::{MOST_PERCENT, StitchPolicy};
use crate::run::IndexedRun;
use alluvium_base::DeviceProfile;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A contiguous sequence of leaves stays where it is if it has at least this many times the bytes
/// that the device transfers during one seek. Reading it then reaches nine tenths of the device's
/// bandwidth.
const LONG: u64 = 9;

/// Counts the bytes written since the structure was opened.
#[derive(Debug, Default)]
pub(super) struct DefragCounters {
    /// Bytes of runs that were not written by defragmentation, but by flushes, ingests and other
    /// merges.
    written: AtomicU64,
    /// Bytes of runs that defragmentation has written.
    defragmented: AtomicU64,
    /// Number of runs that were defragmented.
    runs: AtomicU64,
}

impl DefragCounters {
    pub(super) fn note_written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn note_defragmented(&self, bytes: u64) {
        self.defragmented.fetch_add(bytes, Ordering::Relaxed);
        self.runs.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many bytes defragmentation may still write if it is limited to `percent` per
    /// cent of all other bytes written.
    fn left(&self, percent: u32) -> u64 {
        debug_assert!(percent <= MOST_PERCENT, "a share: {percent}");
        let written = u128::from(self.written.load(Ordering::Relaxed));
        let allowed = written * u128::from(percent) / u128::from(MOST_PERCENT);
        let allowed = u64::try_from(allowed).unwrap_or(u64::MAX);
        allowed.saturating_sub(self.defragmented.load(Ordering::Relaxed))
    }
}

/// A run that defragmentation may rewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DefragCandidate {
    /// Size of the run in bytes.
    bytes: u64,
    /// Number of jumps that scans made in the run.
    jumps: u64,
    /// Whether the run can be rewritten now.
    is_free: bool,
}

/// Returns the index of the candidate to rewrite, or `None` if no rewrite is worthwhile.
/// `jump_bytes` is the number of bytes that the device transfers in the time of one jump. The
/// rewrite may write at most `left_bytes` bytes.
fn choose(candidates: &[DefragCandidate], jump_bytes: u64, left_bytes: u64) -> Option<usize> {
    let is_due = |candidate: &DefragCandidate| {
        let paid = candidate.jumps.saturating_mul(jump_bytes);
        candidate.is_free && paid >= candidate.bytes && candidate.bytes <= left_bytes
    };
    let due = (0..candidates.len()).filter(|&place| is_due(&candidates[place]));
    due.filter(|&place| candidates[place].jumps > 0)
        .max_by_key(|&place| candidates[place].jumps)
}

/// Returns the stitching options for rewriting a run, which adopt only sufficiently long sequences
/// of leaves.
pub(super) fn stitching(run: &IndexedRun, device: &DeviceProfile) -> StitchPolicy {
    let leaf_bytes = bytes_of(run) / run.summary().leaves.max(1);
    let leaves = device.half_bandwidth().saturating_mul(LONG) / leaf_bytes.max(1);
    let threshold = u32::try_from(leaves).unwrap_or(u32::MAX - 1);
    debug_assert!(!run.extents().is_empty(), "a run lies somewhere");
    StitchPolicy {
        threshold: threshold.clamp(1, u32::MAX - 1),
        moves_values: true,
        ..StitchPolicy::default()
    }
}

impl LevelsDictionary {
    /// Returns how many runs were defragmented since the structure was opened, and how many bytes
    /// were written for them.
    #[must_use]
    pub fn defragmented(&self) -> (u64, u64) {
        let ledger = &self.shared.ledger;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&ledger.runs), read(&ledger.defragmented))
    }

    /// Returns the number of jumps that scans made in the current runs.
    #[must_use]
    pub fn jumps(&self) -> u64 {
        let version = self.version();
        version.newest_first.iter().map(|member| member.run.jumps()).sum()
    }

    /// Returns the plan to rewrite a run in which scans jump often, or `None` if no run is due.
    /// Defragmentation is not urgent, so it waits while another merge is running or space is
    /// scarce.
    pub(super) fn defragmentation(
        &self,
        kept: &LevelsWriterState,
        version: &LevelsVersion,
    ) -> Option<LevelMergePlan> {
        let shared = &self.shared;
        let percent = shared.options.stitching.defragment_percent;
        let waits = !kept.jobs.is_empty() || kept.wants_all || shared.is_scarce.load(Ordering::Relaxed);
        if percent == 0 || waits {
            return None;
        }
        let tiers = shared.home.store.tiers();
        let mut places = Vec::new();
        // A run that was merged in slices is not defragmented. Its parts stay separate until all of
        // them are merged.
        let is_one_run = |group: &[Arc<LevelMember>]| group.len() == 1 && group[0].is_whole();
        let mut candidates = Vec::new();
        for (level, runs) in version.levels.iter().enumerate() {
            for (place, group) in groups(runs).enumerate() {
                let member = &group[0];
                let is_lost = |member: &LevelMember| {
                    let mut extents = member.extents();
                    tiers.has_unreadable() && extents.any(|extent| tiers.is_unreadable(extent.tier))
                };
                let bytes = bytes_of(&member.run);
                // If a run belongs on another tier, leave it to a merge that moves it there.
                let stays = || {
                    let tier = self.tier(level, bytes);
                    let extents = member.run.extents();
                    extents.iter().all(|used| used.extent.tier == tier)
                };
                candidates.push(DefragCandidate {
                    bytes,
                    jumps: member.run.jumps(),
                    is_free: is_one_run(group) && member.run.jumps() > 0 && !is_lost(member) && stays(),
                });
                places.push((level, place));
            }
        }
        let jump_bytes = shared.home.store.device().half_bandwidth();
        let chosen = choose(&candidates, jump_bytes, shared.ledger.left(percent))?;
        let (level, place) = places[chosen];
        assert!(candidates[chosen].is_free, "what is written again can be read");
        Some(LevelMergePlan {
            from: level,
            runs: 1,
            skips: place,
            to: level,
            into: level,
        })
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    fn candidate(bytes: u64, jumps: u64) -> DefragCandidate {
        DefragCandidate {
            bytes,
            jumps,
            is_free: true,
        }
    }

    #[test]
    fn a_run_is_written_again_once_scans_have_paid_as_much() {
        let one = |jumps| choose(&[candidate(1000, jumps)], 100, u64::MAX);
        assert_eq!([0, 9, 10, 11].map(one), [None, None, Some(0), Some(0)]);
        assert_eq!(choose(&[candidate(0, 0)], 100, 0), None, "nothing was paid");
        let several = [candidate(1000, 10), candidate(2000, 30), candidate(10, 20)];
        assert_eq!(choose(&several, 100, u64::MAX), Some(1), "scans pay most there");
        assert_eq!(choose(&several, 100, 1999), Some(2), "the budget is too small");
        assert_eq!(choose(&several, 100, 9), None);
        let busy = DefragCandidate {
            is_free: false,
            ..several[1]
        };
        assert_eq!(choose(&[several[0], busy], 100, u64::MAX), Some(0));
    }

    #[test]
    fn the_budget_is_a_share_of_what_else_was_written() {
        let ledger = DefragCounters::default();
        assert_eq!(ledger.left(100), 0);
        ledger.note_written(1000);
        assert_eq!((ledger.left(20), ledger.left(100)), (200, 1000));
        ledger.note_defragmented(150);
        assert_eq!((ledger.left(20), ledger.left(10)), (50, 0));
        ledger.note_written(u64::MAX - 1000);
        assert!(ledger.left(100) > u64::MAX / 2);
    }
}
