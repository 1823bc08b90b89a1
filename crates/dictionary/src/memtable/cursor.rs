//! Iteration over the keys of a memtable in either direction, concurrently with writers.

use super::Memtable;
use super::arena::ArenaOffset;
use super::lookup::KeyVersionIter;
use super::node::{BankRef, FANOUT, NodeConflict};
use crate::sync::Backoff;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{MessageKind, SequenceNumber};

/// A position among the keys of a memtable.
///
/// A cursor copies one leaf at a time. It may or may not return keys that are inserted while it is
/// in use. A reader at a given sequence number does not notice, because the messages of such keys
/// have greater sequence numbers.
///
/// ```
/// use alluvium_base::Message;
/// use alluvium_dictionary::memtable::Memtable;
/// let memtable = Memtable::new(1 << 20);
/// for (sequence, key) in (1..).zip([b"b", b"a", b"c"]) {
///     memtable.insert(key, Message::put(sequence, b"")).unwrap();
/// }
/// let mut cursor = memtable.cursor();
/// cursor.seek(b"b");
/// assert_eq!(cursor.key(), Some(&b"b"[..]));
/// cursor.next();
/// assert_eq!(cursor.key(), Some(&b"c"[..]));
/// cursor.previous();
/// cursor.previous();
/// assert_eq!(cursor.key(), Some(&b"a"[..]));
/// cursor.previous();
/// assert_eq!(cursor.key(), None);
/// ```
#[derive(Clone, Debug)]
pub struct MemtableCursor<'a> {
    memtable: &'a Memtable,
    spot: CursorPosition,
}

/// A cursor's position without a reference to its memtable, for an owner that cannot always access
/// the memtable. It consists of record places copied from a leaf, which do not change. Every method
/// takes as an argument the memtable in which the cursor was positioned. Otherwise, the methods
/// correspond to those of [`MemtableCursor`].
#[derive(Clone, Debug)]
pub struct CursorPosition {
    slots: [ArenaOffset; FANOUT],
    count: usize,
    /// Index of the current slot. The cursor is not at a key if this is `count` or greater.
    index: usize,
    low: ArenaOffset,
    high: ArenaOffset,
}

impl Default for CursorPosition {
    fn default() -> Self {
        CursorPosition {
            slots: [0; FANOUT],
            count: 0,
            index: 0,
            low: 0,
            high: 0,
        }
    }
}

impl Memtable {
    /// Returns a cursor that is not positioned at a key.
    #[must_use]
    pub fn cursor(&self) -> MemtableCursor<'_> {
        MemtableCursor {
            memtable: self,
            spot: CursorPosition::default(),
        }
    }

    /// Returns the first key in `start..end` with a put or merge above the sequence number `at`, or
    /// `None` if there is none.
    #[must_use]
    pub fn first_news(&self, start: &[u8], end: &[u8], at: SequenceNumber) -> Option<Box<[u8]>> {
        let mut cursor = self.cursor();
        cursor.seek(start);
        while let Some(key) = cursor.key().filter(|key| *key < end) {
            let mut newer = cursor
                .versions(MAX_SEQUENCE)
                .take_while(|message| message.sequence > at);
            if newer.any(|message| message.kind != MessageKind::Delete) {
                return Some(key.into());
            }
            cursor.next();
        }
        None
    }
}

impl<'a> MemtableCursor<'a> {
    /// Returns the current key, or `None` if the cursor is not at a key.
    #[must_use]
    #[inline]
    pub fn key(&self) -> Option<&'a [u8]> {
        self.spot.key(self.memtable)
    }

    /// Returns the messages of the current key with sequence numbers up to `at`, newest first, or
    /// no messages if the cursor is not at a key.
    #[must_use]
    #[inline]
    pub fn versions(&self, at: SequenceNumber) -> KeyVersionIter<'a> {
        self.spot.versions(self.memtable, at)
    }

    /// Moves to the first key greater than or equal to `key`.
    pub fn seek(&mut self, key: &[u8]) {
        self.spot.seek(self.memtable, key);
    }

    /// Moves to the last key less than or equal to `key`.
    pub fn seek_back(&mut self, key: &[u8]) {
        self.spot.seek_back(self.memtable, key);
    }

    /// Moves to the first key.
    pub fn first(&mut self) {
        self.spot.first(self.memtable);
    }

    /// Moves to the last key.
    pub fn last(&mut self) {
        self.spot.last(self.memtable);
    }

    /// Moves to the next key. A cursor that is not at a key does not move.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) {
        self.spot.next(self.memtable);
    }

    /// Moves to the previous key. A cursor that is not at a key does not move.
    #[inline]
    pub fn previous(&mut self) {
        self.spot.previous(self.memtable);
    }
}

impl CursorPosition {
    #[inline]
    pub fn key<'m>(&self, memtable: &'m Memtable) -> Option<&'m [u8]> {
        (self.index < self.count).then(|| memtable.arena.key(self.slots[self.index]))
    }

    #[inline]
    pub fn versions<'m>(&self, memtable: &'m Memtable, at: SequenceNumber) -> KeyVersionIter<'m> {
        let newest = if self.index < self.count {
            self.slots[self.index]
        } else {
            0
        };
        KeyVersionIter::new(&memtable.arena, newest, at)
    }

    pub fn seek(&mut self, memtable: &Memtable, key: &[u8]) {
        let arena = &memtable.arena;
        self.load(memtable, |node| node.child_for(key));
        self.index = self.slots[..self.count].partition_point(|&slot| arena.key(slot) < key);
        self.skip_forward(memtable);
    }

    pub fn seek_back(&mut self, memtable: &Memtable, key: &[u8]) {
        let arena = &memtable.arena;
        self.load(memtable, |node| node.child_for(key));
        let above = self.slots[..self.count].partition_point(|&slot| arena.key(slot) <= key);
        debug_assert!(above <= self.count, "{above} of {} keys", self.count);
        self.step_back_from(memtable, above);
    }

    pub fn first(&mut self, memtable: &Memtable) {
        self.load(memtable, |_| 0);
        self.index = 0;
        self.skip_forward(memtable);
    }

    pub fn last(&mut self, memtable: &Memtable) {
        self.load(memtable, |node| node.count().saturating_sub(1));
        self.step_back_from(memtable, self.count);
    }

    #[inline]
    pub fn next(&mut self, memtable: &Memtable) {
        if self.index < self.count {
            debug_assert!(self.index < FANOUT, "{} of a leaf's keys", self.index);
            self.index += 1;
            self.skip_forward(memtable);
        }
    }

    #[inline]
    pub fn previous(&mut self, memtable: &Memtable) {
        if self.index < self.count {
            self.step_back_from(memtable, self.index);
        }
    }

    /// If the cursor is past the last key of its leaf, moves it to the first key of the next
    /// nonempty leaf.
    fn skip_forward(&mut self, memtable: &Memtable) {
        while self.index >= self.count && self.high != 0 {
            let arena = &memtable.arena;
            let from = arena.key(self.high);
            self.load(memtable, |node| node.child_for(from));
            // A concurrent split may have left keys less than `from` in this leaf. The cursor is
            // already past them.
            self.index = self.slots[..self.count].partition_point(|&slot| arena.key(slot) < from);
        }
    }

    /// Moves to the slot before `index` or, if there is none, to the last slot of the nearest
    /// earlier nonempty leaf.
    fn step_back_from(&mut self, memtable: &Memtable, index: usize) {
        let mut before = index;
        while before == 0 && self.low != 0 {
            let arena = &memtable.arena;
            let below = arena.key(self.low);
            // Choose the child with the keys just below `below`. It precedes the first separator
            // that is not less than `below`.
            self.load(memtable, |node| node.lower_bound(below).0.saturating_sub(1));
            before = self.slots[..self.count].partition_point(|&slot| arena.key(slot) < below);
        }
        self.index = if before == 0 { self.count } else { before - 1 };
        debug_assert!(self.index <= self.count, "{} of {} keys", self.index, self.count);
    }

    /// Descends to a leaf and copies its slots. At each inner node, `choose` returns the index of
    /// the child to descend into.
    fn load(&mut self, memtable: &Memtable, choose: impl Fn(&BankRef<'_>) -> usize) {
        let mut backoff = Backoff::default();
        while self.try_load(memtable, &choose).is_err() {
            backoff.wait();
        }
    }

    fn try_load(
        &mut self,
        memtable: &Memtable,
        choose: impl Fn(&BankRef<'_>) -> usize,
    ) -> Result<(), NodeConflict> {
        let leaf = memtable.descend(choose)?;
        self.count = leaf.count();
        for (index, slot) in self.slots[..self.count].iter_mut().enumerate() {
            *slot = leaf.slot(index);
        }
        (self.low, self.high) = (leaf.low(), leaf.high());
        let valid = leaf.validate();
        debug_assert!(
            valid.is_err()
                || self.slots[..self.count]
                    .is_sorted_by(|one, next| memtable.arena.key(*one) < memtable.arena.key(*next)),
            "M1: keys ascend"
        );
        if valid.is_err() {
            self.count = 0;
        }
        valid
    }
}
