//! Lanes, which keep concurrent writers apart. Each insertion holds a lane. A lane allocates memory
//! from the arena in large pieces, so that writers contend for a shared cache line only once in
//! several hundred insertions. A writer also has all the memory that it needs before it changes
//! anything.

use super::MemtableFull;
use super::arena::{ArenaOffset, LINE, MemtableArena, UNIT, WORD};
use super::node::{BankRef, NodeBankKind, NodeId};
use crate::sync::{AtomicU32, AtomicUsize, Backoff, Ordering};
use alluvium_base::Message;
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::atomic::AtomicUsize as Numbers;

/// Maximum number of concurrent writers. Any others wait for a free lane.
#[cfg(not(alluvium_model_check))]
const LANES: usize = 64;
/// Small under the model checker, so that writers have to share lanes.
#[cfg(alluvium_model_check)]
const LANES: usize = 2;

/// A lane allocates this fraction of the memtable's limit at a time for records, within the bounds
/// below.
const FRACTION: usize = 1024;
const LEAST_BYTES: usize = 4 << 10;
const MOST_BYTES: usize = 64 << 10;
/// A record larger than this fraction of a piece is allocated separately, so that little space is
/// wasted at the end of a piece.
const LARGE_PART: usize = 8;
/// Maximum number of banks that a lane allocates at a time.
const MOST_BANKS: usize = 16;
/// Number of words that a lane allocates at a time.
const WORDS: usize = 16;

/// Maximum number of banks of each kind that a split needs. Splitting a leaf takes two leaf banks
/// for the halves and an inner bank for the parent. Splitting an inner node takes three inner
/// banks: two for the halves and one for the parent.
const SPLIT_LEAVES: usize = 2;
const SPLIT_INNER: usize = 3;
const _: () =
    assert!(LEAST_BYTES <= MOST_BYTES && LEAST_BYTES.is_multiple_of(UNIT) && MOST_BYTES.is_multiple_of(UNIT));
const _: () = assert!(WORDS >= 2, "a split adds two nodes at most");

/// The state of a lane. Only the writer that holds the lane accesses it, and the fields are atomic
/// only to satisfy the compiler.
#[derive(Debug)]
struct WriterLane {
    held: AtomicU32,
    /// Number of records inserted through this lane.
    records: AtomicUsize,
    /// Pieces of memory for records, for banks and for node words.
    piece: ArenaChunk,
    banks: ArenaChunk,
    words: ArenaChunk,
    /// Spare banks that no node uses.
    leaves: SpareStack<SPLIT_LEAVES>,
    inner: SpareStack<SPLIT_INNER>,
}

/// A small stack of places in the arena.
#[derive(Debug)]
struct SpareStack<const N: usize> {
    places: [AtomicU32; N],
    count: AtomicUsize,
}

impl<const N: usize> SpareStack<N> {
    fn empty() -> SpareStack<N> {
        SpareStack {
            places: std::array::from_fn(|_| AtomicU32::new(0)),
            count: AtomicUsize::new(0),
        }
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn put(&self, place: ArenaOffset) {
        debug_assert!(place != 0, "M4: no bank is at place 0");
        let count = self.count();
        self.places[count].store(place, Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Relaxed);
    }

    fn take(&self) -> ArenaOffset {
        let count = self
            .count()
            .checked_sub(1)
            .expect("what a step needs was stocked");
        debug_assert!(count < N, "a lane keeps {N} banks at most");
        self.count.store(count, Ordering::Relaxed);
        self.places[count].load(Ordering::Relaxed)
    }
}

/// A piece of the arena, and how much of it is still unallocated.
#[derive(Debug)]
struct ArenaChunk {
    next: AtomicUsize,
    end: AtomicUsize,
}

impl ArenaChunk {
    fn empty() -> ArenaChunk {
        ArenaChunk {
            next: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
        }
    }

    fn next(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    fn left(&self) -> usize {
        debug_assert!(
            self.next() <= self.end.load(Ordering::Relaxed),
            "M5: what is cut was taken"
        );
        self.end.load(Ordering::Relaxed) - self.next()
    }

    fn set(&self, next: usize, end: usize) {
        debug_assert!(
            next < end && next.is_multiple_of(UNIT),
            "a piece of {next}..{end} (M5)"
        );
        self.next.store(next, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
    }

    /// Allocates `bytes` bytes from the piece, which must have enough space, and returns their
    /// offset.
    fn cut(&self, bytes: usize) -> usize {
        assert!(
            bytes <= self.left(),
            "{bytes} bytes of a piece with {}",
            self.left()
        );
        let at = self.next();
        self.next.store(at + bytes, Ordering::Relaxed);
        at
    }
}

/// All the lanes of a memtable.
#[derive(Debug)]
pub(super) struct WriterLanes {
    lanes: Box<[CachePadded<WriterLane>]>,
    /// Number of bytes that a lane allocates at a time for records, and (`bank_bytes`) for banks.
    piece_bytes: usize,
    bank_bytes: usize,
}

impl WriterLanes {
    pub(super) fn new(limit: usize) -> WriterLanes {
        let lane = || {
            CachePadded::new(WriterLane {
                held: AtomicU32::new(0),
                records: AtomicUsize::new(0),
                piece: ArenaChunk::empty(),
                banks: ArenaChunk::empty(),
                words: ArenaChunk::empty(),
                leaves: SpareStack::empty(),
                inner: SpareStack::empty(),
            })
        };
        let share = (limit / FRACTION).next_multiple_of(LINE);
        WriterLanes {
            lanes: (0..LANES).map(|_| lane()).collect(),
            piece_bytes: share.clamp(LEAST_BYTES, MOST_BYTES),
            bank_bytes: share.min(MOST_BANKS * NodeBankKind::Inner.bytes()),
        }
    }

    /// Returns the number of records inserted through all lanes.
    pub(super) fn records(&self) -> usize {
        let records = |lane: &CachePadded<WriterLane>| lane.records.load(Ordering::Relaxed);
        self.lanes.iter().map(records).sum()
    }

    /// Acquires a free lane, preferably this thread's own. Waits if all lanes are held.
    pub(super) fn writer<'a>(&'a self, arena: &'a MemtableArena) -> LaneWriter<'a> {
        let own = own_lane();
        let mut backoff = Backoff::default();
        for turn in 0.. {
            let lane = &*self.lanes[(own + turn) % LANES];
            let free = lane.held.load(Ordering::Relaxed) == 0;
            if free
                && lane
                    .held
                    .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return LaneWriter {
                    lanes: self,
                    lane,
                    arena,
                };
            }
            if turn % LANES == LANES - 1 {
                backoff.wait();
            }
        }
        unreachable!("a lane becomes free")
    }
}

/// A lane that a writer holds until this value is dropped.
#[derive(Debug)]
pub(super) struct LaneWriter<'a> {
    lanes: &'a WriterLanes,
    lane: &'a WriterLane,
    arena: &'a MemtableArena,
}

impl<'a> LaneWriter<'a> {
    /// Writes a record and returns its place, or returns [`MemtableFull`] and writes nothing if the
    /// record does not fit in the memtable.
    pub(super) fn add_record(
        &mut self,
        key: &[u8],
        message: &Message<'_>,
    ) -> Result<ArenaOffset, MemtableFull> {
        let cost = MemtableArena::cost(key, message.operand);
        let lane = self.lane;
        let large = cost > self.lanes.piece_bytes / LARGE_PART;
        let at = match cost <= lane.piece.left() {
            true => lane.piece.cut(cost),
            // Either the record is large, or the arena has no memory for another piece.
            false if large || !self.refill(&lane.piece, self.lanes.piece_bytes, UNIT) => {
                self.arena.take(cost, UNIT).ok_or(MemtableFull)?
            }
            false => lane.piece.cut(cost),
        };
        // SAFETY: the bytes were just allocated, either for this record or from a piece that only
        // the holder of this lane uses. Pieces begin at a unit, and records end at a unit.
        Ok(unsafe { self.arena.put_record(at, key, message) })
    }

    fn refill(&self, piece: &ArenaChunk, bytes: usize, align: usize) -> bool {
        let taken = self.arena.take(bytes, align);
        if let Some(at) = taken {
            piece.set(at, at + bytes);
        }
        taken.is_some()
    }

    /// Reserves the spare bank for an insertion into a leaf.
    #[inline]
    pub(super) fn stock_for_insertion(&mut self) -> Result<(), MemtableFull> {
        self.stock_leaves(1)
    }

    /// Reserves all memory for splitting a node, even if it is the root.
    pub(super) fn stock_for_split(&mut self) -> Result<(), MemtableFull> {
        self.stock_leaves(SPLIT_LEAVES)?;
        while self.lane.inner.count() < SPLIT_INNER {
            self.lane.inner.put(self.new_bank(NodeBankKind::Inner)?);
        }
        let lane = self.lane;
        if lane.words.left() < 2 * WORD
            && !self.refill(&lane.words, WORDS * WORD, UNIT)
            && !self.refill(&lane.words, 2 * WORD, UNIT)
        {
            return Err(MemtableFull);
        }
        Ok(())
    }

    fn stock_leaves(&mut self, count: usize) -> Result<(), MemtableFull> {
        while self.lane.leaves.count() < count {
            self.lane.leaves.put(self.new_bank(NodeBankKind::Leaf)?);
        }
        Ok(())
    }

    fn new_bank(&self, kind: NodeBankKind) -> Result<ArenaOffset, MemtableFull> {
        let (lane, bytes) = (self.lane, kind.bytes());
        if lane.banks.left() < bytes
            && !self.refill(&lane.banks, self.lanes.bank_bytes.max(bytes), LINE)
            && !self.refill(&lane.banks, bytes, LINE)
        {
            return Err(MemtableFull);
        }
        let at = lane.banks.cut(bytes);
        // SAFETY: the bytes were just allocated from a piece that only the holder of this lane
        // uses. Pieces for banks begin at a cache line, and a bank occupies whole cache lines.
        Ok(unsafe { self.arena.put_bank(at, kind) })
    }

    /// Returns a spare bank, which must have been reserved, for the caller to fill.
    pub(super) fn take_bank(&mut self, kind: NodeBankKind) -> BankRef<'a> {
        let place = match kind {
            NodeBankKind::Leaf => self.lane.leaves.take(),
            NodeBankKind::Inner => self.lane.inner.take(),
        };
        BankRef::new(self.arena, place)
    }

    /// Adds a bank that is no longer used to the lane's spare banks.
    pub(super) fn give_back(&mut self, kind: NodeBankKind, place: ArenaOffset) {
        match kind {
            NodeBankKind::Leaf => self.lane.leaves.put(place),
            NodeBankKind::Inner => self.lane.inner.put(place),
        }
    }

    /// Creates a locked node with a bank that the caller has filled. The node's word must have been
    /// reserved.
    pub(super) fn add_node(&mut self, bank: BankRef<'_>) -> NodeId {
        let at = self.lane.words.cut(WORD);
        // SAFETY: the bytes were just allocated from a piece that only the holder of this lane
        // uses. Pieces begin at a unit, and words end at a unit.
        unsafe { self.arena.put_word(at, bank.place()) }
    }

    /// Counts a record inserted through this lane.
    pub(super) fn count(&mut self) {
        debug_assert_eq!(self.lane.held.load(Ordering::Relaxed), 1, "a lane has one writer");
        let records = self.lane.records.load(Ordering::Relaxed);
        self.lane.records.store(records + 1, Ordering::Relaxed);
    }
}

impl Drop for LaneWriter<'_> {
    fn drop(&mut self) {
        debug_assert_eq!(self.lane.held.load(Ordering::Relaxed), 1, "a lane has one writer");
        self.lane.held.store(0, Ordering::Release);
    }
}

/// Returns the index of the lane that this thread tries first. Threads are numbered in the order of
/// their first insertions.
fn own_lane() -> usize {
    static NEXT: Numbers = Numbers::new(0);
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    OWN.with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed) % LANES);
        }
        own.get()
    })
}
