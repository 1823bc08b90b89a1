//! Leaf pages on the device, and the cache of leaves.

use super::format::{decode, encode};
use super::{InsertionCounters, LeafRecord};
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, Device};
use alluvium_storage::{DiskLocation, Error, OnDiskObject, Result};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The number of pages by which the file grows.
const GROWTH: u64 = 256;

/// The leaves of a tree.
#[derive(Debug)]
pub(super) struct LeafCache {
    device: Arc<dyn Device>,
    page_bytes: usize,
    id: u64,
    /// Number of leaves of the tree, cached or not.
    count: u32,
    /// The capacity of the cache in leaves.
    most: usize,
    memory: HashMap<u32, CachedLeaf>,
    /// The cached leaves in order of their last use.
    used: BTreeMap<u64, u32>,
    time: u64,
}

#[derive(Debug)]
struct CachedLeaf {
    records: Vec<LeafRecord>,
    is_dirty: bool,
    used: u64,
}

impl LeafCache {
    /// Creates the leaves with a single empty leaf, which is in memory until it is written.
    pub(super) fn new(device: Arc<dyn Device>, page_bytes: usize, most: usize, id: u64) -> LeafCache {
        let mut leaves = LeafCache {
            device,
            page_bytes,
            id,
            count: 0,
            most,
            memory: HashMap::new(),
            used: BTreeMap::new(),
            time: 0,
        };
        let first = leaves.add(Vec::new());
        assert_eq!(first, 0, "the first leaf has all keys");
        leaves
    }

    /// Adds a new leaf to the cache.
    pub(super) fn add(&mut self, records: Vec<LeafRecord>) -> u32 {
        let number = self.count;
        self.count = number.checked_add(1).expect("fewer than 2^32 leaves fit a file");
        self.insert_cached(number, records, true);
        number
    }

    fn insert_cached(&mut self, number: u32, records: Vec<LeafRecord>, is_dirty: bool) {
        self.time += 1;
        let used = self.time;
        let before = self.memory.insert(
            number,
            CachedLeaf {
                records,
                is_dirty,
                used,
            },
        );
        assert!(before.is_none(), "a leaf is in memory once");
        self.used.insert(used, number);
    }

    /// Returns whether a leaf is in memory.
    pub(super) fn has(&self, number: u32) -> bool {
        self.memory.contains_key(&number)
    }

    /// Returns the number of leaves.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Returns the records of a leaf in memory.
    pub(super) fn records(&self, number: u32) -> &[LeafRecord] {
        &self.memory.get(&number).expect("the leaf was loaded").records
    }

    /// Reads a leaf into memory if it is not cached, and marks it as most recently used.
    pub(super) fn load(
        &mut self,
        number: u32,
        purpose: Purpose,
        counts: &mut InsertionCounters,
    ) -> Result<()> {
        self.time += 1;
        let time = self.time;
        if let Some(held) = self.memory.get_mut(&number) {
            let was_used = self.used.remove(&held.used);
            assert_eq!(was_used, Some(number), "each leaf in memory has its time");
            held.used = time;
            self.used.insert(time, number);
            return Ok(());
        }
        let records = self.read(number, purpose)?;
        counts.reads += 1;
        self.insert_cached(number, records, false);
        Ok(())
    }

    /// Reads a leaf from the device.
    pub(super) fn read(&self, number: u32, purpose: Purpose) -> Result<Vec<LeafRecord>> {
        let offset = self.offset(number);
        let page = self.device.read_at(offset, self.page_bytes, purpose)?;
        decode(&page, self.id, u64::from(number), &self.place(number))
    }

    /// Returns the location of a leaf for error messages.
    pub(super) fn place(&self, number: u32) -> DiskLocation {
        DiskLocation::new(OnDiskObject::Node, self.device.name(), self.offset(number))
    }

    fn offset(&self, number: u32) -> u64 {
        u64::from(number) * self.page_bytes as u64
    }

    /// Removes the records of a cached leaf for modification.
    pub(super) fn take(&mut self, number: u32) -> Vec<LeafRecord> {
        let held = self.memory.get_mut(&number).expect("the leaf was loaded");
        held.is_dirty = true;
        std::mem::take(&mut held.records)
    }

    /// Puts modified records back into a cached leaf.
    pub(super) fn put(&mut self, number: u32, records: Vec<LeafRecord>) {
        let held = self.memory.get_mut(&number).expect("the leaf was loaded");
        assert!(held.is_dirty && held.records.is_empty(), "its records were taken");
        held.records = records;
    }

    /// Evicts the least recently used leaves until the cache is within its capacity. A leaf whose
    /// write failed stays in memory.
    pub(super) fn trim(&mut self, counts: &mut InsertionCounters) -> Result<()> {
        while self.memory.len() > self.most {
            let oldest = self.used.first_key_value().map(|(_, number)| *number);
            self.evict(oldest.expect("each leaf in memory has its time"), counts)?;
        }
        Ok(())
    }

    /// Writes a leaf if it is dirty (IB4).
    fn clean(&mut self, number: u32, counts: &mut InsertionCounters) -> Result<()> {
        let held = self.memory.get(&number).expect("the leaf is in memory");
        if !held.is_dirty {
            return Ok(());
        }
        let mut page = AlignedBuffer::zeroed(self.page_bytes);
        encode(&held.records, self.id, u64::from(number), &mut page);
        let offset = self.offset(number);
        let end = offset + self.page_bytes as u64;
        if end > self.device.len() {
            let len = (u64::from(number) + 1).next_multiple_of(GROWTH) * self.page_bytes as u64;
            self.device.grow(len)?;
        }
        self.device.write_at(offset, page, Purpose::Compact)?;
        counts.writes += 1;
        self.memory
            .get_mut(&number)
            .expect("the leaf is in memory")
            .is_dirty = false;
        Ok(())
    }

    fn evict(&mut self, number: u32, counts: &mut InsertionCounters) -> Result<()> {
        self.clean(number, counts)?;
        let held = self.memory.remove(&number).expect("the leaf is in memory");
        let was_used = self.used.remove(&held.used);
        assert_eq!(was_used, Some(number), "each leaf in memory has its time");
        Ok(())
    }

    /// Writes all dirty leaves, in the order of their numbers.
    pub(super) fn write_all(&mut self, counts: &mut InsertionCounters) -> Result<()> {
        let mut all: Vec<u32> = self.memory.keys().copied().collect();
        all.sort_unstable();
        all.into_iter().try_for_each(|number| self.clean(number, counts))
    }

    /// Returns the clean leaves in memory that differ from the leaf on the device.
    pub(super) fn stale(&self) -> Vec<Error> {
        let clean = self.memory.iter().filter(|(_, held)| !held.is_dirty);
        let stale = clean.filter_map(|(&number, held)| match self.read(number, Purpose::Check) {
            Ok(records) if records == held.records => None,
            Ok(records) => {
                let found = format!("{} others", records.len());
                let expected = format!("the {} records in memory", held.records.len());
                Some(Error::corrupt(self.place(number), expected, found))
            }
            Err(error) => Some(error),
        });
        stale.collect()
    }
}
