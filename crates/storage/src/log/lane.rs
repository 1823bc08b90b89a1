//! Lanes: where records are put, one after the other, each lane by one thread at a time.
//!
//! A lane has one segment. A record that does not fit what is left of it seals it and goes to the
//! next one, which comes from the pool. Only then can an append fail for want of space, and then
//! nothing has changed.

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
}

/// The segment that a lane writes.
#[derive(Debug)]
struct Active {
    segment: Arc<Segment>,
    at: u64,
    pen: Pen,
    /// It did not fit the ordinary limit: what is written to it may use the reserve.
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
    pub(super) count: u64,
    /// Every sequence up to this one is in the page cache: below the record's own.
    pub(super) complete: u64,
    /// The caller's bytes.
    pub(super) payload: &'a [u8],
    /// More of the caller's bytes, behind those.
    pub(super) tail: &'a [u8],
}

impl Entry<'_> {
    /// Returns how many bytes are the caller's.
    pub(super) fn len(&self) -> usize {
        self.payload.len() + self.tail.len()
    }

    /// What control records have in common.
    pub(super) const CONTROL: Entry<'static> = Entry {
        kind: Kind::Note,
        first: 0,
        count: 0,
        complete: 0,
        payload: &[],
        tail: &[],
    };
}

static NEXT_WRITER: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of this thread among those that have ever used a log, so that threads spread over
    /// lanes.
    static WRITER: Cell<usize> = Cell::new(NEXT_WRITER.fetch_add(1, Ordering::Relaxed));
}

/// From now on this thread appends as the writer of this number, which chooses its lane: for
/// simulations, in which one thread plays many and everything follows from a seed.
pub fn write_as(writer: usize) {
    WRITER.set(writer);
}

impl Lanes {
    /// Lanes without segments.
    #[must_use]
    pub(super) fn new(count: usize) -> Lanes {
        assert!((1..=super::options::MAX_LANES).contains(&count), "{count} lanes");
        let lane = |number| {
            CachePadded::new(Mutex::new(Lane {
                number: number as u16,
                current: None,
            }))
        };
        Lanes {
            lanes: (0..count).map(lane).collect(),
        }
    }

    /// Returns how many there are.
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

    /// Returns the first lane: control records go there.
    pub(super) fn first(&self) -> MutexGuard<'_, Lane> {
        self.lanes[0].lock()
    }

    /// Returns a lane for this thread's next record. Commits that wait for the device share the
    /// first lane, so that a single sync serves them. Other commits prefer a lane of the thread's
    /// own, and move on when it is taken. That lane is never the first one, because a write to a
    /// page that is being synced waits.
    pub(super) fn pick(&self, durability: Durability) -> MutexGuard<'_, Lane> {
        if durability == Durability::Disk || self.lanes.len() == 1 {
            return self.first();
        }
        assert!(self.lanes.len() > 1, "the first lane is for syncs");
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
    /// Returns where the lane stands: its segment and the next position.
    #[must_use]
    pub(super) fn position(&self) -> Option<(&Arc<Segment>, u64)> {
        self.current.as_ref().map(|active| (&active.segment, active.at))
    }

    fn fits(&mut self, shared: &Shared, total: u64, claim: Claim) -> bool {
        let Some(active) = &mut self.current else {
            return false;
        };
        let refused = active.reserved && !shared.pool.has_room(claim);
        !refused && active.at + total + SEAL_BYTES <= active.segment.slot.len
    }

    /// Puts a record at the end of the lane. It is in the page cache when this returns.
    ///
    /// # Errors
    /// `LogFull` and `DiskFull` with nothing changed; otherwise the log is poisoned.
    pub(super) fn put(&mut self, shared: &Shared, entry: Entry<'_>, claim: Claim) -> Result<()> {
        let total = record_len(entry.len() as u64);
        if !self.fits(shared, total, claim) {
            self.switch(shared, total, claim)?;
        }
        let active = self.current.as_mut().expect("a lane has switched to a segment");
        active
            .put(entry, shared.commit.synced())
            .map_err(|error| shared.poison_unless_full(error))
    }

    /// Seals the segment and goes on to another one with space for `total` bytes.
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
        // Records of earlier incarnations are copied into the segments of a recovery.
        let above = if shared.is_recovering() {
            0
        } else {
            shared.watermark.completed()
        };
        debug_assert!(
            BLOCK_BYTES as u64 + total + SEAL_BYTES <= taken.slot.len,
            "the header, the record and a seal fit"
        );
        let segment = Arc::new(Segment::begun(Arc::clone(&taken.slot), header, above));
        let mut pen = Pen::new(&taken.slot);
        // SAFETY: the slot came out of the pool, and only this lane has it.
        unsafe { pen.put(0, [&header.encode(), &[]], BLOCK_BYTES as u64) };
        let begun = pen
            .flush(&taken.slot)
            .and_then(|()| shared.make_first_durable(&segment));
        if let Err(error) = begun {
            // After any other failure nothing is appended any more.
            if error.is_full() {
                let given = shared.pool.give_back(taken.slot);
                given.map_err(|error| shared.poison_unless_full(error))?;
            }
            return Err(shared.poison_unless_full(error));
        }
        shared.table.lock().push(Arc::clone(&segment));
        let number = header.number;
        self.current = Some(Active {
            segment,
            at: BLOCK_BYTES as u64,
            pen,
            reserved: taken.reserved,
        });
        // Before any record: whatever is in the segment, it is missed if the segment is.
        shared
            .mark_lanes(&[(self.number, Some(number))])
            .map_err(|error| shared.poison_unless_full(error))?;
        self.pay(shared, total)
    }

    /// Puts the voids that are owed at the start of a segment, as far as `total` bytes more fit
    /// behind them.
    fn pay(&mut self, shared: &Shared, total: u64) -> Result<()> {
        let mut owed = shared.owed.lock();
        let active = self.current.as_mut().expect("a segment was just begun");
        while let Some(&(first, last)) = owed.open.last() {
            if active.at + record_len(0) + total + SEAL_BYTES > active.segment.slot.len {
                return Ok(());
            }
            let void = Entry {
                kind: Kind::Void,
                first,
                count: last - first + 1,
                complete: shared.watermark.completed(),
                ..Entry::CONTROL
            };
            active
                .put(void, shared.commit.synced())
                .map_err(|error| shared.poison_unless_full(error))?;
            owed.open.pop();
            owed.taken.push((first, last));
            shared.completed(first, last);
        }
        Ok(())
    }

    /// Goes on to an ordinary segment where the lane stands in one of a long record, if the log has
    /// space: what names the newest generation keeps its segment, and might keep most of the log
    /// that way.
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
            complete: shared.watermark.completed(),
            ..Entry::CONTROL
        };
        active.put(seal, shared.commit.synced())?;
        debug_assert!(active.at <= active.segment.slot.len, "the seal had its place");
        active.segment.retire();
        self.current = None;
        Ok(())
    }

    /// Leaves the lane's segment, if all of it is overtaken by `through` and it is not the one that
    /// `pinned` names. The lane's number, if it did.
    pub(super) fn leave(&mut self, through: u64, pinned: u64) -> Option<u16> {
        let overtaken = |active: &Active| {
            let highest = active.segment.highest();
            highest > 0 && highest <= through && active.segment.header.number != pinned
        };
        if self.current.as_ref().is_some_and(overtaken) {
            let active = self.current.take().expect("it was there a moment ago");
            active.segment.retire();
            return Some(self.number);
        }
        None
    }
}

impl Active {
    /// Puts a record into the page cache. Nothing changes on failure.
    fn put(&mut self, entry: Entry<'_>, synced: u64) -> Result<()> {
        debug_assert!(!entry.kind.is_numbered() || (entry.first > 0 && entry.count > 0));
        debug_assert!(self.segment.is_active(), "a sealed segment takes no record");
        let header = RecordHeader {
            len: entry.len() as u32,
            count: entry.count,
            first: entry.first,
            synced,
            complete: entry.complete,
            kind: entry.kind,
        };
        let bytes = header.encode_parts(self.segment.seed, self.at, [entry.payload, entry.tail]);
        let total = record_len(entry.len() as u64);
        assert!(
            self.at + total <= self.segment.slot.len,
            "a record fits its segment"
        );
        debug_assert!(
            self.at >= BLOCK_BYTES as u64 && self.at.is_multiple_of(super::format::ALIGNMENT),
            "a record at {} lies aligned behind the header",
            self.at
        );
        // SAFETY: the slot belongs to this lane until it is released, and the lane is locked.
        unsafe { self.pen.put(self.at, [&bytes, entry.payload, entry.tail], total) };
        if self.pen.is_broken() {
            return Err(self.broken());
        }
        if let Err(error) = self.pen.flush(&self.segment.slot) {
            self.pen.take_back(self.at);
            return Err(error);
        }
        self.at += total;
        self.segment.wrote(self.at);
        if entry.kind.is_numbered() {
            self.segment.holds(entry.first + entry.count - 1);
        }
        Ok(())
    }

    /// Returns the error of a store that failed.
    fn broken(&self) -> Error {
        Error::Device(alluvium_device::Error::Io {
            operation: alluvium_device::Operation::Write,
            file: self.segment.slot.file.name().to_owned(),
            offset: self.at,
            len: 0,
            source: std::io::Error::other("a store into its mapping failed"),
        })
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
