//! Point lookups: the messages of one key, newest first.

use super::Memtable;
use super::arena::{Arena, Place, Record};
use super::node::{BankRef, Restart, View};
use crate::key::Key;
use crate::sync::Backoff;
use alluvium_base::{Message, Sequence};

impl Memtable {
    /// Returns the messages about `key` at or before `at`, newest first. Range deletes are not
    /// among them: see [`Memtable::range_deleted`].
    #[must_use]
    pub fn get(&self, key: Key<'_>, at: Sequence) -> Versions<'_> {
        if !self.filter.of(key.hash()).may_be_there() {
            return Versions::new(&self.arena, 0, at);
        }
        let mut backoff = Backoff::default();
        let newest = loop {
            if let Ok(found) = self.try_find(key.bytes()) {
                break found;
            }
            backoff.wait();
        };
        Versions {
            arena: &self.arena,
            next: newest,
            at,
        }
    }

    /// Asks the processor for the filter's word of a key. A reader that looks up many keys asks for
    /// several at once. A hint, no more.
    #[inline]
    pub fn prefetch(&self, key: Key<'_>) {
        self.filter.of(key.hash()).prefetch();
    }

    /// The same, when that has come, for the leaf that the key is in if it is there.
    pub fn prefetch_leaf(&self, key: Key<'_>) {
        if !self.filter.of(key.hash()).may_be_there() {
            return;
        }
        let Ok(mut node) = self.root_view() else {
            return;
        };
        while !node.is_leaf() {
            let child = node.child(node.child_for(key.bytes()));
            // Where a writer came between, there is no hint.
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

    fn try_find(&self, key: &[u8]) -> Result<Place, Restart> {
        let leaf = self.descend(|node| node.child_for(key))?;
        let (index, found) = leaf.lower_bound(key);
        let place = if found { leaf.slot(index) } else { 0 };
        leaf.validate()?;
        Ok(place)
    }

    /// Goes from the root to a leaf by `choose`, which names a child of each inner node.
    #[inline(always)]
    pub(super) fn descend(&self, choose: impl Fn(&BankRef<'_>) -> usize) -> Result<View<'_>, Restart> {
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

    /// Returns the root.
    #[inline(always)]
    pub(super) fn root_view(&self) -> Result<View<'_>, Restart> {
        let root = self.view(self.root());
        if self.root() == root.id() {
            Ok(root)
        } else {
            Err(Restart)
        }
    }
}

/// The messages of one key, newest first.
#[derive(Clone, Debug)]
pub struct Versions<'a> {
    arena: &'a Arena,
    next: Place,
    at: Sequence,
}

impl<'a> Versions<'a> {
    #[inline]
    pub(super) fn new(arena: &'a Arena, newest: Place, at: Sequence) -> Versions<'a> {
        Versions {
            arena,
            next: newest,
            at,
        }
    }
}

impl Versions<'_> {
    /// Goes beyond a record that the reader does not see, as far as none that it sees is passed.
    #[cold]
    fn beyond(&self, record: Record<'_>) -> Place {
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
    /// How many versions readers of this thread have passed by: counted for tests, in debug builds.
    pub static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl<'a> Iterator for Versions<'a> {
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
