//! Savepoints: marks to which the writes of a transaction are taken back.

use super::Transaction;
use super::spilled::SpilledMark;
use super::tracker::Tracker;
use crate::fault::{Fault, is_planted};
use crate::format::KeyspaceId;
use crate::write_set::WriteSet;
use crate::{Error, Result};
use std::collections::BTreeMap;

/// A moment in a transaction to which its writes can be taken back: see [`Transaction::savepoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Savepoint {
    store: usize,
    transaction: u64,
    serial: u64,
}

/// The savepoints that a transaction has, the oldest first.
///
/// A spill makes runs of what is in memory, whenever it was written. What was in memory at the
/// newest savepoint is put aside then, with the journal that leads back to older ones. So each
/// savepoint is of an era: between two such spills.
#[derive(Debug, Default)]
pub(super) struct Savepoints {
    marks: Vec<Marks>,
    /// What was put aside at the end of each era.
    aside: Vec<Aside>,
    next: u64,
}

#[derive(Debug)]
struct Marks {
    serial: u64,
    /// How many eras had ended.
    era: usize,
    /// By keyspace. What a keyspace has that is missing was written later.
    sets: BTreeMap<KeyspaceId, usize>,
}

/// What a transaction had at the last savepoint of an era.
#[derive(Debug)]
struct Aside {
    writes: BTreeMap<KeyspaceId, WriteSet>,
    spilled: SpilledMark,
}

impl Marks {
    /// Takes sets back to the savepoint.
    fn undo(&self, sets: &mut BTreeMap<KeyspaceId, WriteSet>) {
        for (id, set) in sets {
            if !is_planted(Fault::SavepointKeepsWrites) {
                set.undo_to(self.sets.get(id).copied().unwrap_or(0));
            }
        }
    }
}

impl Savepoints {
    /// Returns whether writes are to be taken back to a savepoint of this era.
    pub(super) fn lead_here(&self) -> bool {
        let newest = self.marks.last();
        newest.is_some_and(|newest| newest.era == self.aside.len())
    }

    /// Returns how many bytes of memory is put aside.
    pub(super) fn memory(&self) -> usize {
        let sets = self.aside.iter().flat_map(|aside| aside.writes.values());
        sets.map(WriteSet::memory).sum()
    }

    /// Puts aside what sets that were spilled had at the newest savepoint. `spilled` is what was
    /// spilled before.
    pub(super) fn put_aside(&mut self, sets: &mut BTreeMap<KeyspaceId, WriteSet>, spilled: SpilledMark) {
        // Without a savepoint in this era nothing leads back into it.
        if let Some(newest) = self.marks.last().filter(|_| self.lead_here()) {
            newest.undo(sets);
            let writes = std::mem::take(sets);
            self.aside.push(Aside { writes, spilled });
        }
    }
}

impl Transaction {
    /// Returns a savepoint: [`Transaction::rollback_to`] takes back what is written after it.
    /// Savepoints nest.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let stock = db.keyspace("stock")?;
    /// let mut order = db.begin();
    /// order.put(&stock, "lamps", "9")?;
    /// let before = order.savepoint();
    /// order.put(&stock, "lamps", "8")?;
    /// order.delete_range(&stock, "a", None)?;
    /// order.rollback_to(&before)?;
    /// assert_eq!(order.get(&stock, "lamps")?.unwrap(), b"9");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn savepoint(&mut self) -> Savepoint {
        let serial = self.savepoints.next;
        self.savepoints.next += 1;
        let sets = self.writes.iter_mut().map(|(&id, set)| (id, set.mark()));
        let sets = sets.collect();
        let era = self.savepoints.aside.len();
        self.savepoints.marks.push(Marks { serial, era, sets });
        Savepoint {
            store: self.shared.number(),
            transaction: self.number(),
            serial,
        }
    }

    /// Takes back what was written after a savepoint. Later savepoints are gone; this one stays.
    /// Locks stay, too, and the transaction goes on to depend on what it has read.
    ///
    /// # Errors
    /// [`Error::NoSuchSavepoint`], [`Error::TransactionEnded`], [`Error::TransactionTooOld`].
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        drop(self.enter_open()?);
        let index = self.find(savepoint)?;
        self.savepoints.marks.truncate(index + 1);
        let savepoints = &mut self.savepoints;
        let mark = &savepoints.marks[index];
        if mark.era < savepoints.aside.len() {
            savepoints.aside.truncate(mark.era + 1);
            let aside = savepoints.aside.pop().expect("its era has ended");
            self.writes = aside.writes;
            self.spilled.take_back(aside.spilled);
        }
        savepoints.marks[index].undo(&mut self.writes);
        if is_planted(Fault::SavepointForgetsReads) {
            *self.tracker.get_mut() = Tracker::default();
        }
        self.count_writes();
        Ok(())
    }

    /// Gives a savepoint up, and all later ones. What was written since stays.
    ///
    /// # Errors
    /// As [`Transaction::rollback_to`].
    pub fn release(&mut self, savepoint: &Savepoint) -> Result<()> {
        drop(self.enter_open()?);
        let index = self.find(savepoint)?;
        let savepoints = &mut self.savepoints;
        savepoints.marks.truncate(index);
        let eras = savepoints.marks.last().map_or(0, |newest| newest.era + 1);
        savepoints.aside.truncate(eras);
        if savepoints.marks.is_empty() {
            self.writes.values_mut().for_each(WriteSet::forget_marks);
        }
        self.count_writes();
        Ok(())
    }

    fn find(&self, savepoint: &Savepoint) -> Result<usize> {
        if savepoint.store != self.shared.number() || savepoint.transaction != self.number() {
            return Err(Error::NoSuchSavepoint);
        }
        let marks = &self.savepoints.marks;
        let found = marks.binary_search_by_key(&savepoint.serial, |marks| marks.serial);
        found.map_err(|_| Error::NoSuchSavepoint)
    }
}
