//! Point lookups in a memtable.

use super::Memtable;
use super::arena::{ArenaOffset, ArenaRecord, MemtableArena};
use super::node::{BankRef, NodeConflict, NodeView};
use crate::key::LookupKey;
use crate::sync::Backoff;
use alluvium_base::{Message, SequenceNumber};

impl Memtable {
    /// Returns the messages of `key` with sequence numbers up to `at`, newest first. Range deletes
    /// are not included: see [`Memtable::range_deleted`].
    #[must_use]
    pub fn get(&self, key: LookupKey<'_>, at: SequenceNumber) -> KeyVersionIter<'_> {
        if !self.filter.of(key.hash()).may_contain() {
            return KeyVersionIter::new(&self.arena, 0, at);
        }
        let mut backoff = Backoff::default();
        let newest = loop {
            if let Ok(found) = self.try_find(key.bytes()) {
                break found;
            }
            backoff.wait();
        };
        KeyVersionIter {
            arena: &self.arena,
            next: newest,
            at,
        }
    }

    /// Prefetches the filter word for `key`. A reader of many keys prefetches the words of several
    /// keys at once. This is only a hint.
    #[inline]
    pub fn prefetch(&self, key: LookupKey<'_>) {
        self.filter.of(key.hash()).prefetch();
    }

    /// Prefetches the leaf that may contain `key`, unless the filter excludes the key. It should be
    /// called once the filter word that [`Memtable::prefetch`] requested has arrived.
    pub fn prefetch_leaf(&self, key: LookupKey<'_>) {
        if !self.filter.of(key.hash()).may_contain() {
            return;
        }
        let Ok(mut node) = self.root_view() else {
            return;
        };
        while !node.is_leaf() {
            let child = node.child(node.child_for(key.bytes()));
            // The node was changed concurrently, so give up the prefetch.
            if node.validate().is_err() {
                return;
            }
            let next = self.view(child);
            next.prefetch_if_leaf_of(&node);
            if node.level() == 1 {
                return;
            }
            node = next;
        }
    }

    fn try_find(&self, key: &[u8]) -> Result<ArenaOffset, NodeConflict> {
        let leaf = self.descend(|node| node.child_for(key))?;
        let (index, found) = leaf.lower_bound(key);
        let place = if found { leaf.slot(index) } else { 0 };
        leaf.validate()?;
        Ok(place)
    }

    /// Descends from the root to a leaf and returns the leaf. At each inner node, `choose` returns
    /// the index of the child to descend into.
    #[inline(always)]
    pub(super) fn descend(
        &self,
        choose: impl Fn(&BankRef<'_>) -> usize,
    ) -> Result<NodeView<'_>, NodeConflict> {
        let mut node = self.root_view()?;
        while !node.is_leaf() {
            let child = node.child(choose(&node));
            debug_assert!(child != 0 || node.validate().is_err(), "M4: nodes lead to nodes");
            node.validate()?;
            let next = self.view(child);
            next.prefetch_if_leaf_of(&node);
            node.validate()?;
            node = next;
        }
        Ok(node)
    }

    /// Returns a view of the root.
    #[inline(always)]
    pub(super) fn root_view(&self) -> Result<NodeView<'_>, NodeConflict> {
        let root = self.view(self.root());
        if self.root() == root.id() {
            Ok(root)
        } else {
            Err(NodeConflict)
        }
    }
}

/// An iterator over the messages of one key, newest first.
#[derive(Clone, Debug)]
pub struct KeyVersionIter<'a> {
    arena: &'a MemtableArena,
    next: ArenaOffset,
    at: SequenceNumber,
}

impl<'a> KeyVersionIter<'a> {
    #[inline]
    pub(super) fn new(
        arena: &'a MemtableArena,
        newest: ArenaOffset,
        at: SequenceNumber,
    ) -> KeyVersionIter<'a> {
        KeyVersionIter {
            arena,
            next: newest,
            at,
        }
    }

    /// Returns the place of the next record, or 0 at the end.
    pub(super) fn place(&self) -> ArenaOffset {
        self.next
    }
}

impl KeyVersionIter<'_> {
    /// Returns the place at which to continue after `record`, which is too new for the reader. No
    /// record that the reader sees is skipped.
    #[cold]
    fn beyond(&self, record: ArenaRecord<'_>) -> ArenaOffset {
        #[cfg(debug_assertions)]
        STEPS.with(|steps| steps.set(steps.get() + 1));
        let jump = record.jump();
        debug_assert!(record.sequence() > self.at, "only newer records are passed");
        debug_assert!(
            jump == 0 || self.arena.record(jump).sequence() <= record.sequence(),
            "M7: a jump leads to an older record"
        );
        if jump != 0 && self.arena.record(jump).sequence() > self.at {
            return jump;
        }
        record.older()
    }
}

#[cfg(debug_assertions)]
std::thread_local! {
    /// Number of versions that readers on this thread have skipped. Counted only in debug builds,
    /// for tests.
    pub static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl<'a> Iterator for KeyVersionIter<'a> {
    type Item = Message<'a>;

    #[inline]
    fn next(&mut self) -> Option<Message<'a>> {
        while self.next != 0 {
            let record = self.arena.record(self.next);
            if record.sequence() <= self.at {
                debug_assert!(record.older() != self.next, "M2: older records follow");
                self.next = record.older();
                return Some(record.message());
            }
            self.next = self.beyond(record);
        }
        None
    }
}
