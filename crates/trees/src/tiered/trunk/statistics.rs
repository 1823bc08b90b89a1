//! Statistics about memory and work, and counts of leaf usage for maintenance.

use super::job_table::JobTransition;
use super::miss_rate::AbsentKeys;
use super::node::TrunkNode;
use super::shape::ReshapeCounts;
use super::state::TreeVersion;
use super::walk::leaf_for;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::range::KeyRange;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of keys recorded for maintenance because a seek skipped many deletes there.
const MOST_WADED: usize = 64;
/// Maximum number of leaves whose usage is counted.
const MOST_USED: usize = 1 << 16;
/// Sampling interval: one in this many lookups is counted.
const SAMPLE: u64 = 64;
const _: () = assert!(SAMPLE.is_power_of_two(), "its multiples are told by a mask");

/// Memory of a tree in bytes. Excludes pages of runs and maplets, which belong to the cache, and
/// memtables, which belong to their owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeMemory {
    pub trunk: u64,
    /// Open runs: their roots, range deletes and lists of extents.
    pub runs: u64,
    /// Open maplets: their directories.
    pub maplets: u64,
    /// Estimated memory of running compactions.
    pub compactions: u64,
    /// The root filter, and one under construction.
    pub digest: u64,
    /// Reference counts of extents, planned compactions, and usage of leaves.
    pub tables: u64,
}

impl TreeMemory {
    #[must_use]
    pub fn total(&self) -> u64 {
        self.trunk + self.runs + self.maplets + self.compactions + self.digest + self.tables
    }
}

/// Totals that each change of the trunk stores for readers.
#[derive(Debug, Default)]
pub(crate) struct TrunkTotals {
    pub(crate) trunk: AtomicU64,
    pub(crate) runs: AtomicU64,
    pub(crate) maplets: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) digest: AtomicU64,
    pub(crate) digesting: AtomicU64,
    pub(crate) tables: AtomicU64,
    /// Number of due and running compactions.
    pub(crate) due: AtomicU64,
    /// Number of runs on the longest path, in percent of the maximum.
    pub(crate) crowding: AtomicU64,
}

impl TrunkTotals {
    /// Returns the memory of the trunk, of the runs and maplets that it refers to, and of running
    /// steps.
    pub(crate) fn memory(&self) -> TreeMemory {
        let read = |total: &AtomicU64| total.load(Ordering::Relaxed);
        TreeMemory {
            trunk: read(&self.trunk),
            runs: read(&self.runs),
            maplets: read(&self.maplets),
            compactions: read(&self.compactions),
            digest: read(&self.digest) + read(&self.digesting),
            tables: read(&self.tables),
        }
    }
}

/// Counters since the store was opened.
#[derive(Clone, Debug, Default)]
pub struct TreeStats {
    pub shape: ReshapeCounts,
    /// Number of times that each job state transition occurred.
    pub edges: BTreeMap<JobTransition, u64>,
    /// Number of memtables that were flushed.
    pub incorporations: u64,
    /// Records that compactions read and wrote.
    pub compacted: (u64, u64),
    /// Records read by full compactions and by merges of a leaf's oldest runs. Included in
    /// `compacted`.
    pub rewritten: u64,
    /// Bytes of runs and maplets that compactions wrote.
    pub compacted_bytes: u64,
    /// Bytes of runs and maplets written from memtables.
    pub incorporated_bytes: u64,
    /// Leaves that compactions adopted without reading them, and their bytes.
    pub adopted: (u64, u64),
}

/// Counters that steps update without the trunk's lock.
#[derive(Debug, Default)]
pub(crate) struct StepCounters {
    pub(crate) incorporations: AtomicU64,
    pub(crate) read: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) rewritten: AtomicU64,
    pub(crate) compacted_bytes: AtomicU64,
    pub(crate) incorporated_bytes: AtomicU64,
    pub(crate) adopted_leaves: AtomicU64,
    pub(crate) adopted_bytes: AtomicU64,
    /// Number of compactions left that copy everything, because the last one that searched for
    /// adoptable leaves found none.
    pub(crate) copying: AtomicU64,
}

/// Number of compactions that copy everything after one that found no adoptable leaf. The search
/// costs a tenth of a compaction's instructions.
pub(crate) const COPYING: u64 = 15;

/// Usage of leaves, as observed by lookups and scans.
#[derive(Debug, Default)]
pub(crate) struct UsageTracker {
    leaves: Mutex<LeafUses>,
    /// Approximate number of times that lookups asked maplets of the root's bundles without a root
    /// filter.
    questions: AtomicU64,
    /// Whether absent keys are common in lookups.
    pub(crate) absent: AbsentKeys,
}

#[derive(Debug, Default)]
pub(crate) struct LeafUses {
    /// Usage of each leaf, by low key, since its last rewrite.
    leaves: HashMap<Box<[u8]>, LeafUse>,
    /// Keys at which a seek skipped many deleted records.
    waded: Vec<Box<[u8]>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeafUse {
    /// Scans that started in the leaf.
    pub(crate) scans: u64,
    /// Lookups of the leaf's keys.
    pub(crate) gets: u64,
}

impl LeafUses {
    fn used(&mut self, leaf: &TrunkNode, count: impl FnOnce(&mut LeafUse)) {
        debug_assert!(leaf.is_leaf(), "the uses of leaves are counted");
        if let Some(uses) = self.leaves.get_mut(&leaf.range.low) {
            count(uses);
        } else if self.leaves.len() < MOST_USED {
            count(self.leaves.entry(leaf.range.low.clone()).or_default());
        }
        debug_assert!(self.leaves.len() <= MOST_USED, "a named maximum");
    }

    /// Returns the usage of a leaf.
    pub(crate) fn of(&self, leaf: &TrunkNode) -> LeafUse {
        self.leaves.get(&leaf.range.low).copied().unwrap_or_default()
    }

    /// Returns whether a seek skipped many deleted records in `range`.
    pub(crate) fn waded_in(&self, range: &KeyRange) -> bool {
        self.waded.iter().any(|key| range.contains(key))
    }
}

impl UsageTracker {
    /// Records that a scan starts in a leaf. Under contention a count may be lost.
    pub(crate) fn note_scan(&self, leaf: &TrunkNode) {
        if let Some(mut leaves) = self.leaves.try_lock() {
            leaves.used(leaf, |uses| uses.scans += 1);
        }
    }

    /// Records a lookup of a key. Only a sample, selected by hash, is counted, and under contention
    /// a count may be lost.
    #[inline]
    pub(crate) fn note_get(&self, version: &TreeVersion, key: LookupKey<'_>) {
        if !key.hash().is_multiple_of(SAMPLE) {
            return;
        }
        if version.digest.is_none() {
            let questions = SAMPLE * version.root.bundles.len() as u64;
            self.questions.fetch_add(questions, Ordering::Relaxed);
        }
        if let Some(mut leaves) = self.leaves.try_lock() {
            leaves.used(leaf_for(&version.root, key.bytes()), |uses| uses.gets += SAMPLE);
        }
    }

    /// Records that a seek skipped many deleted records around this key.
    pub(crate) fn note_wading(&self, key: &[u8]) {
        let mut leaves = self.leaves.lock();
        if leaves.waded.len() < MOST_WADED {
            leaves.waded.push(key.into());
        }
        assert!(leaves.waded.len() <= MOST_WADED, "a named maximum");
    }

    /// Resets the usage of a leaf with this range, because it is being rewritten.
    pub(crate) fn forget(&self, leaf: &KeyRange) {
        let mut leaves = self.leaves.lock();
        leaves.leaves.remove(&leaf.low);
        leaves.waded.retain(|key| !leaf.contains(key));
    }

    /// Locks and returns the usage of leaves.
    pub(crate) fn leaves(&self) -> MutexGuard<'_, LeafUses> {
        self.leaves.lock()
    }

    /// Returns the approximate number of times that lookups asked maplets of the root's bundles
    /// without a root filter.
    pub(crate) fn questions(&self) -> u64 {
        self.questions.load(Ordering::Relaxed)
    }

    /// Resets the count of questions, because they have paid for a root filter.
    pub(crate) fn answer_questions(&self) {
        self.questions.store(0, Ordering::Relaxed);
    }

    /// Returns the approximate memory in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let leaves = self.leaves.lock();
        let entries = leaves.leaves.len() + leaves.waded.len();
        (entries * (size_of::<(Box<[u8]>, LeafUse)>() + 32)) as u64
    }
}
