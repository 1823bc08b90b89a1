//! The miniature store: a map that logs its commits and writes its pages at checkpoints.
//!
//! A root node names the leaves; both are immutable. A checkpoint writes the changed leaves and
//! then a root, sequentially into new extents. Every node holds one reference to its extent. A read
//! searches the memtable, which has the commits since the last checkpoint, and then the leaf,
//! through the cache.

use super::bytes::{Placed, decode_pairs, decode_payload, decode_root, encode_pairs};
use super::flaw::Flaw;
use alluvium_base::Purpose;
use alluvium_sim::{Coverage, ModelWrite, PromisedDurability, StoreContents, StoryError};
use alluvium_storage::extents::Extent;
use alluvium_storage::node::read_node;
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_storage::{EpochHold, NodePointer, Result, TierDirectories, log};
use std::collections::{BTreeMap, BTreeSet};

/// The tree at one moment: where its root is, and the leaves with their first keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) root: Option<Placed>,
    pub(crate) leaves: Vec<(Vec<u8>, Placed)>,
    /// Extents without data, which are allocated and released to make the file grow and shrink.
    pub(crate) ballast: Vec<Extent>,
}

/// A tree that a reader is still using, regardless of later writes.
pub(crate) struct Snapshot {
    _hold: EpochHold,
    tree: Tree,
    hash: u64,
}

pub(crate) struct Mini {
    pub(crate) store: Store,
    pub(crate) tree: Tree,
    pub(crate) memtable: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Sequence number of the next write.
    pub(crate) next: u64,
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) flaw: Flaw,
    /// Units that were ever released, by which their reuse is detected.
    pub(crate) released: BTreeSet<(u8, u32)>,
    /// Sequence numbers that were assigned but neither appended nor voided yet.
    open: Option<(u64, u32)>,
    /// Lower bound of the number of log segments begun since the store was opened.
    begun: usize,
}

/// Number of lanes of the log.
pub(crate) const LANES: usize = 3;

fn word(durability: PromisedDurability) -> log::LogDurability {
    match durability {
        PromisedDurability::Memory => log::LogDurability::Memory,
        PromisedDurability::Process => log::LogDurability::Process,
        PromisedDurability::Disk => log::LogDurability::Disk,
    }
}

impl Mini {
    pub(crate) fn create(directories: TierDirectories, options: &StoreOptions, flaw: Flaw) -> Result<Mini> {
        let store = Store::create(directories, options, b"")?;
        Ok(Self::assemble(store, BTreeMap::new(), 1, flaw))
    }

    fn assemble(store: Store, memtable: BTreeMap<Vec<u8>, Option<Vec<u8>>>, next: u64, flaw: Flaw) -> Mini {
        Mini {
            store,
            tree: Tree::default(),
            memtable,
            next,
            snapshots: Vec::new(),
            flaw,
            released: BTreeSet::new(),
            open: None,
            begun: 0,
        }
    }

    /// Reads the superblock, the log from the cut, and the root. Leaves are read on demand.
    pub(crate) fn open(directories: TierDirectories, options: &StoreOptions, flaw: Flaw) -> Result<Mini> {
        let opening = Store::open(directories, options)?;
        let superblock = opening.superblock().clone();
        let mut memtable = BTreeMap::new();
        let mut last = superblock.cut;
        let store = opening.replay(&mut |record| {
            let place = superblock_place();
            let pairs = decode_pairs(record.payload, &place)?;
            last = record.first + u64::from(record.count) - 1;
            if flaw != Flaw::ReplaysOneLess || record.first > superblock.cut + 1 {
                memtable.extend(pairs);
            }
            Ok(())
        })?;
        let next = store.log().completed().max(last) + 1;
        let mut mini = Self::assemble(store, memtable, next, flaw);
        if let Some(root) = decode_payload(&superblock.payload, superblock.page_size)? {
            let place = root.pointer.place();
            let bytes = mini.read(&root.pointer, Purpose::Recovery)?;
            let (leaves, ballast) = decode_root(&bytes, &place, superblock.page_size)?;
            mini.tree = Tree {
                root: Some(root),
                leaves,
                ballast,
            };
        }
        Ok(mini)
    }

    pub(crate) fn read(&self, pointer: &NodePointer, purpose: Purpose) -> Result<Vec<u8>> {
        let guard = self.store.epochs().pin();
        Ok(self.store.cache().get(pointer, &guard, purpose)?.to_vec())
    }

    /// Reads from the device, bypassing the cache.
    fn read_uncached(&self, pointer: &NodePointer) -> Result<Vec<u8>> {
        read_node(self.store.tiers(), pointer, self.store.page_size(), Purpose::Scan)
    }

    /// Returns the last committed sequence number.
    pub(crate) fn last(&self) -> u64 {
        self.next - 1
    }

    /// Appends one record per commit, with one sequence number per write.
    pub(crate) fn commit(&mut self, writes: &[ModelWrite], durability: PromisedDurability) -> Result<()> {
        let durability = match self.flaw {
            Flaw::AcknowledgesEarly if durability == PromisedDurability::Disk => PromisedDurability::Process,
            _ => durability,
        };
        let first = self.next;
        if self.flaw == Flaw::SplitsBatches {
            for (at, write) in writes.iter().enumerate() {
                self.append(first + at as u64, std::slice::from_ref(write), durability)?;
            }
        } else {
            self.append(first, writes, durability)?;
        }
        self.next = first + writes.len() as u64;
        self.memtable.extend(
            writes
                .iter()
                .map(|write| (write.key.clone(), write.value.clone())),
        );
        Ok(())
    }

    /// Counts the segments that a commit has begun. `before` is the number of live ones before the
    /// commit. If more segments were begun than there ever were files, a file was reused.
    pub(crate) fn count_segments(&mut self, before: usize, coverage: &Coverage) {
        let usage = self.store.log().usage();
        let begun = usage.segments.saturating_sub(before);
        let files = usage.segments + usage.ready_slots + usage.free_slots + usage.punched_slots;
        let again = |begun: usize| begun.saturating_sub(files) as u64;
        coverage.add("log wrap", again(self.begun + begun) - again(self.begun));
        self.begun += begun;
    }

    /// Voids the sequence numbers that did not fit, so that no commit waits for them. Call this
    /// before any other operation.
    pub(crate) fn settle(&mut self) -> Result<()> {
        self.store.health()?;
        if let Some((first, count)) = self.open {
            let result = self.store.log().void(first, count);
            self.store.poison_on_error(result)?;
            self.open = None;
        }
        Ok(())
    }

    /// Performs two concurrent commits and writes the later one first, as threads may. Returns
    /// whether each of them is in effect.
    pub(crate) fn commit_two(
        &mut self,
        writes: [&[ModelWrite]; 2],
        durability: PromisedDurability,
    ) -> Result<[bool; 2]> {
        let first = self.next;
        let second = first + writes[0].len() as u64;
        match self.append(second, writes[1], durability) {
            Err(error) if error.is_full() => return Ok([false; 2]),
            result => result?,
        }
        self.next = second + writes[1].len() as u64;
        let held = match self.append(first, writes[0], durability) {
            Err(error) if error.is_full() => {
                // The later commit is acknowledged only after the earlier one is voided.
                self.open = Some((first, writes[0].len() as u32));
                match self.settle() {
                    Err(error) if error.is_full() => {}
                    result => result?,
                }
                false
            }
            result => result.map(|()| true)?,
        };
        let told = self.open.is_none();
        let applied = writes[usize::from(!held)..].iter().copied().flatten();
        self.memtable
            .extend(applied.map(|write| (write.key.clone(), write.value.clone())));
        Ok([held, told])
    }

    fn append(&self, first: u64, writes: &[ModelWrite], durability: PromisedDurability) -> Result<()> {
        let pairs = writes
            .iter()
            .map(|write| (&write.key[..], write.value.as_deref()));
        let record = encode_pairs(pairs);
        // Let one thread act as several writers.
        log::write_as(first as usize % LANES);
        let result = self
            .store
            .log()
            .append(first, writes.len() as u32, &record, word(durability));
        self.store.poison_on_error(result)
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(value) = self.memtable.get(key) {
            return Ok(value.clone());
        }
        let at = self.tree.leaves.partition_point(|(first, _)| &first[..] <= key);
        let Some((_, leaf)) = at.checked_sub(1).and_then(|at| self.tree.leaves.get(at)) else {
            return Ok(None);
        };
        let pairs = decode_pairs(&self.read(&leaf.pointer, Purpose::Lookup)?, &leaf.pointer.place())?;
        Ok(pairs
            .into_iter()
            .find(|(found, _)| found == key)
            .and_then(|(_, value)| value))
    }

    /// Returns all pairs of a tree and of the memtable above it.
    fn scan(
        &self,
        tree: &Tree,
        memtable: &BTreeMap<Vec<u8>, Option<Vec<u8>>>,
        read: impl Fn(&NodePointer) -> Result<Vec<u8>>,
    ) -> std::result::Result<StoreContents, StoryError> {
        let mut contents = StoreContents::new();
        let twice = |key: Vec<u8>| StoryError::wrong(format!("{} appears twice", key.escape_ascii()));
        let mut last: Option<Vec<u8>> = None;
        for (_, leaf) in &tree.leaves {
            let bytes = read(&leaf.pointer).map_err(super::trouble)?;
            let pairs = decode_pairs(&bytes, &leaf.pointer.place()).map_err(super::trouble)?;
            for (key, value) in pairs {
                if last.as_ref().is_some_and(|last| *last >= key) {
                    return Err(StoryError::wrong(format!(
                        "{} is out of order",
                        key.escape_ascii()
                    )));
                }
                if let (false, Some(value)) = (memtable.contains_key(&key), &value) {
                    contents.add(&key, value).map_err(twice)?;
                }
                last = Some(key);
            }
        }
        for (key, value) in memtable {
            if let Some(value) = value {
                contents.add(key, value).map_err(twice)?;
            }
        }
        Ok(contents)
    }

    pub(crate) fn contents(&self) -> std::result::Result<StoreContents, StoryError> {
        self.scan(&self.tree, &self.memtable, |pointer| {
            self.read(pointer, Purpose::Scan)
        })
    }

    /// Begins or ends a read of the current tree. The tree must be unchanged at the end, even if
    /// space was freed meanwhile.
    pub(crate) fn toggle_snapshot(&mut self) -> std::result::Result<bool, StoryError> {
        if self.snapshots.is_empty() {
            let hash = self
                .scan(&self.tree, &BTreeMap::new(), |pointer| {
                    self.read_uncached(pointer)
                })?
                .hash();
            let hold = self.store.epochs().hold();
            self.snapshots.push(Snapshot {
                _hold: hold,
                tree: self.tree.clone(),
                hash,
            });
            return Ok(false);
        }
        let snapshot = self.snapshots.remove(0);
        let now = self.scan(&snapshot.tree, &BTreeMap::new(), |pointer| {
            self.read_uncached(pointer)
        });
        match now {
            Ok(found) if found.hash() == snapshot.hash => Ok(true),
            Ok(_) => Err(StoryError::wrong(
                "a snapshot reads otherwise than when it was taken",
            )),
            Err(trouble) => Err(StoryError::wrong(format!(
                "a snapshot cannot be read any more: {trouble}"
            ))),
        }
    }

    /// Returns every extent reachable from the tree, with its number of references.
    pub(crate) fn reachable(&self) -> BTreeMap<Extent, u32> {
        let mut reachable = BTreeMap::new();
        for placed in self
            .tree
            .leaves
            .iter()
            .map(|(_, leaf)| leaf)
            .chain(&self.tree.root)
        {
            *reachable.entry(placed.extent).or_default() += 1;
        }
        for extent in &self.tree.ballast {
            *reachable.entry(*extent).or_default() += 1;
        }
        reachable
    }
}

fn superblock_place() -> alluvium_storage::DiskLocation {
    alluvium_storage::DiskLocation::new(alluvium_storage::OnDiskObject::LogRecord, "log", 0)
}
