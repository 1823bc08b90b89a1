//! Memory and work statistics, and the usage of leaves, which determines when they are compacted.

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

/// Maximum number of remembered keys at which a seek had to skip many deleted records.
const MOST_WADED: usize = 64;
/// Maximum number of leaves whose usage is tracked.
const MOST_USED: usize = 1 << 16;
/// Sampling interval: one in this many lookups is counted.
const SAMPLE: u64 = 64;
const _: () = assert!(SAMPLE.is_power_of_two(), "its multiples are told by a mask");

/// Memory of a tree in bytes. Excludes the pages of runs and maplets, which belong to the cache,
/// and memtables, which belong to their owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeMemory {
    pub trunk: u64,
    /// Memory that open runs occupy for their root nodes, range deletes and extent lists.
    pub runs: u64,
    /// Memory that open maplets occupy for their directories.
    pub maplets: u64,
    /// Estimated memory of the running compactions.
    pub compactions: u64,
    /// Memory of the root filter, including one that is being built.
    pub digest: u64,
    /// Memory of the extent reference counts, the job table, and the leaf usage counts.
    pub tables: u64,
}

impl TreeMemory {
    #[must_use]
    pub fn total(&self) -> u64 {
        self.trunk + self.runs + self.maplets + self.compactions + self.digest + self.tables
    }
}

/// Totals that each change to the trunk updates, and that can be read without a lock.
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

/// The tree's counters, which start at zero when the store is opened.
#[derive(Clone, Debug, Default)]
pub struct TreeStats {
    pub shape: ReshapeCounts,
    /// How often each state transition of a job has occurred.
    pub edges: BTreeMap<JobTransition, u64>,
    /// Number of memtables that have been flushed.
    pub incorporations: u64,
    /// Number of records that compactions have read, and number that they have written.
    pub compacted: (u64, u64),
    /// Number of records read by full compactions and by merges of a leaf's oldest runs. Also
    /// counted in `compacted`.
    pub rewritten: u64,
    /// Number of run and maplet bytes that compactions have written.
    pub compacted_bytes: u64,
    /// Number of run and maplet bytes that memtable flushes and ingests have written.
    pub incorporated_bytes: u64,
    /// Number of leaves that compactions have adopted without reading them, and their size in
    /// bytes.
    pub adopted: (u64, u64),
    /// Number of leaves that compactions have dropped without reading them, because range deletes
    /// cover all their records.
    pub dropped_leaves: u64,
    /// Number of bytes of separate values that compactions have written again because they were
    /// scattered. Also counted in `compacted_bytes`.
    pub gathered_bytes: u64,
}

/// Counters that steps update without holding the trunk's lock.
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
    pub(crate) dropped_leaves: AtomicU64,
    pub(crate) gathered_bytes: AtomicU64,
    /// Number of compactions still to come that copy everything. It is set when a compaction has
    /// searched for adoptable leaves and found none.
    pub(crate) copying: AtomicU64,
}

/// Number of compactions that copy everything after one has found no adoptable leaf. The search
/// costs a tenth of a compaction's instructions.
pub(crate) const COPYING: u64 = 15;

/// The usage of leaves, as observed by lookups and scans.
#[derive(Debug, Default)]
pub(crate) struct UsageTracker {
    leaves: Mutex<LeafUses>,
    /// Approximate number of maplets in the root's bundles that lookups had to probe because there
    /// was no root filter.
    questions: AtomicU64,
    /// Whether many lookups are for absent keys.
    pub(crate) absent: AbsentKeys,
}

#[derive(Debug, Default)]
pub(crate) struct LeafUses {
    /// The usage of each leaf since its last rewrite, by the leaf's low key.
    leaves: HashMap<Box<[u8]>, LeafUse>,
    /// Keys at which a seek had to skip many deleted records.
    waded: Vec<Box<[u8]>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeafUse {
    /// Number of scans that started in the leaf.
    pub(crate) scans: u64,
    /// Number of lookups of the leaf's keys.
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

    /// Returns whether a seek had to skip many deleted records in `range`.
    pub(crate) fn waded_in(&self, range: &KeyRange) -> bool {
        self.waded.iter().any(|key| range.contains(key))
    }
}

impl UsageTracker {
    /// Counts a scan that starts in a leaf. Under contention, the scan may go uncounted.
    pub(crate) fn note_scan(&self, leaf: &TrunkNode) {
        if let Some(mut leaves) = self.leaves.try_lock() {
            leaves.used(leaf, |uses| uses.scans += 1);
        }
    }

    /// Counts a lookup of a key. Only a sample of lookups is counted, selected by key hash. Under
    /// contention, a lookup may go uncounted.
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

    /// Records that a seek had to skip many deleted records near this key.
    pub(crate) fn note_wading(&self, key: &[u8]) {
        let mut leaves = self.leaves.lock();
        if leaves.waded.len() < MOST_WADED {
            leaves.waded.push(key.into());
        }
        assert!(leaves.waded.len() <= MOST_WADED, "a named maximum");
    }

    /// Resets the usage of the leaf with this range. Must be called when the leaf is rewritten.
    pub(crate) fn forget(&self, leaf: &KeyRange) {
        let mut leaves = self.leaves.lock();
        leaves.leaves.remove(&leaf.low);
        leaves.waded.retain(|key| !leaf.contains(key));
    }

    /// Locks the leaf usage counts and returns them.
    pub(crate) fn leaves(&self) -> MutexGuard<'_, LeafUses> {
        self.leaves.lock()
    }

    /// Returns the approximate number of maplets in the root's bundles that lookups had to probe
    /// because there was no root filter.
    pub(crate) fn questions(&self) -> u64 {
        self.questions.load(Ordering::Relaxed)
    }

    /// Resets the number of probed maplets, once it has triggered the building of a root filter.
    pub(crate) fn answer_questions(&self) {
        self.questions.store(0, Ordering::Relaxed);
    }

    /// Returns the approximate memory of the usage counts in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let leaves = self.leaves.lock();
        let entries = leaves.leaves.len() + leaves.waded.len();
        (entries * (size_of::<(Box<[u8]>, LeafUse)>() + 32)) as u64
    }
}
