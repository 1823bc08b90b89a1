//! The memtable: a concurrent ordered B-tree in memory that accepts messages until it is sealed.
//!
//! *Scope*: concurrent insertion by several writers; reading during insertions; how much memory the
//! memtable uses.
//!
//! *Must not depend on*: when it is sealed or written out, what a merge operator does.
//!
//! Readers read nodes optimistically (optimistic lock coupling; Leis, Haubenschild and Neumann,
//! IEEE Data Eng. Bull. 2019). A reader loads a node's word, reads the node, and loads the word
//! again. If the word has changed, the reader starts over. The content of a node is in a bank. To
//! change a node, a writer fills another bank and stores its place in the node's word. A reader
//! therefore never waits for a lock, nor for a writer that was preempted while it held one. The
//! writer reuses the replaced bank for a later change. Records never move, and only their link to
//! the next older version changes, so a record that a reader has found stays valid for as long as
//! the memtable exists.
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
//! A lookup in a 64 MiB memtable costs two cache misses: one for the leaf and one for the record.
//! It prefetches all cache lines of the leaf at once, and searching a node takes neither branches
//! nor dependent loads. Moving slots in place would force readers to wait. Compared with that,
//! copying to another bank slows down puts by a fifth and gets by a twelfth.
//!
//! Throughput on two shared virtual processors, in millions of operations per second, with 24-byte
//! keys and 100-byte values in 64 MiB (`cargo bench -p alluvium-dictionary --bench memtable`): 7.2
//! puts or 4.1 gets with one thread, and 12 puts or 8.2 gets with two.
//!
//! Invariants:
//!
//! - **M1** The keys of a node are strictly ascending and lie between its fences (low ≤ key <
//!   high).
//! - **M2** The records of a key form a list, newest first. Every record is reachable from the slot
//!   of its key.
//! - **M3** A writer changes a node only while it holds the node's lock. It either replaces the
//!   node's bank, which changes the node's word, or stores a newer record into the slot of a key
//!   with a single store. A reader that sees any new content of a reused bank also sees that the
//!   word of the node that formerly used the bank has changed.
//! - **M4** An optimistic reader may see inconsistent content, but it only ever follows places that
//!   hold a word, a bank or a record.
//! - **M5** `bytes()` never exceeds the limit. It includes every byte allocated from the budget:
//!   records, nodes, range deletes, and the writers' small reserves.
//! - **M6** The filter has no false negatives for a key that a reader may know to be present,
//!   because a key is added to the filter before its record is linked.
//! - **M7** The jump of a record is set before the record is linked and never changes. It leads to
//!   an older record of the same key, or nowhere. A reader may follow a jump to a record that is
//!   newer than its sequence number, because it then skips no record that it can see.
//! - **M8** A remembered fold is the fold of a run of merges of one key that do not expire and that
//!   follow each other in the key's list. No record is linked into the run later: the reader that
//!   remembers the fold sees all commits up to its sequence number.

mod arena;
mod cursor;
mod filter;
mod folds;
mod insert;
mod lanes;
mod lookup;
mod node;
mod ranges;

#[cfg(test)]
mod tests;

pub use cursor::CursorPosition;
pub use cursor::MemtableCursor;
pub(crate) use folds::{OperandRun, fold_into_first};
pub use lookup::KeyVersionIter;
#[cfg(debug_assertions)]
pub use lookup::STEPS;
pub use ranges::TombstoneSnapshot;

use crate::range_tombstones::{self, RangeTombstoneBuilder};
use crate::record::MAX_KEY;
use alluvium_base::SequenceNumber;
use arena::MemtableArena;
use filter::MemtableFilter;
use folds::FoldTable;
use lanes::WriterLanes;
use node::{NodeBankKind, NodeId, NodeView};
use ranges::MemtableTombstones;

use crate::sync::{AtomicU32, Ordering};

/// Maximum memory that a range delete occupies besides its two keys, in bytes.
pub const RANGE_OVERHEAD: usize = range_tombstones::OVERHEAD;

/// The error for a memtable without enough space for a message. The memtable is unchanged and must
/// be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemtableFull;

/// A concurrent ordered map from keys to the messages of each key.
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
    folds: FoldTable,
    limit: usize,
}

impl Memtable {
    /// Creates an empty memtable. `limit` is the maximum total size of its records, nodes and range
    /// deletes, in bytes.
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

    /// Returns an empty memtable that reuses this one's memory and limit, so that the system need
    /// not back pages again that are already in use.
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

    /// Asks the system to back some of the memory that writers will use next with physical pages,
    /// so that writers do not have to wait for it. Never backs more than the first `most` bytes of
    /// the memtable. Returns whether more memory was backed. A call takes up to five milliseconds.
    /// Only one thread at a time may call this.
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
            folds: FoldTable::new(limit),
            limit,
        }
    }

    /// Returns the number of bytes that records, nodes and range deletes occupy (M5).
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.arena.used()
    }

    /// Returns the total memory use in bytes: [`Memtable::bytes`] plus the fixed sizes of the
    /// filter and of the table of folds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes() + self.filter.bytes() + self.folds.bytes()
    }

    /// Returns the limit of the memtable in bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the number of point messages, excluding range deletes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lanes.records()
    }

    /// Returns whether the memtable contains neither messages nor range deletes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.ranges.is_empty()
    }

    /// Inserts a range delete of the keys in `start..end` with the sequence number `sequence`.
    ///
    /// # Errors
    /// [`MemtableFull`] if the range delete does not fit, in which case the memtable is unchanged.
    pub fn delete_range(
        &self,
        start: &[u8],
        end: &[u8],
        sequence: SequenceNumber,
    ) -> Result<(), MemtableFull> {
        self.ranges.add(start, end, sequence, &self.arena)
    }

    /// Returns the sequence number of the newest range delete that covers `key`, ignoring those
    /// above `at`. Returns `None` if there is none.
    #[must_use]
    #[inline]
    pub fn range_deleted(&self, key: &[u8], at: SequenceNumber) -> Option<SequenceNumber> {
        self.ranges.covering(key, at)
    }

    /// Returns whether the memtable contains any range deletes.
    #[must_use]
    pub fn has_range_deletes(&self) -> bool {
        !self.ranges.is_empty()
    }

    #[must_use]
    pub(crate) fn range_deletes(&self) -> RangeTombstoneBuilder {
        self.ranges.all()
    }

    /// Returns a snapshot of the range deletes, or `None` if there are none.
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
