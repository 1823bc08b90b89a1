//! What a tree is about to cost: memory now, work that is due, space and records of a range. All of
//! it from totals and sums that are kept anyway; no leaf is read.

use super::maintain::longest_path;
use super::node::{Node, Part};
use super::tree::Tree;
use crate::run::{Depth, Weight};
use alluvium_base::{DeviceProfile, Purpose};
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::{Guard, Result};
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Compactions that are due or under way: what writes have put off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debt {
    /// Compactions that were not begun.
    pub pending_jobs: u64,
    /// About how many bytes they will read.
    pub pending_bytes: u64,
    /// Compactions under way.
    pub running_jobs: u64,
    /// About how many bytes they read in all.
    pub running_bytes: u64,
}

impl Debt {
    /// Returns what is due and what is under way.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pending_bytes + self.running_bytes
    }
}

/// Totals that a change of the trunk leaves for readers.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) trunk: AtomicU64,
    pub(super) runs: AtomicU64,
    pub(super) maplets: AtomicU64,
    pub(super) compactions: AtomicU64,
    pub(super) digest: AtomicU64,
    pub(super) digesting: AtomicU64,
    pub(super) tables: AtomicU64,
    /// Compactions that are due or under way.
    pub(super) due: AtomicU64,
    /// How many runs lie on the longest path, in hundredths of what there should be at most.
    pub(super) crowding: AtomicU64,
}

/// A buffer of a run that a compaction reads, and those for what it writes.
const READING: u64 = 256 << 10;
const WRITING: u64 = 5 << 20;
/// What a range delete takes while the deletes of several runs are put together, and in the run
/// that is made.
const DELETE: u64 = 64;

/// Returns the memory of a compaction of `runs` runs with this many records and range deletes, on a
/// device.
pub(super) fn compaction_bytes(device: &DeviceProfile, runs: usize, records: u64, deletes: u64) -> u64 {
    let windows = Depth::of(device).windows;
    (runs * windows) as u64 * READING + WRITING + records * size_of::<u64>() as u64 + deletes * DELETE
}

impl Tree {
    /// The memory it takes now. Costs a few loads, so it may be asked as often as one likes.
    ///
    /// ```
    /// # use alluvium_device::memory::MemoryDirectory;
    /// # use alluvium_storage::store::{Store, StoreOptions};
    /// # use alluvium_trees::tiered::{Tree, TreeOptions};
    /// # use std::sync::Arc;
    /// # let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
    /// # let tree = Tree::create(Arc::new(store), TreeOptions::default());
    /// assert!(tree.memory().total() < 4096); // an empty tree
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    #[must_use]
    pub fn memory(&self) -> Memory {
        let totals = &self.shared.totals;
        let read = |total: &AtomicU64| total.load(Ordering::Relaxed);
        Memory {
            trunk: read(&totals.trunk),
            runs: read(&totals.runs),
            maplets: read(&totals.maplets),
            compactions: read(&totals.compactions),
            digest: read(&totals.digest) + read(&totals.digesting),
            tables: read(&totals.tables) + self.shared.habits.lock().memory_bytes(),
        }
    }

    /// Returns what is due. Costs no more than taking the trunk's lock.
    #[must_use]
    pub fn debt(&self) -> Debt {
        self.lock().inflight.debt()
    }

    /// Returns how many compactions are due or under way, as the last change has left it. Costs a
    /// load, so every writer may ask.
    #[must_use]
    pub fn due(&self) -> usize {
        self.shared.totals.due.load(Ordering::Relaxed) as usize
    }

    /// Returns how many runs lie on the longest path from the root to a leaf, in hundredths of what
    /// a tree of its height should have at most: above 100, compactions do not keep up. As the last
    /// change has left it; costs a load, so every writer may ask.
    #[must_use]
    pub fn crowding(&self) -> u64 {
        self.shared.totals.crowding.load(Ordering::Relaxed)
    }

    /// `root` is the root from now on: how crowded it is.
    pub(super) fn note_crowding(&self, root: &Node) -> u64 {
        let levels = u64::from(root.height) + 1;
        let most = levels * self.shared.options.shape.most_runs() as u64;
        let crowding = 100 * longest_path(root).0 as u64 / most;
        self.shared.totals.crowding.store(crowding, Ordering::Relaxed);
        crowding
    }

    /// Returns about how much there is of a range: bytes, records and deletes among them, older
    /// versions included. Exact but for a leaf's worth at each end of each run; only index nodes
    /// are read.
    ///
    /// # Errors
    /// As the device says, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
    pub fn weigh(&self, range: &KeyRange) -> Result<Weight> {
        let guard = self.shared.store.epochs().pin();
        let version = self.peek();
        let mut sum = Weight::default();
        self.add_up(&version.root, range, &guard, &mut |_, weight| sum = sum + weight)?;
        Ok(sum)
    }

    /// Returns about how many bytes a range takes on disk, its share of maplets included.
    ///
    /// # Errors
    /// As [`Tree::weigh`].
    pub fn size_on_disk(&self, range: &KeyRange) -> Result<u64> {
        let guard = self.shared.store.epochs().pin();
        let version = self.peek();
        let mut bytes = 0;
        self.add_up(&version.root, range, &guard, &mut |part, weight| {
            let maplet = &part.group.maplet;
            let share = u128::from(maplet.bytes()) * u128::from(weight.records);
            bytes += weight.bytes + (share / u128::from(maplet.entries().max(1))) as u64;
        })?;
        Ok(bytes)
    }

    /// Returns about how many keys a range has: records that are no deletes. A key of which several
    /// versions or merges are left counts several times.
    ///
    /// # Errors
    /// As [`Tree::weigh`].
    pub fn approximate_len(&self, range: &KeyRange) -> Result<u64> {
        let weight = self.weigh(range)?;
        Ok(weight.records.saturating_sub(weight.tombstones))
    }

    /// Tells the weight of each part of each stack that a range has a share of.
    fn add_up(
        &self,
        node: &Node,
        range: &KeyRange,
        guard: &Guard,
        tell: &mut dyn FnMut(&Part, Weight),
    ) -> Result<()> {
        for index in node.pivot_for(&range.low)..node.pivots.len() {
            let pivot = node.pivot_range(index);
            let common = pivot.intersect(range);
            if range.ends_before(&pivot.low) || common.is_empty() {
                break;
            }
            for layer in node.stack(index) {
                let weight = if common == pivot {
                    layer.weight
                } else {
                    layer
                        .part
                        .weigh(&common, self.store().cache(), guard, Purpose::Other)?
                };
                tell(layer.part, weight);
            }
            if let Some(child) = &node.pivots[index].child {
                self.add_up(child, &common, guard, tell)?;
            }
        }
        Ok(())
    }
}
