//! A B-tree with an insertion buffer in front of its leaves, as in InnoDB and other stores
//! (Conway §5).
//!
//! Records wait in memory until the buffer is full. Then a policy chooses a leaf, and all records
//! that wait for it are written there with one page read and one page write. The number of
//! records per flush is the *rate*, the factor by which the buffer reduces I/O.
//!
//! The tree exists for measurements and is not a store: only leaves are on the device, and they
//! cannot be reopened. The buffer and the assignment of keys to leaves are lost when the process
//! ends. Leaves emptied by deletes are not removed.
//!
//! *Scope*: buffered records, leaves in pages, the cache of leaves, and the count of every page
//! read and written.
//!
//! *Must not depend on*: logs, checkpoints, threads; how keys are distributed.
//!
//! Invariants:
//!
//! - **IB1** A leaf covers the keys from its fence up to the next; the first fence is the empty
//!   key.
//! - **IB2** A buffered change for a key is newer than the key's record in its leaf.
//! - **IB3** With absorption no change is buffered for a leaf that is in memory.
//! - **IB4** A clean leaf in memory equals the leaf on the device.

mod change_buffer;
mod check;
mod flush;
pub mod format;
mod leaf_cache;
mod policy;
#[cfg(test)]
mod tests;

pub use policy::FlushPolicy;

use alluvium_base::Purpose;
use alluvium_device::Device;
use alluvium_model::SplitMix64;
use alluvium_storage::{Error, Result};
use change_buffer::ChangeBuffer;
use leaf_cache::LeafCache;
use policy::FullestLeafIndex;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// A key and its value.
pub type LeafRecord = (Box<[u8]>, Box<[u8]>);

/// Whether cached leaves absorb records that would otherwise be buffered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbsorptionMode {
    /// All records go through the buffer.
    Off,
    /// Records for a cached leaf go to the leaf directly, and a leaf that is read absorbs the
    /// buffered changes for it.
    On,
}

/// The options of a tree.
#[derive(Clone, Copy, Debug)]
pub struct InsertionOptions {
    /// The size of a leaf's page in bytes.
    pub page_bytes: u32,
    /// The maximum number of records in a leaf; fewer if the page is full earlier.
    pub leaf_records: usize,
    /// The capacity of the buffer in records. A full buffer causes a flush.
    pub waiting_records: usize,
    /// How the leaf to flush is chosen.
    pub policy: FlushPolicy,
    /// Whether cached leaves absorb records.
    pub absorption: AbsorptionMode,
    /// The capacity of the leaf cache (LRU), in leaves.
    pub leaves_in_memory: usize,
    /// The seed of random choices.
    pub seed: u64,
}

/// The counters of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InsertionCounters {
    /// The number of puts and deletes.
    pub changes: u64,
    /// The number of leaf reads.
    pub reads: u64,
    /// The number of leaf writes.
    pub writes: u64,
    /// The number of times a policy chose a leaf.
    pub flushes: u64,
    /// The number of records written by those flushes.
    pub flushed: u64,
    /// The number of records absorbed by cached leaves without a flush.
    pub absorbed: u64,
}

impl InsertionCounters {
    /// Returns the mean number of records per flush; 0 if there was no flush.
    #[must_use]
    pub fn rate(&self) -> f64 {
        if self.flushes == 0 {
            return 0.0;
        }
        self.flushed as f64 / self.flushes as f64
    }

    /// Returns what was counted since.
    #[must_use]
    pub fn since(&self, before: &InsertionCounters) -> InsertionCounters {
        debug_assert!(before.changes <= self.changes, "what was counted before");
        InsertionCounters {
            changes: self.changes - before.changes,
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            flushes: self.flushes - before.flushes,
            flushed: self.flushed - before.flushed,
            absorbed: self.absorbed - before.absorbed,
        }
    }
}

/// A B-tree with an insertion buffer in front of its leaves.
///
/// ```
/// use alluvium_device::{Directory, FileOptions, memory::MemoryDirectory};
/// use research_trees::insertion::{AbsorptionMode, InsertionOptions, FlushPolicy, InsertionTree};
/// let file = MemoryDirectory::new().create("leaves", FileOptions::DIRECT)?;
/// let mut tree = InsertionTree::new(file, InsertionOptions {
///     page_bytes: 4096,
///     leaf_records: 160,
///     waiting_records: 100,
///     policy: FlushPolicy::GoldenGate,
///     absorption: AbsorptionMode::Off,
///     leaves_in_memory: 0,
///     seed: 1,
/// })?;
/// for key in 0..1000_u32 {
///     tree.put(&key.wrapping_mul(0x9E37_79B9).to_be_bytes(), b"value")?;
/// }
/// assert_eq!(tree.get(&0x9E37_79B9_u32.to_be_bytes())?.as_deref(), Some(&b"value"[..]));
/// assert!(tree.counts().rate() > 10.0, "a flush takes many records while there are few leaves");
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
#[derive(Debug)]
pub struct InsertionTree {
    options: InsertionOptions,
    leaves: LeafCache,
    /// The smallest key of each leaf (IB1) and the leaf's number, in key order.
    fences: BTreeMap<Box<[u8]>, u32>,
    /// The smallest key of each leaf, by leaf number.
    fence_of: Vec<Box<[u8]>>,
    waiting: ChangeBuffer,
    /// The number of buffered changes per leaf, if the policy needs it.
    fullest: Option<FullestLeafIndex>,
    /// The end of the last flushed leaf; `None` for the end of the key space.
    next_flush_key: Option<Box<[u8]>>,
    random: SplitMix64,
    counts: InsertionCounters,
}

impl InsertionTree {
    /// Creates an empty tree in an empty file.
    ///
    /// # Errors
    /// [`Error::BadOption`] unless pages are 512 bytes to 1 MiB in steps of 512, leaves hold at
    /// least two records, the buffer has capacity if there is a policy, and the file is empty.
    pub fn new(device: Arc<dyn Device>, options: InsertionOptions) -> Result<InsertionTree> {
        let refuse = |option, why: String| Err(Error::BadOption { option, why });
        let page = options.page_bytes;
        if page == 0 || !page.is_multiple_of(alluvium_device::BLOCK as u32) || page > 1 << 20 {
            let why = format!("pages of {page} bytes; take a multiple of 512, up to 1 MiB");
            return refuse("page_bytes", why);
        }
        if options.leaf_records < 2 {
            let why = format!("leaves of {} records; take at least 2", options.leaf_records);
            return refuse("leaf_records", why);
        }
        if (options.waiting_records == 0) != (options.policy == FlushPolicy::None) {
            let why = format!(
                "{} records wait, with the policy {:?}; a buffer has both or neither",
                options.waiting_records, options.policy
            );
            return refuse("waiting_records", why);
        }
        if !device.is_empty() {
            let why = format!("{} has {} bytes; name an empty file", device.name(), device.len());
            return refuse("file", why);
        }
        Ok(InsertionTree {
            options,
            leaves: LeafCache::new(device, page as usize, options.leaves_in_memory, options.seed),
            fences: BTreeMap::from([(Box::default(), 0)]),
            fence_of: vec![Box::default()],
            waiting: ChangeBuffer::default(),
            fullest: (options.policy == FlushPolicy::FullestBin).then(FullestLeafIndex::default),
            next_flush_key: None,
            random: SplitMix64::from_seed(options.seed),
            counts: InsertionCounters::default(),
        })
    }

    /// Inserts a record, replacing one with the same key.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the record is longer than a page; [`Error::Corrupt`] with the
    /// location; or I/O errors. After either of the last two the record is in the buffer, no data
    /// is lost, and later changes retry the failed flush.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if !format::fits(key, value, self.options.page_bytes as usize) {
            let why = format!(
                "a key of {} bytes with a value of {} does not fit a page of {}: take larger pages",
                key.len(),
                value.len(),
                self.options.page_bytes
            );
            return Err(Error::BadOption {
                option: "record",
                why,
            });
        }
        self.change(key, Some(value.into()))
    }

    /// Deletes a key, if it exists.
    ///
    /// # Errors
    /// The errors of [`put`](InsertionTree::put).
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.change(key, None)
    }

    fn change(&mut self, key: &[u8], value: Option<Box<[u8]>>) -> Result<()> {
        self.counts.changes += 1;
        let leaf = self.leaf_of(key);
        if self.options.policy == FlushPolicy::None {
            return self.apply(leaf, (key.into(), value));
        }
        if self.options.absorption == AbsorptionMode::On && self.leaves.has(leaf) {
            self.counts.absorbed += 1;
            return self.apply(leaf, (key.into(), value));
        }
        if self.waiting.put(key, value)
            && let Some(fullest) = &mut self.fullest
        {
            fullest.add(leaf);
        }
        while self.waiting.len() >= self.options.waiting_records {
            self.flush()?;
        }
        assert!(
            self.waiting.len() < self.options.waiting_records,
            "a flush takes something"
        );
        Ok(())
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the location, or I/O errors.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Box<[u8]>>> {
        if let Some((_, value)) = self.waiting.get(key) {
            // IB2
            return Ok(value.clone());
        }
        let leaf = self.leaf_of(key);
        self.leaves.load(leaf, Purpose::Lookup, &mut self.counts)?;
        let records = self.leaves.records(leaf);
        let at = records.binary_search_by(|(found, _)| (**found).cmp(key));
        let value = at.ok().map(|at| records[at].1.clone());
        self.absorb(leaf);
        self.leaves.trim(&mut self.counts)?;
        Ok(value)
    }

    /// Returns up to `most` records, starting at a key.
    ///
    /// # Errors
    /// The errors of [`get`](InsertionTree::get).
    pub fn scan(&mut self, from: &[u8], most: usize) -> Result<Vec<LeafRecord>> {
        let mut found: Vec<LeafRecord> = Vec::new();
        let mut at: Box<[u8]> = from.into();
        while found.len() < most {
            let (leaf, end) = (self.leaf_of(&at), self.end_of(&at));
            self.leaves.load(leaf, Purpose::Scan, &mut self.counts)?;
            let records = self.leaves.records(leaf);
            let start = records.partition_point(|(key, _)| **key < *at);
            let mut records = records[start..].to_vec();
            flush::merge(&mut records, self.waiting.range(&at, end.as_deref()));
            found.extend(records);
            self.absorb(leaf);
            self.leaves.trim(&mut self.counts)?;
            match end {
                Some(end) => at = end,
                None => break,
            }
        }
        found.truncate(most);
        Ok(found)
    }

    /// Flushes all buffered changes to their leaves, and writes all dirty leaves.
    ///
    /// # Errors
    /// The errors of [`put`](InsertionTree::put).
    pub fn flush_all(&mut self) -> Result<()> {
        while let Some(key) = self.waiting.at_or_after(&[]) {
            let key: Box<[u8]> = key.into();
            self.flush_leaf_of(&key)?;
        }
        self.leaves.write_all(&mut self.counts)
    }

    #[must_use]
    pub fn counts(&self) -> InsertionCounters {
        self.counts
    }

    /// Returns the number of leaves.
    #[must_use]
    pub fn leaves(&self) -> usize {
        self.fences.len()
    }

    /// Returns the number of buffered changes.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the smallest key of each leaf in key order; the first is empty (IB1).
    pub fn fences(&self) -> impl Iterator<Item = &[u8]> {
        self.fences.keys().map(|fence| &**fence)
    }

    /// Returns the leaf that covers a key.
    fn leaf_of(&self, key: &[u8]) -> u32 {
        let up_to = (Bound::Unbounded, Bound::Included(key));
        let before = self.fences.range::<[u8], _>(up_to).next_back();
        *before.expect("IB1: the first fence is before all keys").1
    }

    /// Returns the end of the leaf that covers a key.
    fn end_of(&self, key: &[u8]) -> Option<Box<[u8]>> {
        let above = (Bound::Excluded(key), Bound::Unbounded);
        let next = self.fences.range::<[u8], _>(above).next();
        next.map(|(fence, _)| fence.clone())
    }

    /// Reads every leaf, and returns the violations found.
    #[must_use]
    pub fn check(&self) -> Vec<Error> {
        check::check(self)
    }
}
