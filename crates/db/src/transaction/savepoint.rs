//! Savepoints: marks to which the writes of a transaction are taken back.

use super::Transaction;
use super::tracker::Tracker;
use crate::fault::{Fault, is_planted};
use crate::format::KeyspaceId;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// A moment in a transaction to which its writes can be taken back: see [`Transaction::savepoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Savepoint {
    store: usize,
    transaction: u64,
    serial: u64,
}

/// The savepoints that a transaction has, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Savepoints {
    marks: Vec<Marks>,
    next: u64,
}

#[derive(Debug)]
struct Marks {
    serial: u64,
    /// By keyspace. What a keyspace has that is missing was written later.
    sets: BTreeMap<KeyspaceId, usize>,
}

impl Savepoints {
    pub(super) fn is_empty(&self) -> bool {
        self.marks.is_empty()
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
        self.savepoints.marks.push(Marks { serial, sets });
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
        let marks = &self.savepoints.marks[index].sets;
        let mut written = 0;
        for (id, set) in &mut self.writes {
            if !is_planted(Fault::SavepointKeepsWrites) {
                set.undo_to(marks.get(id).copied().unwrap_or(0));
            }
            written += set.memory();
        }
        if is_planted(Fault::SavepointForgetsReads) {
            *self.tracker.get_mut() = Tracker::default();
        }
        self.savepoints.marks.truncate(index + 1);
        self.handle.open.write_bytes.store(written, Ordering::Relaxed);
        Ok(())
    }

    /// Gives a savepoint up, and all later ones. What was written since stays.
    ///
    /// # Errors
    /// As [`Transaction::rollback_to`].
    pub fn release(&mut self, savepoint: &Savepoint) -> Result<()> {
        drop(self.enter_open()?);
        let index = self.find(savepoint)?;
        self.savepoints.marks.truncate(index);
        if self.savepoints.is_empty() {
            let sets = self.writes.values_mut();
            let written = sets.map(|set| {
                set.forget_marks();
                set.memory()
            });
            let written = written.sum();
            self.handle.open.write_bytes.store(written, Ordering::Relaxed);
        }
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
