//! The undo journal of a write set.

use super::WriteSet;
use super::write::KeyWrite;
use crate::locking::ranges::{InlineKey, RangeUndo};
use std::sync::Arc;

/// What is needed to undo one change of a write set.
#[derive(Clone, Debug)]
pub(super) enum UndoRecord {
    /// The write that the key had before the change, if any.
    Write(InlineKey, Option<Arc<KeyWrite>>),
    /// The deleted ranges that a new deleted range replaced.
    Range(RangeUndo),
}

impl UndoRecord {
    fn memory(&self) -> usize {
        match self {
            UndoRecord::Write(key, before) => {
                size_of::<UndoRecord>() + before.as_ref().map_or(key.len(), |write| write.taken(key))
            }
            UndoRecord::Range(joined) => size_of::<UndoRecord>() + joined.memory(),
        }
    }
}

/// Undo records of all changes since the first mark, oldest first. Without marks, no changes are
/// recorded.
#[derive(Clone, Debug, Default)]
pub(super) struct UndoJournal {
    is_on: bool,
    undos: Vec<UndoRecord>,
    memory: usize,
}

impl UndoJournal {
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    pub(super) fn note(&mut self, undo: UndoRecord) {
        debug_assert!(self.is_on, "nothing is noted before the first mark");
        self.memory += undo.memory();
        self.undos.push(undo);
    }

    fn pop_above(&mut self, mark: usize) -> Option<UndoRecord> {
        let undo = (self.undos.len() > mark).then(|| self.undos.pop()).flatten()?;
        self.memory -= undo.memory();
        Some(undo)
    }
}

impl WriteSet {
    /// Marks the current state, which [`WriteSet::undo_to`] can later restore.
    pub(crate) fn mark(&mut self) -> usize {
        self.writes.by_key_mut(&mut self.memory);
        self.journal.is_on = true;
        self.journal.undos.len()
    }

    /// Rolls the set back to its state at a mark (A6). Later marks become invalid.
    pub(crate) fn undo_to(&mut self, mark: usize) {
        while let Some(undo) = self.journal.pop_above(mark) {
            match undo {
                UndoRecord::Write(key, before) => self.replace(&key, before),
                UndoRecord::Range(joined) => {
                    self.memory -= self.deleted.memory();
                    Arc::make_mut(&mut self.deleted).undo(joined);
                    self.memory += self.deleted.memory();
                }
            }
        }
    }

    /// Restores the write that a key had before a change, or removes the key from the set if it had
    /// none.
    fn replace(&mut self, key: &InlineKey, before: Option<Arc<KeyWrite>>) {
        let writes = self.writes.by_key_mut(&mut self.memory);
        self.memory += before.as_ref().map_or(0, |write| write.taken(key));
        let now = match before {
            Some(before) => writes.insert(key.clone(), before),
            None => writes.remove(key),
        };
        self.memory -= now.map_or(0, |write| write.taken(key));
    }

    /// Removes all marks. Changes are no longer recorded.
    pub(crate) fn forget_marks(&mut self) {
        self.journal = UndoJournal::default();
    }
}
