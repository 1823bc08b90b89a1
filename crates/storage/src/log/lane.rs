//! Lanes: where records are put, one after the other, each lane by one thread at a time.
//!
//! A lane has one segment. A record that does not fit what is left of it seals it and goes to the next one, which
//! comes from the pool; only then can an append fail for lack of room, and then nothing has changed.

use super::format::{BLOCK_BYTES, Kind, RECORD_BYTES, RecordHeader, SegmentHeader, record_len};
use super::options::Durability;
use super::pool::Claim;
use super::segment::{Pen, Segment};
use super::shared::Shared;
use crate::{Error, Result};
use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes may wait in a lane's buffer, where segments are written by calls.
pub(super) const BUFFER_BYTES: usize = 64 << 10;

/// What a lane keeps at the end of its segment for the seal.
const SEAL_BYTES: u64 = RECORD_BYTES as u64;

/// All lanes of a log.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Box<[CachePadded<Mutex<Lane>>]>,
}

/// Where one writer at a time puts records.
#[derive(Debug)]
pub(super) struct Lane {
    number: u16,
    current: Option<Active>,
    /// The highest synced watermark that a record of this lane names.
    named: u64,
}

/// The segment that a lane writes.
#[derive(Debug)]
struct Active {
    segment: Arc<Segment>,
    at: u64,
    pen: Pen,
    /// It did not fit the ordinary limit: whoever writes it must have room.
    reserved: bool,
}

/// A record on its way into a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    /// What it is.
    pub(super) kind: Kind,
    /// The first sequence, or the generation that a control record names.
    pub(super) first: u64,
    /// How many sequences.
    pub(super) count: u32,
    /// The caller's bytes.
    pub(super) payload: &'a [u8],
}

static NEXT_WRITER: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of this thread among those that have ever used a log, so that threads spread over lanes.
    static WRITER: Cell<usize> = Cell::new(NEXT_WRITER.fetch_add(1, Ordering::Relaxed));
}

/// From now on this thread appends as the writer of this number, which chooses its lane: for simulations, in which one
/// thread plays many and everything follows from a seed.
pub fn write_as(writer: usize) {
    WRITER.set(writer);
}

impl Lanes {
    /// Lanes without segments.
    #[must_use]
    pub(super) fn new(count: usize) -> Lanes {
        let lane = |number| {
            CachePadded::new(Mutex::new(Lane {
                number: number as u16,
                current: None,
                named: 0,
            }))
        };
        Lanes {
            lanes: (0..count).map(lane).collect(),
        }
    }

    /// How many there are.
    #[must_use]
    pub(super) fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Each lane, locked in turn.
    pub(super) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, Lane>> {
        self.lanes.iter().map(|lane| lane.lock())
    }

    /// One lane.
    pub(super) fn get(&self, number: usize) -> MutexGuard<'_, Lane> {
        self.lanes[number].lock()
    }

    /// The first lane: control records go there.
    pub(super) fn first(&self) -> MutexGuard<'_, Lane> {
        self.lanes[0].lock()
    }

    /// A lane for this thread's next record. Commits that wait for the device share the first one, so that one sync
    /// serves them all; others prefer the thread's own, which is not that one, for a page that is being synced is one to wait for, and move
    /// on when it is taken.
    pub(super) fn pick(&self, durability: Durability) -> MutexGuard<'_, Lane> {
        if durability == Durability::Disk || self.lanes.len() == 1 {
            return self.first();
        }
        let own = 1 + WRITER.get() % (self.lanes.len() - 1);
        let others = (own..self.lanes.len()).chain(0..own);
        for lane in others {
            if let Some(lane) = self.lanes[lane].try_lock() {
                return lane;
            }
        }
        self.lanes[own].lock()
    }
}

impl Lane {
    /// Where the lane stands: its segment and the next position.
    #[must_use]
    pub(super) fn position(&self) -> Option<(&Arc<Segment>, u64)> {
        self.current.as_ref().map(|active| (&active.segment, active.at))
    }

    /// The highest synced watermark that a record of this lane names.
    #[must_use]
    pub(super) fn named(&self) -> u64 {
        self.named
    }

    fn fits(&mut self, shared: &Shared, total: u64, claim: Claim) -> bool {
        let Some(active) = &mut self.current else {
            return false;
        };
        let refused = active.reserved && !shared.pool.has_room(claim);
        !refused && active.at + total + SEAL_BYTES <= active.segment.slot.len
    }

    /// Puts a record at the end of the lane. It is in the page cache when this returns, unless `durability` is `Memory`.
    ///
    /// # Errors
    /// `LogFull` and `DiskFull` with nothing changed; otherwise the log is poisoned.
    pub(super) fn put(
        &mut self,
        shared: &Shared,
        entry: Entry<'_>,
        durability: Durability,
        claim: Claim,
    ) -> Result<()> {
        let total = record_len(entry.payload.len() as u64);
        if !self.fits(shared, total, claim) {
            self.switch(shared, total, claim)?;
        }
        let synced = shared.commit.synced();
        let active = self.current.as_mut().expect("a lane has switched to a segment");
        active.put(entry, synced);
        self.named = synced;
        if active.pen.waiting() > 0 {
            shared.note_buffering();
            let wait = durability == Durability::Memory && active.pen.waiting() < BUFFER_BYTES;
            let flushed = if wait {
                Ok(())
            } else {
                active.pen.flush(&active.segment.slot)
            };
            if let Err(error) = flushed {
                active.take_back(total);
                return Err(shared.poison_unless_full(error));
            }
        }
        active.settle();
        if entry.kind.is_numbered() {
            active.segment.holds(entry.first + u64::from(entry.count) - 1);
        }
        Ok(())
    }

    /// Seals the segment and goes on to another one that has room for `total` bytes.
    fn switch(&mut self, shared: &Shared, total: u64, claim: Claim) -> Result<()> {
        let taken = shared
            .pool
            .take(total, claim)
            .map_err(|error| shared.poison_unless_full(error))?;
        if let Err(error) = self.seal(shared) {
            shared
                .pool
                .give_back(taken.slot)
                .map_err(|error| shared.poison_unless_full(error))?;
            return Err(shared.poison_unless_full(error));
        }
        let header = SegmentHeader {
            slot: taken.slot.index,
            number: shared.next_number(),
            lane: self.number,
            len: taken.slot.len,
            mapped: taken.slot.mapping().is_some(),
            synced: shared.commit.synced(),
            ..shared.header()
        };
        let segment = Arc::new(Segment::begun(Arc::clone(&taken.slot), header));
        let mut pen = Pen::new(&taken.slot);
        // SAFETY: the slot came out of the pool, and only this lane has it.
        unsafe { pen.put(0, [&header.encode(), &[]], BLOCK_BYTES as u64) };
        shared.table.lock().push(Arc::clone(&segment));
        self.current = Some(Active {
            segment,
            at: BLOCK_BYTES as u64,
            pen,
            reserved: taken.reserved,
        });
        Ok(())
    }

    /// Goes on to an ordinary segment where the lane stands in one of a long record, if there is
    /// room: what names the newest generation keeps
    /// its segment, and might keep most of the log that way.
    ///
    /// # Errors
    /// As the device says; the log is poisoned then.
    pub(super) fn leave_long(&mut self, shared: &Shared) -> Result<()> {
        let is_long = |active: &Active| active.segment.slot.len > shared.segment_bytes();
        if !self.current.as_ref().is_some_and(is_long) {
            return Ok(());
        }
        match self.switch(shared, record_len(0), Claim::Control) {
            Err(error) if error.is_full() => Ok(()),
            other => other,
        }
    }

    /// Ends the segment with a seal. Nothing changes on failure.
    fn seal(&mut self, shared: &Shared) -> Result<()> {
        let Some(active) = &mut self.current else {
            return Ok(());
        };
        let seal = Entry {
            kind: Kind::Seal,
            first: shared.generation(),
            count: 0,
            payload: &[],
        };
        active.put(seal, shared.commit.synced());
        if let Err(error) = active.pen.flush(&active.segment.slot) {
            active.take_back(SEAL_BYTES);
            return Err(error);
        }
        active.settle();
        active.segment.retire();
        self.current = None;
        Ok(())
    }

    /// Brings what waits in the lane's buffer into the page cache.
    ///
    /// # Errors
    /// As the device says; the log is poisoned unless the disk was full.
    pub(super) fn drain(&mut self, shared: &Shared) -> Result<()> {
        if let Some(active) = &mut self.current {
            active
                .pen
                .flush(&active.segment.slot)
                .map_err(|error| shared.poison_unless_full(error))?;
            active.settle();
        }
        Ok(())
    }

    /// Leaves the lane's segment, if all of it is overtaken by `through` and it is not the one that `pinned` names.
    pub(super) fn leave(&mut self, through: u64, pinned: u64) {
        let overtaken = |active: &Active| {
            let highest = active.segment.highest();
            highest > 0 && highest <= through && active.segment.header.number != pinned
        };
        if self.current.as_ref().is_some_and(overtaken) {
            let active = self.current.take().expect("it was there a moment ago");
            active.segment.retire();
        }
    }
}

impl Active {
    fn put(&mut self, entry: Entry<'_>, synced: u64) {
        let header = RecordHeader {
            len: entry.payload.len() as u32,
            count: entry.count,
            first: entry.first,
            synced,
            kind: entry.kind,
        };
        let bytes = header.encode(self.segment.seed, self.at, entry.payload);
        let total = record_len(entry.payload.len() as u64);
        assert!(
            self.at + total <= self.segment.slot.len,
            "a record fits its segment"
        );
        // SAFETY: the slot belongs to this lane until it is released, and the lane is locked.
        unsafe { self.pen.put(self.at, [&bytes, entry.payload], total) };
        self.at += total;
    }

    fn take_back(&mut self, total: u64) {
        self.at -= total;
        self.pen.take_back(self.at);
    }

    /// What does not wait in the buffer is in the page cache.
    fn settle(&mut self) {
        if self.pen.waiting() == 0 {
            self.segment.wrote(self.at);
        }
    }
}

/// Refuses payloads that no log takes.
///
/// # Errors
/// [`Error::BadOption`] with the limit.
pub(super) fn check_payload(len: usize) -> Result<()> {
    if len as u64 <= super::options::MAX_PAYLOAD {
        return Ok(());
    }
    let why = format!(
        "{len} bytes are more than the {} that one record may have; split it",
        super::options::MAX_PAYLOAD
    );
    Err(Error::BadOption {
        option: "log record",
        why,
    })
}
