//! Writers side by side: each insertion holds a lane, and a lane has memory of its own, taken from
//! the arena in pieces. So writers share a line once in some hundred insertions, and what one needs
//! is there before it changes anything.

use super::Full;
use super::arena::{Arena, LINE, Place, UNIT, WORD};
use super::node::{BankRef, Kind, NodeId};
use crate::sync::{AtomicU32, AtomicUsize, Backoff, Ordering};
use alluvium_base::Message;
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::atomic::AtomicUsize as Numbers;

/// How many writers can be at work at once; others wait for one of them.
#[cfg(not(alluvium_model_check))]
const LANES: usize = 64;
/// So few that writers share them under the model checker.
#[cfg(alluvium_model_check)]
const LANES: usize = 2;

/// Bytes for records that a lane takes at once: this fraction of the limit, within bounds.
const FRACTION: usize = 1024;
const LEAST_BYTES: usize = 4 << 10;
const MOST_BYTES: usize = 64 << 10;
/// A record of more than this part of a piece is taken for by itself, so that little is left unused
/// at a piece's end.
const LARGE_PART: usize = 8;
/// Banks that a lane takes at once, at most.
const MOST_BANKS: usize = 16;
/// Words that a lane takes at once.
const WORDS: usize = 16;

/// Banks of each kind that a split needs. A leaf's split needs those of the two leaves. An inner
/// node's needs those of the two halves and of the node above, which is the most that a single step
/// needs at all.
const SPLIT_LEAVES: usize = 2;
const SPLIT_INNER: usize = 3;
const _: () =
    assert!(LEAST_BYTES <= MOST_BYTES && LEAST_BYTES.is_multiple_of(UNIT) && MOST_BYTES.is_multiple_of(UNIT));
const _: () = assert!(WORDS >= 2, "a split adds two nodes at most");

/// What a writer has to itself while it holds the lane. It is atomic only for the compiler: no
/// other thread looks at it.
#[derive(Debug)]
struct Lane {
    held: AtomicU32,
    /// Records that were inserted through this lane.
    records: AtomicUsize,
    /// For records, for banks and for words.
    piece: Piece,
    banks: Piece,
    words: Piece,
    /// Banks that no node uses.
    leaves: Spare<SPLIT_LEAVES>,
    inner: Spare<SPLIT_INNER>,
}

/// A few places.
#[derive(Debug)]
struct Spare<const N: usize> {
    places: [AtomicU32; N],
    count: AtomicUsize,
}

impl<const N: usize> Spare<N> {
    fn empty() -> Spare<N> {
        Spare {
            places: std::array::from_fn(|_| AtomicU32::new(0)),
            count: AtomicUsize::new(0),
        }
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn put(&self, place: Place) {
        debug_assert!(place != 0, "M4: no bank is at place 0");
        let count = self.count();
        self.places[count].store(place, Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Relaxed);
    }

    fn take(&self) -> Place {
        let count = self
            .count()
            .checked_sub(1)
            .expect("what a step needs was stocked");
        debug_assert!(count < N, "a lane keeps {N} banks at most");
        self.count.store(count, Ordering::Relaxed);
        self.places[count].load(Ordering::Relaxed)
    }
}

/// Bytes of the arena that are not used yet.
#[derive(Debug)]
struct Piece {
    next: AtomicUsize,
    end: AtomicUsize,
}

impl Piece {
    fn empty() -> Piece {
        Piece {
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

    /// Returns the next bytes, which must be there.
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

/// All lanes of a memtable.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Box<[CachePadded<Lane>]>,
    /// How much a lane takes at once for records, and for banks.
    piece_bytes: usize,
    bank_bytes: usize,
}

impl Lanes {
    pub(super) fn new(limit: usize) -> Lanes {
        let lane = || {
            CachePadded::new(Lane {
                held: AtomicU32::new(0),
                records: AtomicUsize::new(0),
                piece: Piece::empty(),
                banks: Piece::empty(),
                words: Piece::empty(),
                leaves: Spare::empty(),
                inner: Spare::empty(),
            })
        };
        let share = (limit / FRACTION).next_multiple_of(LINE);
        Lanes {
            lanes: (0..LANES).map(|_| lane()).collect(),
            piece_bytes: share.clamp(LEAST_BYTES, MOST_BYTES),
            bank_bytes: share.min(MOST_BANKS * Kind::Inner.bytes()),
        }
    }

    /// Returns how many records were inserted.
    pub(super) fn records(&self) -> usize {
        let records = |lane: &CachePadded<Lane>| lane.records.load(Ordering::Relaxed);
        self.lanes.iter().map(records).sum()
    }

    /// Returns a lane, this thread's own if no other thread is in it.
    pub(super) fn writer<'a>(&'a self, arena: &'a Arena) -> Writer<'a> {
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
                return Writer {
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

/// A lane that is held.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    lanes: &'a Lanes,
    lane: &'a Lane,
    arena: &'a Arena,
}

impl<'a> Writer<'a> {
    /// Writes a record; [`Full`] when it does not fit, and then nothing was written.
    pub(super) fn add_record(&mut self, key: &[u8], message: &Message<'_>) -> Result<Place, Full> {
        let cost = Arena::cost(key, message.operand);
        let lane = self.lane;
        let large = cost > self.lanes.piece_bytes / LARGE_PART;
        let at = match cost <= lane.piece.left() {
            true => lane.piece.cut(cost),
            // A large record, or little is left.
            false if large || !self.refill(&lane.piece, self.lanes.piece_bytes, UNIT) => {
                self.arena.take(cost, UNIT).ok_or(Full)?
            }
            false => lane.piece.cut(cost),
        };
        // SAFETY: the bytes were just cut from a piece that only the holder of this lane uses, or
        // taken for this record; pieces begin and records end at a unit.
        Ok(unsafe { self.arena.put_record(at, key, message) })
    }

    fn refill(&self, piece: &Piece, bytes: usize, align: usize) -> bool {
        let taken = self.arena.take(bytes, align);
        if let Some(at) = taken {
            piece.set(at, at + bytes);
        }
        taken.is_some()
    }

    /// Sees to it that an insertion into a leaf has the bank that it needs.
    #[inline]
    pub(super) fn stock_for_insertion(&mut self) -> Result<(), Full> {
        self.stock_leaves(1)
    }

    /// Sees to it that a split of a node has all that it needs, even if it is the root.
    pub(super) fn stock_for_split(&mut self) -> Result<(), Full> {
        self.stock_leaves(SPLIT_LEAVES)?;
        while self.lane.inner.count() < SPLIT_INNER {
            self.lane.inner.put(self.new_bank(Kind::Inner)?);
        }
        let lane = self.lane;
        if lane.words.left() < 2 * WORD
            && !self.refill(&lane.words, WORDS * WORD, UNIT)
            && !self.refill(&lane.words, 2 * WORD, UNIT)
        {
            return Err(Full);
        }
        Ok(())
    }

    fn stock_leaves(&mut self, count: usize) -> Result<(), Full> {
        while self.lane.leaves.count() < count {
            self.lane.leaves.put(self.new_bank(Kind::Leaf)?);
        }
        Ok(())
    }

    fn new_bank(&self, kind: Kind) -> Result<Place, Full> {
        let (lane, bytes) = (self.lane, kind.bytes());
        if lane.banks.left() < bytes
            && !self.refill(&lane.banks, self.lanes.bank_bytes.max(bytes), LINE)
            && !self.refill(&lane.banks, bytes, LINE)
        {
            return Err(Full);
        }
        let at = lane.banks.cut(bytes);
        // SAFETY: the bytes were just cut from a piece that only the holder of this lane uses;
        // pieces for banks begin at a line, and banks are whole lines.
        Ok(unsafe { self.arena.put_bank(at, kind) })
    }

    /// Returns a bank to fill, which was stocked.
    pub(super) fn take_bank(&mut self, kind: Kind) -> BankRef<'a> {
        let place = match kind {
            Kind::Leaf => self.lane.leaves.take(),
            Kind::Inner => self.lane.inner.take(),
        };
        BankRef::new(self.arena, place)
    }

    /// Takes back a bank that no node uses any more.
    pub(super) fn give_back(&mut self, kind: Kind, place: Place) {
        match kind {
            Kind::Leaf => self.lane.leaves.put(place),
            Kind::Inner => self.lane.inner.put(place),
        }
    }

    /// Adds a node with a bank that was filled, locked; its word was stocked.
    pub(super) fn add_node(&mut self, bank: BankRef<'_>) -> NodeId {
        let at = self.lane.words.cut(WORD);
        // SAFETY: the bytes were just cut from a piece that only the holder of this lane uses;
        // pieces begin and words end at a unit.
        unsafe { self.arena.put_word(at, bank.place()) }
    }

    /// Counts a record that was inserted.
    pub(super) fn count(&mut self) {
        debug_assert_eq!(self.lane.held.load(Ordering::Relaxed), 1, "a lane has one writer");
        let records = self.lane.records.load(Ordering::Relaxed);
        self.lane.records.store(records + 1, Ordering::Relaxed);
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        debug_assert_eq!(self.lane.held.load(Ordering::Relaxed), 1, "a lane has one writer");
        self.lane.held.store(0, Ordering::Release);
    }
}

/// Returns the lane that this thread tries first: threads are numbered as they come.
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
