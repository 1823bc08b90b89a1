//! What is counted: memory and work, for those who ask, and how leaves are used, for maintenance.

use super::absent::AbsentKeys;
use super::inflight::Edge;
use super::node::Node;
use super::shape::Counts;
use super::state::Version;
use super::walk::leaf_for;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::range::KeyRange;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

/// Keys that wait for maintenance after a seek has waded there, at most.
const MOST_WADED: usize = 64;
/// Leaves of which the uses are counted, at most.
const MOST_USED: usize = 1 << 16;
/// Every how many lookups one is counted, for all of them.
const SAMPLE: u64 = 64;
const _: () = assert!(SAMPLE.is_power_of_two(), "its multiples are told by a mask");

/// Bytes of memory that a tree takes. Pages of its runs and maplets are the cache's, memtables
/// their owner's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Nodes of the trunk.
    pub trunk: u64,
    /// Open runs: their roots, range deletes and lists of extents.
    pub runs: u64,
    /// Open maplets: where their pages are.
    pub maplets: u64,
    /// Compactions under way, about.
    pub compactions: u64,
    /// The digest of the root's bundles, and one that is being made.
    pub digest: u64,
    /// Who uses what, what is planned, what is known of leaves by their use.
    pub tables: u64,
}

impl Memory {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.trunk + self.runs + self.maplets + self.compactions + self.digest + self.tables
    }
}

/// Totals that a change of the trunk leaves for readers.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) trunk: AtomicU64,
    pub(crate) runs: AtomicU64,
    pub(crate) maplets: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) digest: AtomicU64,
    pub(crate) digesting: AtomicU64,
    pub(crate) tables: AtomicU64,
    /// Compactions that are due or under way.
    pub(crate) due: AtomicU64,
    /// How many runs lie on the longest path, in hundredths of what there should be at most.
    pub(crate) crowding: AtomicU64,
}

impl Totals {
    /// Returns the memory of the trunk, of what it refers to, and of steps under way.
    pub(crate) fn memory(&self) -> Memory {
        let read = |total: &AtomicU64| total.load(Ordering::Relaxed);
        Memory {
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
pub struct Stats {
    /// Changes of shape.
    pub shape: Counts,
    /// What became of compactions.
    pub edges: BTreeMap<Edge, u64>,
    /// Memtables that were written out.
    pub incorporations: u64,
    /// Records that compactions read, and wrote.
    pub compacted: (u64, u64),
    /// Of the records read, those that a full compaction or a merge of a leaf's oldest runs asked
    /// for.
    pub rewritten: u64,
    /// Bytes of runs and maplets that compactions wrote.
    pub compacted_bytes: u64,
    /// Bytes of runs and maplets written from memtables.
    pub incorporated_bytes: u64,
    /// Leaves that compactions took over unread, and their bytes.
    pub adopted: (u64, u64),
}

/// Counters that steps add to without the trunk's lock.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) incorporations: AtomicU64,
    pub(crate) read: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) rewritten: AtomicU64,
    pub(crate) compacted_bytes: AtomicU64,
    pub(crate) incorporated_bytes: AtomicU64,
    pub(crate) adopted_leaves: AtomicU64,
    pub(crate) adopted_bytes: AtomicU64,
    /// Compactions that are still to copy everything, because the last one that looked for leaves
    /// to take over found none.
    pub(crate) copying: AtomicU64,
}

/// Compactions that copy everything after one that found no leaf to take over: to look costs a
/// tenth of a compaction's instructions.
pub(crate) const COPYING: u64 = 15;

/// How leaves are used, as lookups and scans tell.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    leaves: Mutex<LeafUses>,
    /// How often lookups have asked maplets of the root's bundles without a digest, about.
    questions: AtomicU64,
    /// Whether lookups often find nothing.
    pub(crate) absent: AbsentKeys,
}

/// What is known of leaves by their use.
#[derive(Debug, Default)]
pub(crate) struct LeafUses {
    /// How a leaf was used, by its low key, since it was last rewritten.
    leaves: HashMap<Box<[u8]>, LeafUse>,
    /// Keys where a seek waded through what is deleted.
    waded: Vec<Box<[u8]>>,
}

/// How a leaf was used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeafUse {
    /// Scans that began in it.
    pub(crate) scans: u64,
    /// Lookups of its keys.
    pub(crate) gets: u64,
}

impl LeafUses {
    fn used(&mut self, leaf: &Node, count: impl FnOnce(&mut LeafUse)) {
        debug_assert!(leaf.is_leaf(), "the uses of leaves are counted");
        if let Some(uses) = self.leaves.get_mut(&leaf.range.low) {
            count(uses);
        } else if self.leaves.len() < MOST_USED {
            count(self.leaves.entry(leaf.range.low.clone()).or_default());
        }
        debug_assert!(self.leaves.len() <= MOST_USED, "a named maximum");
    }

    /// Returns how a leaf was used.
    pub(crate) fn of(&self, leaf: &Node) -> LeafUse {
        self.leaves.get(&leaf.range.low).copied().unwrap_or_default()
    }

    /// Whether a seek waded through what is deleted in a range.
    pub(crate) fn waded_in(&self, range: &KeyRange) -> bool {
        self.waded.iter().any(|key| range.contains(key))
    }
}

impl Usage {
    /// Notes that a scan begins in a leaf. A count may be lost when many do at once.
    pub(crate) fn note_scan(&self, leaf: &Node) {
        if let Some(mut leaves) = self.leaves.try_lock() {
            leaves.used(leaf, |uses| uses.scans += 1);
        }
    }

    /// Notes that a key was looked up. A few are counted, by their hashes, and a count may be lost
    /// when many do at once.
    #[inline]
    pub(crate) fn note_get(&self, version: &Version, key: Key<'_>) {
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

    /// Notes that a seek waded through what is deleted around this key.
    pub(crate) fn note_wading(&self, key: &[u8]) {
        let mut leaves = self.leaves.lock();
        if leaves.waded.len() < MOST_WADED {
            leaves.waded.push(key.into());
        }
        assert!(leaves.waded.len() <= MOST_WADED, "a named maximum");
    }

    /// Forgets what is known of a leaf with this range: it is rewritten.
    pub(crate) fn forget(&self, leaf: &KeyRange) {
        let mut leaves = self.leaves.lock();
        leaves.leaves.remove(&leaf.low);
        leaves.waded.retain(|key| !leaf.contains(key));
    }

    /// Returns what is known of leaves, locked.
    pub(crate) fn leaves(&self) -> MutexGuard<'_, LeafUses> {
        self.leaves.lock()
    }

    /// Returns how often lookups have asked maplets of the root's bundles without a digest, about.
    pub(crate) fn questions(&self) -> u64 {
        self.questions.load(Ordering::Relaxed)
    }

    /// Counts questions from 0 again: they have paid for a digest.
    pub(crate) fn answer_questions(&self) {
        self.questions.store(0, Ordering::Relaxed);
    }

    /// Bytes of memory that it takes, about.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let leaves = self.leaves.lock();
        let entries = leaves.leaves.len() + leaves.waded.len();
        (entries * (size_of::<(Box<[u8]>, LeafUse)>() + 32)) as u64
    }
}
