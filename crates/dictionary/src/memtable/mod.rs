//! The memtable: a concurrent ordered B-tree in memory that accepts messages until it is sealed.
//!
//! *Scope*: how many writers insert concurrently, how readers proceed during insertions, how much
//! memory is used.
//!
//! *Must not depend on*: when it is sealed or written out, what a merge operator does.
//!
//! Nodes are read optimistically: a reader loads a node's word, reads the node, and loads the word
//! again. If the node has changed, it starts over (optimistic lock coupling; Leis, Haubenschild and
//! Neumann, IEEE Data Eng. Bull. 2019). The content of a node is in a bank. A writer fills another
//! bank and stores its place in the word, so a reader never waits, neither for a lock nor for a
//! writer that was preempted while it held one. The replaced bank becomes the writer's next one.
//! Records are never moved, and only their link to the next older version changes, so a record
//! found by a reader stays valid as long as the memtable.
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
//! A lookup in 64 MiB costs two cache misses, one for the leaf and one for the record: all lines of
//! a leaf are prefetched at once, and the search in a node has no branches and no dependent loads.
//! Compared with readers that wait, copying to banks instead of moving slots in place costs a fifth
//! of the puts and a twelfth of the gets.
//!
//! Millions of operations a second on two shared virtual processors, with 24-byte keys and 100-byte
//! values in 64 MiB (`cargo bench -p alluvium-dictionary --bench memtable`): one thread puts 7.2
//! and gets 4.1, two threads put 12 and get 8.2.
//!
//! Invariants:
//!
//! - **M1** A node's keys lie between its fences (low ≤ key < high) and are strictly ascending.
//! - **M2** The records of one key are linked newest first; every record is reachable from its
//!   key's slot.
//! - **M3** A writer changes a node only while it holds its lock: either by replacing its bank,
//!   which changes the node's word, or by a single store of a newer record into a key's slot. A
//!   reader that sees any of the new content of a reused bank also sees that the word of the bank's
//!   former node has changed.
//! - **M4** Whatever an optimistic reader sees, it only follows places of existing words, banks and
//!   records.
//! - **M5** `bytes()` counts every byte taken from the budget: records, nodes, range deletes, and
//!   the small reserves of the writers. It never exceeds the limit.
//! - **M6** The filter has no false negatives for keys that a reader may know to be present: a key
//!   is added to it before its record is linked.
//! - **M7** A record's jump is set before the record is linked and never changes. It leads to an
//!   older record of the key, or to none. A reader may therefore follow it whenever it leads to a
//!   record newer than the reader's sequence number, without passing a record that the reader sees.

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

pub use cursor::CursorPosition;
pub use cursor::MemtableCursor;
pub use lookup::KeyVersionIter;
#[cfg(debug_assertions)]
pub use lookup::STEPS;
pub use ranges::TombstoneSnapshot;

use crate::range_tombstones::{self, RangeTombstoneBuilder};
use crate::record::MAX_KEY;
use alluvium_base::SequenceNumber;
use arena::MemtableArena;
use filter::MemtableFilter;
use lanes::WriterLanes;
use node::{NodeBankKind, NodeId, NodeView};
use ranges::MemtableTombstones;

use crate::sync::{AtomicU32, Ordering};

/// Maximum memory of a range delete in addition to its two keys, in bytes.
pub const RANGE_OVERHEAD: usize = range_tombstones::OVERHEAD;

/// The memtable has no space for the message and must be sealed. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemtableFull;

/// A concurrent ordered map from keys to their messages.
///
/// ```
/// use alluvium_base::Message;
/// use alluvium_dictionary::key::LookupKey;
/// use alluvium_dictionary::memtable::Memtable;
/// let memtable = Memtable::new(1 << 20);
/// memtable.insert(b"river", Message::put(1, b"Elbe")).unwrap();
/// memtable.insert(b"river", Message::put(2, b"Oder")).unwrap();
/// assert_eq!(memtable.get(LookupKey::new(b"river"), 2).next().unwrap().operand, b"Oder");
/// assert_eq!(memtable.get(LookupKey::new(b"river"), 1).next().unwrap().operand, b"Elbe");
/// assert!(memtable.get(LookupKey::new(b"lake"), 2).next().is_none());
/// ```
#[derive(Debug)]
pub struct Memtable {
    arena: MemtableArena,
    lanes: WriterLanes,
    root: AtomicU32,
    ranges: MemtableTombstones,
    filter: MemtableFilter,
    limit: usize,
}

impl Memtable {
    /// Creates an empty memtable with a limit of `limit` bytes in total.
    ///
    /// # Panics
    /// If `limit` is less than 64 KiB or more than 16 GiB.
    #[must_use]
    pub fn new(limit: usize) -> Memtable {
        assert!(
            (64 << 10..=16usize << 30).contains(&limit),
            "a memtable of {limit} bytes"
        );
        Memtable::over(MemtableArena::new(limit), MemtableFilter::new(limit), limit)
    }

    /// Returns an empty memtable that reuses this one's memory and limit. Pages that were touched
    /// need not be provided by the system again.
    ///
    /// ```
    /// # use alluvium_base::Message;
    /// # use alluvium_dictionary::key::LookupKey;
    /// # use alluvium_dictionary::memtable::Memtable;
    /// let full = Memtable::new(1 << 20);
    /// full.insert(b"river", Message::put(1, b"Elbe")).unwrap();
    /// let empty = full.cleared();
    /// assert!(empty.is_empty() && empty.get(LookupKey::new(b"river"), 1).next().is_none());
    /// ```
    #[must_use]
    pub fn cleared(self) -> Memtable {
        Memtable::over(self.arena.cleared(), self.filter.cleared(), self.limit)
    }

    /// Makes the system provide some of the memory that writers will use next, so that they do not
    /// wait for it. Returns whether more memory was provided. A call takes up to five milliseconds.
    /// At most the first `most` bytes are provided. Only one thread may call this at a time.
    ///
    /// ```
    /// # use alluvium_base::Message;
    /// # use alluvium_dictionary::key::LookupKey;
    /// # use alluvium_dictionary::memtable::Memtable;
    /// let memtable = Memtable::new(64 << 20);
    /// memtable.insert(b"river", Message::put(1, &[7; 1 << 20])).unwrap();
    /// while memtable.provide(32 << 20) {}
    /// assert_eq!(memtable.get(LookupKey::new(b"river"), 1).next().unwrap().operand.len(), 1 << 20);
    /// ```
    pub fn provide(&self, most: usize) -> bool {
        self.arena.provide(most)
    }

    fn over(arena: MemtableArena, filter: MemtableFilter, limit: usize) -> Memtable {
        let lanes = WriterLanes::new(limit);
        let mut writer = lanes.writer(&arena);
        writer.stock_for_split().expect("a memtable holds a few nodes");
        let root = writer.take_bank(NodeBankKind::Leaf);
        let root = writer.add_node(root);
        NodeView::new(&arena, root).unlock();
        drop(writer);
        Memtable {
            arena,
            lanes,
            root: AtomicU32::new(root),
            ranges: MemtableTombstones::default(),
            filter,
            limit,
        }
    }

    /// Returns the number of bytes used by records, nodes and range deletes (M5).
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.arena.used()
    }

    /// Returns the total memory: [`Memtable::bytes`] and the filter, which has a fixed size.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes() + self.filter.bytes()
    }

    /// Returns the limit in bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the number of messages about single keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lanes.records()
    }

    /// Returns whether the memtable contains neither messages nor range deletes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.ranges.is_empty()
    }

    /// Deletes every key in `start..end` as of `sequence`.
    ///
    /// # Errors
    /// [`MemtableFull`] if the delete does not fit; nothing has changed then.
    pub fn delete_range(
        &self,
        start: &[u8],
        end: &[u8],
        sequence: SequenceNumber,
    ) -> Result<(), MemtableFull> {
        self.ranges.add(start, end, sequence, &self.arena)
    }

    /// Returns the sequence number of the newest range delete at or before `at` that covers `key`.
    #[must_use]
    #[inline]
    pub fn range_deleted(&self, key: &[u8], at: SequenceNumber) -> Option<SequenceNumber> {
        self.ranges.covering(key, at)
    }

    /// Returns whether the memtable contains range deletes.
    #[must_use]
    pub fn has_range_deletes(&self) -> bool {
        !self.ranges.is_empty()
    }

    #[must_use]
    pub(crate) fn range_deletes(&self) -> RangeTombstoneBuilder {
        self.ranges.all()
    }

    /// Returns a snapshot of the range deletes, if there are any.
    pub fn deletes(&self) -> Option<TombstoneSnapshot> {
        self.ranges.now()
    }

    fn root(&self) -> NodeId {
        self.root.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn view(&self, id: NodeId) -> NodeView<'_> {
        NodeView::new(&self.arena, id)
    }
}
