//! The memtable: a concurrent ordered B-tree in memory that takes messages until it is sealed.
//!
//! *Knows*: how many writers insert at once, how readers go on meanwhile, and how many bytes all of
//! it has.
//!
//! *Does not know*: when it is sealed or written out, and what a merge operator does.
//!
//! *Read in this order*: `arena.rs` (the memory), `node.rs` (one node and its version), `lanes.rs`
//! (writers side by side), `insert.rs`, `filter.rs` (what is not there), `lookup.rs`, `cursor.rs`,
//! `ranges.rs` (range deletes).
//!
//! Nodes are read optimistically: a reader takes a node's word, reads, and looks at the word again;
//! when the node has changed meanwhile it starts over (optimistic lock coupling; Leis, Haubenschild
//! and Neumann, IEEE Data Eng. Bull. 2019). What a node holds is in a bank. A writer fills another
//! bank and stores its place in the word, so a reader never waits: not for a lock, nor for a writer
//! that was preempted while it held one. The bank that is left over is the writer's next one.
//! Records never move and never change but for the link to the next older version, so what a reader
//! found stays valid as long as the memtable.
//!
//! ```text
//!   word              lock, version, place of the bank
//!   bank (64 slots)   prefix of each key: 8 bytes behind what all keys of the node share
//!                     slot of each key: its newest record in the arena
//!                     children, behind an inner node's
//!   record            sequence, kind, expiry, lengths, links to the next older version and to one
//!                     further away, key, operand
//! ```
//!
//! A lookup in 64 MiB costs two waits for memory, one for the leaf and one for the record: all
//! lines of a leaf are asked for at once, and a search of a node has neither a branch nor a load
//! that depends on another. Filling banks instead of moving slots in place costs a fifth of the
//! puts and a twelfth of the gets that there would be with readers that wait.
//!
//! Millions a second on two shared virtual processors, 24-byte keys and 100-byte values in 64 MiB
//! (`cargo bench -p alluvium-trees --bench memtable`): one thread puts 7.2 and gets 4.1, two
//! threads put 12 and get 8.2.
//!
//! Invariants:
//!
//! - **M1** A node's keys lie between its fences (low ≤ key < high) and are strictly ascending.
//! - **M2** The records of one key are linked newest first; every record is reachable from its
//!   key's slot.
//! - **M3** A writer changes a node only while it holds its lock: by another bank, and then the
//!   node's word differs, or by one store that puts a newer record into a key's slot. A reader that
//!   sees anything of what a bank is filled with again also sees that the word of the node that had
//!   it differs.
//! - **M4** Whatever an optimistic reader sees, it only follows places of words, banks and records
//!   that exist.
//! - **M5** `bytes()` counts every byte that was taken from the budget: records, nodes, range
//!   deletes, and the little that writers have taken ahead. It never exceeds the limit.
//! - **M6** The filter denies no key that a reader may know to be there: a key is in it
//!   before its record is linked.
//! - **M7** A record's jump is set before the record is linked, and never changes. It leads to an
//!   older record of the key, or to none. So a reader may follow it whenever it leads to a record
//!   that is newer than the reader's place: none that it sees is passed.

mod arena;
mod cursor;
mod filter;
mod insert;
mod lanes;
mod lookup;
mod node;
mod ranges;

#[cfg(test)]
mod tests;

pub use cursor::Cursor;
pub use cursor::Spot;
#[cfg(debug_assertions)]
pub use lookup::STEPS;
pub use lookup::Versions;
pub use ranges::Deletes;

use crate::deletes::{self, Draft};
use crate::record::MAX_KEY;
use alluvium_base::Sequence;
use arena::Arena;
use filter::Filter;
use lanes::Lanes;
use node::{Kind, NodeId, View};
use ranges::RangeDeletes;

use crate::sync::{AtomicU32, Ordering};

/// What a range delete takes beside its two keys, at most.
pub const RANGE_OVERHEAD: usize = deletes::OVERHEAD;

/// The memtable is too full for the message: seal it and go on with a new one. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A concurrent ordered map from keys to their messages.
///
/// ```
/// use alluvium_base::Message;
/// use alluvium_dictionary::key::Key;
/// use alluvium_dictionary::memtable::Memtable;
/// let memtable = Memtable::new(1 << 20);
/// memtable.insert(b"river", Message::put(1, b"Elbe")).unwrap();
/// memtable.insert(b"river", Message::put(2, b"Oder")).unwrap();
/// assert_eq!(memtable.get(Key::new(b"river"), 2).next().unwrap().operand, b"Oder");
/// assert_eq!(memtable.get(Key::new(b"river"), 1).next().unwrap().operand, b"Elbe");
/// assert!(memtable.get(Key::new(b"lake"), 2).next().is_none());
/// ```
#[derive(Debug)]
pub struct Memtable {
    arena: Arena,
    lanes: Lanes,
    root: AtomicU32,
    ranges: RangeDeletes,
    filter: Filter,
    limit: usize,
}

impl Memtable {
    /// Creates an empty memtable that holds up to `limit` bytes, all told.
    ///
    /// # Panics
    /// When `limit` is below 64 KiB or above 16 GiB.
    #[must_use]
    pub fn new(limit: usize) -> Memtable {
        assert!(
            (64 << 10..=16usize << 30).contains(&limit),
            "a memtable of {limit} bytes"
        );
        Memtable::over(Arena::new(limit), Filter::new(limit), limit)
    }

    /// Returns an empty memtable with this one's limit and memory. The system has paid for the
    /// pages that were touched: it is asked for them again only beyond those.
    ///
    /// ```
    /// # use alluvium_base::Message;
    /// # use alluvium_dictionary::key::Key;
    /// # use alluvium_dictionary::memtable::Memtable;
    /// let full = Memtable::new(1 << 20);
    /// full.insert(b"river", Message::put(1, b"Elbe")).unwrap();
    /// let empty = full.cleared();
    /// assert!(empty.is_empty() && empty.get(Key::new(b"river"), 1).next().is_none());
    /// ```
    #[must_use]
    pub fn cleared(self) -> Memtable {
        Memtable::over(self.arena.cleared(), self.filter.cleared(), self.limit)
    }

    /// Has the system provide some of the memory that writers will reach next, so that they do not
    /// wait for it. Returns whether any was wanted. It takes up to five milliseconds. Of a memtable
    /// that will hardly take more than `most` bytes no more is provided. One thread at a time.
    ///
    /// ```
    /// # use alluvium_base::Message;
    /// # use alluvium_dictionary::key::Key;
    /// # use alluvium_dictionary::memtable::Memtable;
    /// let memtable = Memtable::new(64 << 20);
    /// memtable.insert(b"river", Message::put(1, &[7; 1 << 20])).unwrap();
    /// while memtable.provide(32 << 20) {}
    /// assert_eq!(memtable.get(Key::new(b"river"), 1).next().unwrap().operand.len(), 1 << 20);
    /// ```
    pub fn provide(&self, most: usize) -> bool {
        self.arena.provide(most)
    }

    fn over(arena: Arena, filter: Filter, limit: usize) -> Memtable {
        let lanes = Lanes::new(limit);
        let mut writer = lanes.writer(&arena);
        writer.stock_for_split().expect("a memtable holds a few nodes");
        let root = writer.take_bank(Kind::Leaf);
        let root = writer.add_node(root);
        View::new(&arena, root).unlock();
        drop(writer);
        Memtable {
            arena,
            lanes,
            root: AtomicU32::new(root),
            ranges: RangeDeletes::default(),
            filter,
            limit,
        }
    }

    /// Returns how many bytes are taken: records, nodes and range deletes (M5).
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.arena.used()
    }

    /// The same, and the filter beside them, which is as large whatever there is.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes() + self.filter.bytes()
    }

    /// Returns how many bytes there may be.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns how many messages about single keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lanes.records()
    }

    /// Returns whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.ranges.is_empty()
    }

    /// Deletes every key in `start..end` as of `sequence`.
    ///
    /// # Errors
    /// [`Full`] when it does not fit; nothing was changed then.
    pub fn delete_range(&self, start: &[u8], end: &[u8], sequence: Sequence) -> Result<(), Full> {
        self.ranges.add(start, end, sequence, &self.arena)
    }

    /// Returns the newest range delete at or before `at` that covers `key`, by its sequence number.
    #[must_use]
    #[inline]
    pub fn range_deleted(&self, key: &[u8], at: Sequence) -> Option<Sequence> {
        self.ranges.covering(key, at)
    }

    /// Returns whether there are range deletes.
    #[must_use]
    pub fn has_range_deletes(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Every range delete.
    #[must_use]
    pub(crate) fn range_deletes(&self) -> Draft {
        self.ranges.all()
    }

    /// Returns the range deletes as they are now, if there are any.
    pub fn deletes(&self) -> Option<Deletes> {
        self.ranges.now()
    }

    fn root(&self) -> NodeId {
        self.root.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn view(&self, id: NodeId) -> View<'_> {
        View::new(&self.arena, id)
    }
}
