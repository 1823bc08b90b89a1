//! How the writes of a set are taken back to a mark.

use super::WriteSet;
use super::write::Write;
use crate::ranges::{Joined, Key};

/// What takes one change back.
#[derive(Clone, Debug)]
pub(super) enum Undo {
    /// A key had this write, or none.
    Write(Key, Option<Write>),
    /// A range was added to those that are deleted.
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

/// The changes since the first mark, oldest first; it is off while there is none.
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
    /// Sets a mark: what is written from now on can be taken back to it.
    pub(crate) fn mark(&mut self) -> usize {
        self.writes.by_key_mut(&mut self.memory);
        self.journal.is_on = true;
        self.journal.undos.len()
    }

    /// Takes back what was written since a mark (A6). Later marks are gone.
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

    /// Gives a key the write that it had before, if it had one.
    fn replace(&mut self, key: &Key, before: Option<Write>) {
        let writes = self.writes.by_key_mut(&mut self.memory);
        self.memory += before.as_ref().map_or(0, |write| write.taken(key));
        let now = match before {
            Some(before) => writes.insert(key.clone(), before),
            None => writes.remove(key),
        };
        self.memory -= now.map_or(0, |write| write.taken(key));
    }

    /// Forgets all marks: nothing can be taken back any more.
    pub(crate) fn forget_marks(&mut self) {
        self.journal = Journal::default();
    }
}
