//! Savepoints: states that a transaction can be rolled back to.

use super::Transaction;
use super::own_writes::OwnWrites;
use super::spilled_writes::SpilledMark;
use super::tracker::ReadTracker;
use crate::error::{Error, Result};
use crate::locking::fault::{IsolationFault, is_planted};
use crate::schema::format::KeyspaceId;
use crate::transaction::write_set::WriteSet;
use std::collections::BTreeMap;

/// A state that a transaction can be rolled back to; see [`Transaction::savepoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Savepoint {
    store: usize,
    transaction: u64,
    serial: u64,
}

/// The savepoints of a transaction, oldest first.
///
/// A spill moves all writes in memory to runs, although savepoints may still refer to these writes.
/// If any do, the spill retains the writes as of the newest savepoint, along with the undo journal
/// that restores the states at older savepoints. The period between two such spills is called an
/// era, and each savepoint belongs to one era.
#[derive(Debug, Default)]
pub(super) struct SavepointStack {
    marks: Vec<SavepointMarks>,
    /// For each past era, the state retained by the spill that ended it.
    aside: Vec<EraState>,
    next: u64,
}

#[derive(Debug)]
struct SavepointMarks {
    serial: u64,
    /// Number of eras that had ended when the savepoint was created.
    era: usize,
    /// Position in the undo journal of each keyspace's writes. A keyspace that is missing here had
    /// no writes when the savepoint was created.
    sets: BTreeMap<KeyspaceId, usize>,
}

/// The state of a transaction at the last savepoint of an era.
#[derive(Debug)]
struct EraState {
    writes: BTreeMap<KeyspaceId, WriteSet>,
    spilled: SpilledMark,
}

impl SavepointMarks {
    /// Rolls the writes of all keyspaces back to their state at this savepoint.
    fn undo(&self, sets: &mut BTreeMap<KeyspaceId, WriteSet>) {
        for (id, set) in sets {
            if !is_planted(IsolationFault::SavepointKeepsWrites) {
                set.undo_to(self.sets.get(id).copied().unwrap_or(0));
            }
        }
    }
}

impl SavepointStack {
    /// Returns whether a savepoint belongs to the current era, in which case changes to the writes
    /// in memory must be recorded in the undo journal.
    pub(super) fn lead_here(&self) -> bool {
        let newest = self.marks.last();
        newest.is_some_and(|newest| newest.era == self.aside.len())
    }

    /// Returns the memory of the retained states of past eras, in bytes.
    pub(super) fn memory(&self) -> usize {
        let sets = self.aside.iter().flat_map(|aside| aside.writes.values());
        sets.map(WriteSet::memory).sum()
    }

    /// Returns the states of the spilled writes that a rollback may return to.
    pub(super) fn spilled_marks(&self) -> Vec<&SpilledMark> {
        self.aside.iter().map(|era| &era.spilled).collect()
    }

    /// Retains the state of `sets`, which have just been spilled, as of the newest savepoint.
    /// `spilled` is the state of the spilled writes before that spill. Does nothing if no savepoint
    /// belongs to the current era.
    pub(super) fn put_aside(&mut self, sets: &mut BTreeMap<KeyspaceId, WriteSet>, spilled: SpilledMark) {
        // If the current era has no savepoint, no rollback can need its writes.
        if let Some(newest) = self.marks.last().filter(|_| self.lead_here()) {
            newest.undo(sets);
            let writes = std::mem::take(sets);
            self.aside.push(EraState { writes, spilled });
        }
    }
}

impl Transaction {
    /// Creates a savepoint, to which [`Transaction::rollback_to`] can return. Savepoints can be
    /// nested.
    ///
    /// If other threads use the transaction at the same time, the savepoint contains the writes of
    /// all calls that have returned, and each call in progress as a whole or not at all.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let stock = db.keyspace("stock")?;
    /// let order = db.begin();
    /// order.put(&stock, "lamps", "9")?;
    /// let before = order.savepoint();
    /// order.put(&stock, "lamps", "8")?;
    /// order.delete_range(&stock, "a", None)?;
    /// order.rollback_to(&before)?;
    /// assert_eq!(order.get(&stock, "lamps")?.unwrap(), b"9");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn savepoint(&self) -> Savepoint {
        let own = &mut *self.own.lock();
        let serial = own.savepoints.next;
        own.savepoints.next += 1;
        let sets = own.sets.iter_mut().map(|(&id, set)| (id, set.mark()));
        let sets = sets.collect();
        let era = own.savepoints.aside.len();
        own.savepoints.marks.push(SavepointMarks { serial, era, sets });
        Savepoint {
            store: self.shared.number(),
            transaction: self.number(),
            serial,
        }
    }

    /// Undoes all writes made after a savepoint. The savepoint itself remains, while later
    /// savepoints are removed. Locks and tracked reads are not undone.
    ///
    /// # Errors
    /// [`Error::NoSuchSavepoint`], [`Error::TransactionEnded`], [`Error::TransactionTooOld`].
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Result<()> {
        let own = &mut *self.own.lock();
        drop(self.enter_open()?);
        let index = self.find(&own.savepoints, savepoint)?;
        let OwnWrites {
            sets,
            spilled,
            savepoints,
            ..
        } = own;
        savepoints.marks.truncate(index + 1);
        let mark = &savepoints.marks[index];
        if mark.era < savepoints.aside.len() {
            self.announce_move();
            savepoints.aside.truncate(mark.era + 1);
            let aside = savepoints.aside.pop().expect("its era has ended");
            *sets = aside.writes;
            spilled.take_back(aside.spilled);
            spilled.protect(&savepoints.spilled_marks());
        }
        savepoints.marks[index].undo(sets);
        if is_planted(IsolationFault::SavepointForgetsReads) {
            *self.tracker.lock() = ReadTracker::default();
        }
        self.count_writes(own);
        Ok(())
    }

    /// Removes a savepoint and all later ones. The writes made after it remain.
    ///
    /// # Errors
    /// As [`Transaction::rollback_to`].
    pub fn release(&self, savepoint: &Savepoint) -> Result<()> {
        let own = &mut *self.own.lock();
        drop(self.enter_open()?);
        let index = self.find(&own.savepoints, savepoint)?;
        let savepoints = &mut own.savepoints;
        savepoints.marks.truncate(index);
        let eras = savepoints.marks.last().map_or(0, |newest| newest.era + 1);
        savepoints.aside.truncate(eras);
        own.spilled.protect(&savepoints.spilled_marks());
        if savepoints.marks.is_empty() {
            own.sets.values_mut().for_each(WriteSet::forget_marks);
        }
        self.count_writes(own);
        Ok(())
    }

    fn find(&self, savepoints: &SavepointStack, savepoint: &Savepoint) -> Result<usize> {
        if savepoint.store != self.shared.number() || savepoint.transaction != self.number() {
            return Err(Error::NoSuchSavepoint);
        }
        let marks = &savepoints.marks;
        let found = marks.binary_search_by_key(&savepoint.serial, |marks| marks.serial);
        found.map_err(|_| Error::NoSuchSavepoint)
    }
}
