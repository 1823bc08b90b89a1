//! An in-memory filter of the keys that may have collections. A SET of any other key has no
//! elements to delete, so it need not read the old value (S8).
//!
//! Each collection has a mark in the store, which contains the hash of the collection's key and is
//! written and deleted together with the collection. Opening the store loads all marks into hash
//! tables of 32-bit hashes; every later commit updates both the marks and the tables. A key may
//! have a collection if its hash is in the table. With n collections in the table, one in 2³² / n
//! of the other keys is a false positive and costs a read. A table entry occupies 5 to 8 bytes. If
//! adding a mark makes the tables exceed their share of the memory, the tables of the mark's
//! database are freed. From then on, every key of this database is treated as if it had a
//! collection.

use super::DATABASES;
use super::model::format;
use alluvium::{Keyspace, Result};
use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

/// Number of table shards per database. With shards, readers wait only for writers of the same
/// shard.
const SHARDS: usize = 16;

/// Minimum capacity of a non-empty table, in slots.
const LEAST: usize = 16;

/// A multiset of hashes in an open-addressing hash table with linear probing. A slot with the value
/// 0 is empty.
#[derive(Debug, Default)]
struct HashMultiset {
    slots: Vec<u32>,
    used: usize,
}

impl HashMultiset {
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.slots.len() as u64) >> 32) as usize
    }

    fn behind(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    /// Returns the forward distance between two slots, wrapping around at the end of the table.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from {
            to - from
        } else {
            to + self.slots.len() - from
        }
    }

    /// Returns a slot that contains a hash, or `None` if there is none.
    fn find(&self, hash: u32) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.home(hash);
        while self.slots[at] != 0 {
            if self.slots[at] == hash {
                return Some(at);
            }
            at = self.behind(at);
        }
        None
    }

    fn place(&mut self, hash: u32) {
        let mut at = self.home(hash);
        while self.slots[at] != 0 {
            at = self.behind(at);
        }
        self.slots[at] = hash;
    }

    /// Inserts one occurrence of a hash. Returns the number of bytes by which the table has grown.
    fn insert(&mut self, hash: u32) -> usize {
        let before = self.slots.len();
        if (self.used + 1) * 5 > before * 4 {
            let larger = vec![0; LEAST.max(before + before / 2)];
            for hash in std::mem::replace(&mut self.slots, larger) {
                if hash != 0 {
                    self.place(hash);
                }
            }
        }
        self.place(hash);
        self.used += 1;
        (self.slots.len() - before) * size_of::<u32>()
    }

    /// Removes one occurrence of a hash. Does nothing if the table does not contain it.
    fn remove(&mut self, hash: u32) {
        let Some(mut hole) = self.find(hash) else {
            return;
        };
        self.used -= 1;
        // Move later entries of the same probe sequence back into the hole, so that no empty slot
        // separates an entry from its home slot.
        let mut at = self.behind(hole);
        while self.slots[at] != 0 {
            let home = self.home(self.slots[at]);
            if self.distance(home, at) >= self.distance(hole, at) {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
            at = self.behind(at);
        }
        self.slots[hole] = 0;
    }
}

/// The filter of one database.
#[derive(Debug, Default)]
struct DatabaseFilter {
    count: AtomicI64,
    /// Whether this database's tables were freed because all tables together exceeded the memory
    /// limit.
    is_over: AtomicBool,
    shards: [RwLock<HashMultiset>; SHARDS],
}

/// Answers for each key, identified by its hash, whether the key may have a collection.
#[derive(Debug)]
pub(crate) struct CollectionFilter {
    databases: [DatabaseFilter; DATABASES as usize],
    /// The current and the maximum size of all tables together, in bytes.
    bytes: AtomicUsize,
    most: usize,
}

/// Splits a key's hash into the shard index and the 32-bit value stored in the shard.
fn split(hash: u64) -> (usize, u32) {
    (hash as usize % SHARDS, ((hash >> 32) as u32).max(1))
}

impl CollectionFilter {
    pub(super) fn new(most: usize) -> CollectionFilter {
        CollectionFilter {
            databases: Default::default(),
            bytes: AtomicUsize::new(0),
            most,
        }
    }

    /// Fills the filter with the marks in the store.
    pub(super) fn load(&self, data: &Keyspace) -> Result<()> {
        for database in 0..DATABASES {
            let (start, end) = format::collections(database);
            let mut notes = data.range(&start[..]..&end[..]);
            while let Some((_, value)) = notes.lend()? {
                // This server did not write a mark that it cannot decode, so the mark could belong
                // to any key. Treat all keys of the database as if they had collections.
                match format::decode_number(value) {
                    Ok(hash) => self.add(database, hash),
                    Err(_) => self.give_up(database),
                }
            }
        }
        Ok(())
    }

    /// Returns whether a key may have a collection. The caller must hold the key's lock; the answer
    /// holds until the lock is released.
    pub(crate) fn may_hold(&self, database: u8, key: &[u8]) -> bool {
        self.has_any(database) && self.may_have_hash(database, format::place(key))
    }

    fn may_have_hash(&self, database: u8, hash: u64) -> bool {
        let (shard, hash) = split(hash);
        let of = &self.databases[usize::from(database)];
        // Check the tables before `is_over`, because `is_over` is set before the tables are
        // emptied.
        of.shards[shard].read().find(hash).is_some() || of.is_over.load(Ordering::SeqCst)
    }

    /// Returns whether at least one key of a database may have a collection.
    pub(crate) fn has_any(&self, database: u8) -> bool {
        self.databases[usize::from(database)].count.load(Ordering::SeqCst) > 0
    }

    fn add(&self, database: u8, hash: u64) {
        let of = &self.databases[usize::from(database)];
        of.count.fetch_add(1, Ordering::SeqCst);
        if of.is_over.load(Ordering::SeqCst) {
            return;
        }
        let (shard, hash) = split(hash);
        let more = of.shards[shard].write().insert(hash);
        if more > 0 && self.bytes.fetch_add(more, Ordering::Relaxed) + more > self.most {
            self.give_up(database);
        }
    }

    fn remove(&self, database: u8, hash: u64) {
        let of = &self.databases[usize::from(database)];
        let (shard, hash) = split(hash);
        of.shards[shard].write().remove(hash);
        of.count.fetch_sub(1, Ordering::SeqCst);
    }

    /// Frees a database's tables. From then on, each of its keys is treated as if it had a
    /// collection.
    fn give_up(&self, database: u8) {
        let of = &self.databases[usize::from(database)];
        of.is_over.store(true, Ordering::SeqCst);
        self.empty(of);
    }

    fn empty(&self, of: &DatabaseFilter) {
        for shard in &of.shards {
            let table = std::mem::take(&mut *shard.write());
            let bytes = table.slots.len() * size_of::<u32>();
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Updates the filter after all collections of a database have been deleted. The caller must
    /// hold all locks.
    fn clear(&self, database: u8) {
        let of = &self.databases[usize::from(database)];
        self.empty(of);
        of.count.store(0, Ordering::SeqCst);
        of.is_over.store(false, Ordering::SeqCst);
    }
}

/// A collection's mark: the collection number and the hash of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CollectionMark {
    database: u8,
    number: u64,
    hash: u64,
}

/// The marks that a transaction adds and removes.
#[derive(Debug, Default)]
pub(super) struct MarkChanges {
    cleared: Vec<u8>,
    added: BTreeSet<CollectionMark>,
    removed: Vec<CollectionMark>,
}

impl MarkChanges {
    pub(super) fn add(&mut self, database: u8, number: u64, hash: u64) {
        self.added.insert(CollectionMark {
            database,
            number,
            hash,
        });
    }

    /// Returns whether the transaction adds any mark.
    pub(super) fn adds_any(&self) -> bool {
        !self.added.is_empty()
    }

    pub(super) fn remove(&mut self, database: u8, number: u64, hash: u64) {
        let mark = CollectionMark {
            database,
            number,
            hash,
        };
        // If this transaction added the mark itself, cancel the addition, because no other command
        // has seen it.
        if !self.added.remove(&mark) {
            self.removed.push(mark);
        }
    }

    pub(super) fn clear(&mut self, database: u8) {
        let stays = |mark: &CollectionMark| mark.database != database;
        self.added.retain(stays);
        self.removed.retain(stays);
        self.cleared.push(database);
    }

    /// Appends the changes of a later command in the same transaction.
    pub(super) fn append(&mut self, later: MarkChanges) {
        for database in later.cleared {
            self.clear(database);
        }
        for mark in later.removed {
            self.remove(mark.database, mark.number, mark.hash);
        }
        self.added.extend(later.added);
    }

    /// Reverts [`MarkChanges::apply_additions`] after the commit has failed.
    pub(super) fn undo(&self, marks: &CollectionFilter) {
        for mark in &self.added {
            marks.remove(mark.database, mark.hash);
        }
    }

    /// Adds the new marks to the filter. Must precede the commit.
    pub(super) fn apply_additions(&self, marks: &CollectionFilter) {
        for mark in &self.added {
            marks.add(mark.database, mark.hash);
        }
    }

    /// Removes the deleted marks from the filter. Must follow the commit.
    pub(super) fn apply_removals(&self, marks: &CollectionFilter) {
        for mark in &self.removed {
            marks.remove(mark.database, mark.hash);
        }
        for &database in &self.cleared {
            marks.clear(database);
            for mark in self.added.iter().filter(|mark| mark.database == database) {
                marks.add(database, mark.hash);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_table_has_what_was_put_in_and_not_taken_out() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut table = HashMultiset::default();
        let mut model: BTreeMap<u32, u32> = BTreeMap::new();
        for turn in 0..20_000 {
            // Use neighbouring hashes, and hashes at both ends of the value range, so that their
            // probe sequences collide.
            let hash = match random.u32(..3) {
                0 => random.u32(1..40),
                1 => u32::MAX - random.u32(..40),
                _ => random.u32(1..400) << 22,
            };
            let hash = hash.max(1);
            if random.u32(..1000) < if turn / 5000 % 2 == 0 { 600 } else { 400 } {
                table.insert(hash);
                *model.entry(hash).or_default() += 1;
            } else {
                table.remove(hash);
                if let Some(count) = model.get_mut(&hash) {
                    *count -= 1;
                    if *count == 0 {
                        model.remove(&hash);
                    }
                }
            }
            assert_eq!(table.find(hash).is_some(), model.contains_key(&hash), "{turn}");
        }
        assert_eq!(table.used as u32, model.values().sum::<u32>());
        assert!(model.keys().all(|&hash| table.find(hash).is_some()));
        assert!(table.slots.len() >= table.used);
    }

    #[test]
    fn beyond_its_memory_every_key_is_suspected_until_the_database_is_empty() {
        let marks = CollectionFilter::new(SHARDS * LEAST * size_of::<u32>() * 2);
        let hash = |index: u64| format::place(&index.to_le_bytes());
        for index in 0..1000 {
            marks.add(3, hash(index));
            assert!(marks.may_have_hash(3, hash(index)));
        }
        assert!(marks.may_have_hash(3, hash(5000)));
        assert_eq!(marks.bytes.load(Ordering::Relaxed), 0);
        assert!(!marks.has_any(2));
        marks.clear(3);
        assert!(!marks.has_any(3) && !marks.may_have_hash(3, hash(0)));
        marks.add(3, hash(1));
        assert!(marks.may_have_hash(3, hash(1)) && !marks.may_have_hash(3, hash(0)));
    }

    #[test]
    fn what_a_transaction_adds_and_takes_back_is_not_seen() {
        let marks = CollectionFilter::new(1 << 20);
        marks.add(0, 1 << 40);
        let mut changes = MarkChanges::default();
        changes.add(0, 7, 2 << 40);
        changes.remove(0, 7, 2 << 40);
        changes.remove(0, 6, 1 << 40);
        changes.add(0, 6, 3 << 40);
        changes.apply_additions(&marks);
        let known = |hash| marks.may_have_hash(0, hash);
        assert!(known(1 << 40) && !known(2 << 40) && known(3 << 40));
        changes.apply_removals(&marks);
        assert!(!known(1 << 40) && known(3 << 40));
        let mut changes = MarkChanges::default();
        changes.add(0, 8, 4 << 40);
        changes.clear(0);
        changes.add(0, 9, 5 << 40);
        changes.apply_additions(&marks);
        changes.apply_removals(&marks);
        assert!(!known(3 << 40) && !known(4 << 40) && known(5 << 40));
    }
}
