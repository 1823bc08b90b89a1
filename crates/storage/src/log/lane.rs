//! Lanes. A lane is a sequence of records to which one thread at a time appends.
//!
//! A lane has one current segment. If the next record does not fit, the lane seals this segment and
//! begins another one from the pool. This is the only step in which an append can run out of space,
//! and nothing has changed at that point.

use super::format::{BLOCK_BYTES, RECORD_BYTES, RecordHeader, RecordKind, SegmentHeader, record_len};
use super::options::LogDurability;
use super::pool::SlotPriority;
use super::segment::{LogSegment, SegmentWriter};
use super::shared::LogInner;
use crate::{Error, Result};
use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of bytes reserved at the end of a segment for the seal.
const SEAL_BYTES: u64 = RECORD_BYTES as u64;

/// All lanes of a log.
#[derive(Debug)]
pub(super) struct LaneSet {
    lanes: Box<[CachePadded<Mutex<LogLane>>]>,
}

/// A lane, to which one thread at a time appends records.
#[derive(Debug)]
pub(super) struct LogLane {
    number: u16,
    current: Option<LaneSegment>,
}

/// The segment to which a lane currently appends.
#[derive(Debug)]
struct LaneSegment {
    segment: Arc<LogSegment>,
    at: u64,
    pen: SegmentWriter,
    /// Whether the segment was allocated beyond the limit for ordinary writes. Only writes that may
    /// use the reserve may append to such a segment.
    reserved: bool,
}

/// A record to be appended to a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneRecord<'a> {
    /// The kind of the record.
    pub(super) kind: RecordKind,
    /// The first sequence number of the record, or the generation that a control record names.
    pub(super) first: u64,
    pub(super) count: u64,
    /// The completion watermark, which is lower than the sequence numbers of this record.
    pub(super) complete: u64,
    /// The caller's payload, or the first part of it.
    pub(super) payload: &'a [u8],
    /// The second part of the payload, which may be empty.
    pub(super) tail: &'a [u8],
}

impl LaneRecord<'_> {
    /// Returns the size of the payload in bytes.
    pub(super) fn len(&self) -> usize {
        self.payload.len() + self.tail.len()
    }

    /// Default values for the fields of a control record.
    pub(super) const CONTROL: LaneRecord<'static> = LaneRecord {
        kind: RecordKind::Note,
        first: 0,
        count: 0,
        complete: 0,
        payload: &[],
        tail: &[],
    };
}

static NEXT_WRITER: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// This thread's number, in the order in which threads first used a log. It spreads threads
    /// over the lanes.
    static WRITER: Cell<usize> = Cell::new(NEXT_WRITER.fetch_add(1, Ordering::Relaxed));
}

/// Sets the writer number of the current thread, which selects its lane. Deterministic simulations
/// use this to let one thread act as several writers.
pub fn write_as(writer: usize) {
    WRITER.set(writer);
}

impl LaneSet {
    /// Creates `count` lanes without segments.
    #[must_use]
    pub(super) fn new(count: usize) -> LaneSet {
        assert!((1..=super::options::MAX_LANES).contains(&count), "{count} lanes");
        let lane = |number| {
            CachePadded::new(Mutex::new(LogLane {
                number: number as u16,
                current: None,
            }))
        };
        LaneSet {
            lanes: (0..count).map(lane).collect(),
        }
    }

    /// Returns the number of lanes.
    #[must_use]
    pub(super) fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Returns an iterator that locks each lane as it returns it.
    pub(super) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, LogLane>> {
        self.lanes.iter().map(|lane| lane.lock())
    }

    pub(super) fn get(&self, number: usize) -> MutexGuard<'_, LogLane> {
        self.lanes[number].lock()
    }

    /// Locks and returns the first lane, which holds the control records.
    pub(super) fn first(&self) -> MutexGuard<'_, LogLane> {
        self.lanes[0].lock()
    }

    /// Locks and returns a lane for this thread's next record. All commits that wait for the device
    /// use the first lane, so that a single sync serves all of them. Other commits use the thread's
    /// own lane, or another one if that lane is locked. A thread's own lane is never the first one,
    /// because a write to a page that is being synced has to wait.
    pub(super) fn pick(&self, durability: LogDurability) -> MutexGuard<'_, LogLane> {
        if durability == LogDurability::Disk || self.lanes.len() == 1 {
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

impl LogLane {
    /// Returns the lane's current segment and the offset of its next record, or `None` if the lane
    /// has no segment.
    #[must_use]
    pub(super) fn position(&self) -> Option<(&Arc<LogSegment>, u64)> {
        self.current.as_ref().map(|active| (&active.segment, active.at))
    }

    fn fits(&mut self, shared: &LogInner, total: u64, claim: SlotPriority) -> bool {
        let Some(active) = &mut self.current else {
            return false;
        };
        let refused = active.reserved && !shared.pool.has_room(claim);
        !refused && active.at + total + SEAL_BYTES <= active.segment.slot.len
    }

    /// Appends a record to the lane. When this returns, the record is in the page cache.
    ///
    /// # Errors
    /// `LogFull` or `DiskFull`, in which case nothing has changed. After any other error, the log
    /// refuses further appends.
    pub(super) fn put(
        &mut self,
        shared: &LogInner,
        entry: LaneRecord<'_>,
        claim: SlotPriority,
    ) -> Result<()> {
        let total = record_len(entry.len() as u64);
        if !self.fits(shared, total, claim) {
            self.switch(shared, total, claim)?;
        }
        let active = self.current.as_mut().expect("a lane has switched to a segment");
        active
            .put(entry, shared.commit.synced())
            .map_err(|error| shared.poison_unless_full(error))
    }

    /// Seals the current segment, and begins another one with space for a record of `total` bytes.
    fn switch(&mut self, shared: &LogInner, total: u64, claim: SlotPriority) -> Result<()> {
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
        // During a recovery, the new segment may contain records of earlier incarnations, whose
        // sequence numbers are lower.
        let above = if shared.is_recovering() {
            0
        } else {
            shared.watermark.completed()
        };
        debug_assert!(
            BLOCK_BYTES as u64 + total + SEAL_BYTES <= taken.slot.len,
            "the header, the record and a seal fit"
        );
        let segment = Arc::new(LogSegment::begun(Arc::clone(&taken.slot), header, above));
        let mut pen = SegmentWriter::new(&taken.slot);
        // SAFETY: the slot was just taken from the pool, so this lane is its only owner.
        unsafe { pen.put(0, [&header.encode(), &[]], BLOCK_BYTES as u64) };
        let begun = pen
            .flush(&taken.slot)
            .and_then(|()| shared.make_first_durable(&segment));
        if let Err(error) = begun {
            // After any other error, nothing more is appended to the log, so the slot need not be
            // returned to the pool.
            if error.is_full() {
                let given = shared.pool.give_back(taken.slot);
                given.map_err(|error| shared.poison_unless_full(error))?;
            }
            return Err(shared.poison_unless_full(error));
        }
        shared.table.lock().push(Arc::clone(&segment));
        let number = header.number;
        self.current = Some(LaneSegment {
            segment,
            at: BLOCK_BYTES as u64,
            pen,
            reserved: taken.reserved,
        });
        // Write the mark before the first record, so that losing the segment is detected no matter
        // which records it contained.
        shared
            .mark_lanes(&[(self.number, Some(number))])
            .map_err(|error| shared.poison_unless_full(error))?;
        self.write_owed_voids(shared, total)
    }

    /// Writes remembered voids to a new segment as long as `total` more bytes fit after them.
    fn write_owed_voids(&mut self, shared: &LogInner, total: u64) -> Result<()> {
        let mut owed = shared.owed.lock();
        let active = self.current.as_mut().expect("a segment was just begun");
        while let Some(&(first, last)) = owed.open.last() {
            if active.at + record_len(0) + total + SEAL_BYTES > active.segment.slot.len {
                return Ok(());
            }
            let void = LaneRecord {
                kind: RecordKind::Void,
                first,
                count: last - first + 1,
                complete: shared.watermark.completed(),
                ..LaneRecord::CONTROL
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

    /// If the current segment was created for a long record, begins an ordinary segment, provided
    /// the log has space for it. The lane is about to write a record whose segment must be kept,
    /// and keeping a long segment could tie up most of the log.
    ///
    /// # Errors
    /// I/O errors, after which the log refuses further appends.
    pub(super) fn leave_long(&mut self, shared: &LogInner) -> Result<()> {
        let is_long = |active: &LaneSegment| active.segment.slot.len > shared.segment_bytes();
        if !self.current.as_ref().is_some_and(is_long) {
            return Ok(());
        }
        match self.switch(shared, record_len(0), SlotPriority::Control) {
            Err(error) if error.is_full() => Ok(()),
            other => other,
        }
    }

    /// Seals the current segment. If this fails, nothing has changed.
    fn seal(&mut self, shared: &LogInner) -> Result<()> {
        let Some(active) = &mut self.current else {
            return Ok(());
        };
        let seal = LaneRecord {
            kind: RecordKind::Seal,
            first: shared.generation(),
            complete: shared.watermark.completed(),
            ..LaneRecord::CONTROL
        };
        active.put(seal, shared.commit.synced())?;
        debug_assert!(active.at <= active.segment.slot.len, "the seal had its place");
        active.segment.retire();
        self.current = None;
        Ok(())
    }

    /// Closes the lane's current segment if a checkpoint up to `through` covers all its records,
    /// unless the segment has number `pinned`. Returns the lane's number if the segment was closed,
    /// and `None` otherwise.
    pub(super) fn leave(&mut self, through: u64, pinned: u64) -> Option<u16> {
        let overtaken = |active: &LaneSegment| {
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

impl LaneSegment {
    /// Writes a record to the page cache. If this fails, nothing has changed.
    fn put(&mut self, entry: LaneRecord<'_>, synced: u64) -> Result<()> {
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
        // SAFETY: the slot belongs to this lane until its segment is released, and the lane is
        // locked, so there is no other writer.
        unsafe { self.pen.put(self.at, [&bytes, entry.payload, entry.tail], total) };
        if self.pen.is_broken() {
            return Err(self.broken());
        }
        if let Err(error) = self.pen.flush(&self.segment.slot) {
            self.pen.take_back(self.at);
            return Err(error);
        }
        self.at += total;
        self.segment.set_written(self.at);
        if entry.kind.is_numbered() {
            self.segment.holds(entry.first + entry.count - 1);
        }
        Ok(())
    }

    /// Returns the error for a failed write to the memory mapping.
    fn broken(&self) -> Error {
        Error::Device(alluvium_device::Error::Io {
            operation: alluvium_device::DeviceOperation::Write,
            file: self.segment.slot.file.name().to_owned(),
            offset: self.at,
            len: 0,
            source: std::io::Error::other("a memory write to the mapped file failed"),
        })
    }
}

/// Returns an error if a payload is longer than a record allows.
///
/// # Errors
/// [`Error::BadOption`], which states the maximum length.
pub(super) fn check_payload(len: usize) -> Result<()> {
    if len as u64 <= super::options::MAX_PAYLOAD {
        return Ok(());
    }
    let why = format!(
        "{len} bytes exceed the limit of {} for one record; split it",
        super::options::MAX_PAYLOAD
    );
    Err(Error::BadOption {
        option: "log record",
        why,
    })
}
