//! Which keys may have collections, in memory: a SET of any other key deletes no elements, so that
//! it needs no read (S8).
//!
//! For each collection there is a note in the store, written and deleted with it, that has the hash
//! of its key. When the store is opened the notes are read into a table of hashes of 32 bits; from
//! then on each commit changes both. A key whose hash is in the table may have a collection; of n
//! collections one key of 2³² / n is suspected without reason, and read. Each takes 5 to 8 bytes.
//! Beyond a part of the memory a database keeps no table: then all its keys are suspected.

use super::DATABASES;
use crate::model::format;
use alluvium::{Keyspace, Result};
use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

/// How many tables a database has, so that those who look at one are not kept waiting by those who
/// change another.
const SHARDS: usize = 16;

/// The slots of a table that is not empty, at least.
const LEAST: usize = 16;

/// Hashes with repetitions: slots, looked for from where the hash says on; 0 is an empty one.
#[derive(Debug, Default)]
struct Table {
    slots: Vec<u32>,
    used: usize,
}

impl Table {
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.slots.len() as u64) >> 32) as usize
    }

    fn behind(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    /// How far a slot is behind another.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from {
            to - from
        } else {
            to + self.slots.len() - from
        }
    }

    /// The slot that has a hash.
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

    /// Puts a hash in; how many bytes more the table takes.
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

    /// Takes a hash out once.
    fn remove(&mut self, hash: u32) {
        let Some(mut hole) = self.find(hash) else {
            return;
        };
        self.used -= 1;
        // What follows without a gap is looked for from its home on: it must not lie behind an
        // empty slot.
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

/// The tables of a database.
#[derive(Debug, Default)]
struct Database {
    /// How many collections there are.
    count: AtomicI64,
    /// Whether there are too many for tables.
    is_over: AtomicBool,
    shards: [RwLock<Table>; SHARDS],
}

/// Which keys may have collections.
#[derive(Debug)]
pub(crate) struct Marks {
    databases: [Database; DATABASES as usize],
    /// The bytes that tables take and may take, all of them together.
    bytes: AtomicUsize,
    most: usize,
}

/// The table of a key's hash and what stands there.
fn split(hash: u64) -> (usize, u32) {
    (hash as usize % SHARDS, ((hash >> 32) as u32).max(1))
}

impl Marks {
    pub(super) fn new(most: usize) -> Marks {
        Marks {
            databases: Default::default(),
            bytes: AtomicUsize::new(0),
            most,
        }
    }

    /// Reads what the store knows.
    pub(super) fn load(&self, data: &Keyspace) -> Result<()> {
        for database in 0..DATABASES {
            let (start, end) = format::collections(database);
            let mut notes = data.range(&start[..]..&end[..]);
            while let Some((_, value)) = notes.lend()? {
                // A note that cannot be read is of no collection that this server has written: it
                // is suspected to be of any key.
                match format::decode_number(value) {
                    Ok(hash) => self.add(database, hash),
                    Err(_) => self.give_up(database),
                }
            }
        }
        Ok(())
    }

    /// Whether a key may have a collection. It holds as long as the key's lock.
    pub(crate) fn may_hold(&self, database: u8, key: &[u8]) -> bool {
        self.has_any(database) && self.may_have_hash(database, format::place(key))
    }

    fn may_have_hash(&self, database: u8, hash: u64) -> bool {
        let (shard, hash) = split(hash);
        let of = &self.databases[usize::from(database)];
        // In this order: a table is emptied after it was said that there is none.
        of.shards[shard].read().find(hash).is_some() || of.is_over.load(Ordering::SeqCst)
    }

    /// Whether any key of a database may have a collection.
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

    /// Keeps no tables of a database any more.
    fn give_up(&self, database: u8) {
        let of = &self.databases[usize::from(database)];
        of.is_over.store(true, Ordering::SeqCst);
        self.empty(of);
    }

    fn empty(&self, of: &Database) {
        for shard in &of.shards {
            let table = std::mem::take(&mut *shard.write());
            let bytes = table.slots.len() * size_of::<u32>();
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// A database has no collections. All locks are held.
    fn clear(&self, database: u8) {
        let of = &self.databases[usize::from(database)];
        self.empty(of);
        of.count.store(0, Ordering::SeqCst);
        of.is_over.store(false, Ordering::SeqCst);
    }
}

/// A collection of a key, by the key's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mark {
    database: u8,
    number: u64,
    hash: u64,
}

/// What a transaction changes.
#[derive(Debug, Default)]
pub(super) struct MarkChanges {
    cleared: Vec<u8>,
    added: BTreeSet<Mark>,
    removed: Vec<Mark>,
}

impl MarkChanges {
    pub(super) fn add(&mut self, database: u8, number: u64, hash: u64) {
        self.added.insert(Mark {
            database,
            number,
            hash,
        });
    }

    /// Whether any key has got a collection.
    pub(super) fn adds_any(&self) -> bool {
        !self.added.is_empty()
    }

    pub(super) fn remove(&mut self, database: u8, number: u64, hash: u64) {
        let mark = Mark {
            database,
            number,
            hash,
        };
        // No other command knows what it has added itself.
        if !self.added.remove(&mark) {
            self.removed.push(mark);
        }
    }

    pub(super) fn clear(&mut self, database: u8) {
        let stays = |mark: &Mark| mark.database != database;
        self.added.retain(stays);
        self.removed.retain(stays);
        self.cleared.push(database);
    }

    /// Takes over what a later command of the same transaction has changed.
    pub(super) fn then(&mut self, later: MarkChanges) {
        for database in later.cleared {
            self.clear(database);
        }
        for mark in later.removed {
            self.remove(mark.database, mark.number, mark.hash);
        }
        self.added.extend(later.added);
    }

    /// Takes back what [`MarkChanges::before`] has done: there was no commit.
    pub(super) fn undo(&self, marks: &Marks) {
        for mark in &self.added {
            marks.remove(mark.database, mark.hash);
        }
    }

    /// Before the commit: what is added is known.
    pub(super) fn before(&self, marks: &Marks) {
        for mark in &self.added {
            marks.add(mark.database, mark.hash);
        }
    }

    /// After it: what is gone is known no more.
    pub(super) fn after(&self, marks: &Marks) {
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
        let mut table = Table::default();
        let mut model: BTreeMap<u32, u32> = BTreeMap::new();
        for turn in 0..20_000 {
            // Hashes that lie close together, and those of both ends, meet in the same slots.
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
        let marks = Marks::new(SHARDS * LEAST * size_of::<u32>() * 2);
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
        let marks = Marks::new(1 << 20);
        marks.add(0, 1 << 40);
        let mut changes = MarkChanges::default();
        changes.add(0, 7, 2 << 40);
        changes.remove(0, 7, 2 << 40);
        changes.remove(0, 6, 1 << 40);
        changes.add(0, 6, 3 << 40);
        changes.before(&marks);
        let known = |hash| marks.may_have_hash(0, hash);
        assert!(known(1 << 40) && !known(2 << 40) && known(3 << 40));
        changes.after(&marks);
        assert!(!known(1 << 40) && known(3 << 40));
        let mut changes = MarkChanges::default();
        changes.add(0, 8, 4 << 40);
        changes.clear(0);
        changes.add(0, 9, 5 << 40);
        changes.before(&marks);
        changes.after(&marks);
        assert!(!known(3 << 40) && !known(4 << 40) && known(5 << 40));
    }
}
