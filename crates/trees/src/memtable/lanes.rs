//! Writers side by side: each insertion holds a lane, and a lane has memory of its own, taken from the arena in pieces. So
//! writers share a line once in some hundred insertions, and what one needs is there before it changes anything.

use super::Full;
use super::arena::{Arena, LINE, Place, UNIT};
use super::node::{Node, NodeId};
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
/// A record of more than this part of a piece is taken for by itself, so that little is left unused at a piece's end.
const LARGE_PART: usize = 8;
/// Bytes for nodes that a lane takes at once: at most as many as this many inner nodes have.
const MOST_NODES: usize = 16;

/// What a writer has to itself while it holds the lane; the atomics are for the compiler, nobody else looks at them.
#[derive(Debug)]
struct Lane {
    held: AtomicU32,
    /// Records that were inserted through this lane.
    records: AtomicUsize,
    /// For records.
    piece: Piece,
    /// For nodes: the one that is being used up, and a whole one behind it.
    nodes: Piece,
    spare: Piece,
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
        self.end.load(Ordering::Relaxed) - self.next()
    }

    fn set(&self, next: usize, end: usize) {
        self.next.store(next, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
    }

    /// The next bytes, which must be there.
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
    /// How much a lane takes at once for records, and for nodes.
    piece_bytes: usize,
    node_bytes: usize,
}

impl Lanes {
    pub(super) fn new(limit: usize) -> Lanes {
        let lane = || {
            CachePadded::new(Lane {
                held: AtomicU32::new(0),
                records: AtomicUsize::new(0),
                piece: Piece::empty(),
                nodes: Piece::empty(),
                spare: Piece::empty(),
            })
        };
        let share = (limit / FRACTION).next_multiple_of(LINE);
        Lanes {
            lanes: (0..LANES).map(|_| lane()).collect(),
            piece_bytes: share.clamp(LEAST_BYTES, MOST_BYTES),
            node_bytes: share.min(MOST_NODES * Node::bytes(1)),
        }
    }

    /// How many records were inserted.
    pub(super) fn records(&self) -> usize {
        let records = |lane: &CachePadded<Lane>| lane.records.load(Ordering::Relaxed);
        self.lanes.iter().map(records).sum()
    }

    /// A lane, this thread's own if nobody else is in it.
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

impl Writer<'_> {
    /// Writes a record for which there is room, with room left for `nodes` new nodes; [`Full`] when there is none, and then
    /// nothing was written.
    pub(super) fn add_record(
        &mut self,
        key: &[u8],
        message: &Message<'_>,
        nodes: usize,
    ) -> Result<Place, Full> {
        self.stock(nodes * Node::bytes(1))?;
        let cost = Arena::cost(key, message.operand);
        let at = self.room(cost)?;
        // SAFETY: the bytes were just cut from a piece that only the holder of this lane uses, or taken for this record;
        // pieces begin and records end at a unit.
        Ok(unsafe { self.arena.put_record(at, key, message) })
    }

    fn room(&self, cost: usize) -> Result<usize, Full> {
        let lane = self.lane;
        if cost <= lane.piece.left() {
            return Ok(lane.piece.cut(cost));
        }
        if cost <= self.lanes.piece_bytes / LARGE_PART
            && let Some(at) = self.arena.take(self.lanes.piece_bytes, UNIT)
        {
            lane.piece.set(at, at + self.lanes.piece_bytes);
            return Ok(lane.piece.cut(cost));
        }
        // Large, or little is left.
        self.arena.take(cost, UNIT).ok_or(Full)
    }

    /// Sees to it that there are so many bytes for nodes.
    fn stock(&self, bytes: usize) -> Result<(), Full> {
        let lane = self.lane;
        if lane.spare.left() >= bytes || lane.nodes.left() >= bytes {
            return Ok(());
        }
        let at_once = self.lanes.node_bytes.max(bytes);
        let taken = self.arena.take(at_once, LINE).map(|at| (at, at + at_once));
        let (at, end) = match taken {
            Some(taken) => taken,
            None => self
                .arena
                .take(bytes, LINE)
                .map(|at| (at, at + bytes))
                .ok_or(Full)?,
        };
        if lane.spare.left() > 0 {
            // The tree has grown since the spare was taken; what it still has comes first.
            lane.nodes
                .set(lane.spare.next(), lane.spare.next() + lane.spare.left());
        }
        lane.spare.set(at, end);
        Ok(())
    }

    /// Adds a node; [`Full`] only when others have filled again and again what this writer has split.
    pub(super) fn add_node(&mut self, level: u32) -> Result<NodeId, Full> {
        let (lane, bytes) = (self.lane, Node::bytes(level));
        if lane.nodes.left() < bytes {
            if lane.spare.left() < bytes {
                self.stock(bytes)?;
            }
            let (next, left) = (lane.spare.next(), lane.spare.left());
            lane.nodes.set(next, next + left);
            lane.spare.set(0, 0);
        }
        let at = lane.nodes.cut(bytes);
        // SAFETY: the bytes were just cut from a piece that only the holder of this lane uses; pieces for nodes begin
        // at a line, and nodes are whole lines.
        Ok(unsafe { self.arena.put_node(at, level) })
    }

    /// Counts a record that was inserted.
    pub(super) fn count(&mut self) {
        let records = self.lane.records.load(Ordering::Relaxed);
        self.lane.records.store(records + 1, Ordering::Relaxed);
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.lane.held.store(0, Ordering::Release);
    }
}

/// The lane that this thread tries first: threads are numbered as they come.
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
