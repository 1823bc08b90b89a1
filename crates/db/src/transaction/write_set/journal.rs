//! Undo journal of a write set.

use super::WriteSet;
use super::write::Write;
use crate::locking::ranges::{Joined, Key};

/// Undo record of one change.
#[derive(Clone, Debug)]
pub(super) enum Undo {
    /// The previous write of a key, if any.
    Write(Key, Option<Write>),
    /// The previous state of the ranges that a new deleted range replaced.
    Range(Joined),
}

impl Undo {
    fn memory(&self) -> usize {
        match self {
            Undo::Write(key, before) => {
                size_of::<Undo>() + before.as_ref().map_or(key.len(), |write| write.taken(key))
            }
            Undo::Range(joined) => size_of::<Undo>() + joined.memory(),
        }
    }
}

/// Changes since the first mark, oldest first; disabled while there is no mark.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    is_on: bool,
    undos: Vec<Undo>,
    memory: usize,
}

impl Journal {
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    pub(super) fn note(&mut self, undo: Undo) {
        debug_assert!(self.is_on, "nothing is noted before the first mark");
        self.memory += undo.memory();
        self.undos.push(undo);
    }

    fn pop_above(&mut self, mark: usize) -> Option<Undo> {
        let undo = (self.undos.len() > mark).then(|| self.undos.pop()).flatten()?;
        self.memory -= undo.memory();
        Some(undo)
    }
}

impl WriteSet {
    /// Sets a mark to which later writes can be rolled back.
    pub(crate) fn mark(&mut self) -> usize {
        self.writes.by_key_mut(&mut self.memory);
        self.journal.is_on = true;
        self.journal.undos.len()
    }

    /// Undoes all writes since a mark (A6) and removes later marks.
    pub(crate) fn undo_to(&mut self, mark: usize) {
        while let Some(undo) = self.journal.pop_above(mark) {
            match undo {
                Undo::Write(key, before) => self.replace(&key, before),
                Undo::Range(joined) => {
                    self.memory -= self.deleted.memory();
                    self.deleted.undo(joined);
                    self.memory += self.deleted.memory();
                }
            }
        }
    }

    /// Restores the previous write of a key, or removes the key.
    fn replace(&mut self, key: &Key, before: Option<Write>) {
        let writes = self.writes.by_key_mut(&mut self.memory);
        self.memory += before.as_ref().map_or(0, |write| write.taken(key));
        let now = match before {
            Some(before) => writes.insert(key.clone(), before),
            None => writes.remove(key),
        };
        self.memory -= now.map_or(0, |write| write.taken(key));
    }

    /// Removes all marks and disables the journal.
    pub(crate) fn forget_marks(&mut self) {
        self.journal = Journal::default();
    }
}
