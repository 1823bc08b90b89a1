//! What all parts of an open log share, and how an append goes through them.

use super::close;
use super::commit::Commit;
use super::format::{CloseMark, Kind, SegmentHeader};
use super::history::History;
use super::lane::{Entry, Lanes, check_payload};
use super::options::{Durability, LogOptions};
use super::pool::{Claim, Limit, Pool};
use super::segment::Segment;
use crate::watermark::Watermark;
use crate::{Error, Result};
use alluvium_device::{BootId, Device, Directory};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An open log.
#[derive(Debug)]
pub(super) struct Shared {
    /// The store's directory.
    pub(super) directory: Arc<dyn Directory>,
    /// As opened.
    pub(super) options: LogOptions,
    /// Slots that no lane writes.
    pub(super) pool: Pool,
    /// Where records are put.
    pub(super) lanes: Lanes,
    /// Which sequences are complete.
    pub(super) watermark: Watermark,
    /// Which of them are synced, and whether anything failed.
    pub(super) commit: Commit,
    /// Every segment that is not released. Locked after lanes and before the pool.
    pub(super) table: Mutex<Vec<Arc<Segment>>>,
    /// Where a clean close is marked, if there was room for the file.
    close_file: Option<Arc<dyn Device>>,
    origin: Origin,
    next_number: AtomicU64,
    /// The newest generation that is known to be durable.
    generation: AtomicU64,
    /// The number of the segment that is kept because it names the newest generation and the incarnation, durably.
    pinned: AtomicU64,
    /// Everything up to here is held by a durable checkpoint.
    released: AtomicU64,
    /// Whether any lane may have records waiting in its buffer.
    buffering: AtomicBool,
    /// Bytes of the segments that recovery kept or wrote: they may exceed the limit until they are released.
    recovered_bytes: AtomicU64,
    /// Syncs of files and mapped ranges.
    syncs: AtomicU64,
    /// Released segments that are kept for who follows the log.
    pub(super) history: History,
}

/// Where a log's incarnation begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// Grows with every opening.
    pub(super) incarnation: u64,
    /// The last sequence of earlier incarnations that counts.
    pub(super) base: u64,
    /// This machine's boot.
    pub(super) boot: BootId,
    /// The newest generation.
    pub(super) generation: u64,
    /// What is known to be synced.
    pub(super) synced: u64,
    /// Everything up to here is held by a durable checkpoint.
    pub(super) released: u64,
    /// The number of the next segment.
    pub(super) number: u64,
}

impl Shared {
    /// A log without segments.
    ///
    /// # Errors
    /// As the device says.
    pub(super) fn new(
        directory: &Arc<dyn Directory>,
        options: LogOptions,
        names: BTreeSet<u32>,
        origin: Origin,
    ) -> Result<Shared> {
        Ok(Shared {
            close_file: close::prepare(directory.as_ref())?,
            pool: Pool::new(Arc::clone(directory), options, names),
            lanes: Lanes::new(options.lanes),
            watermark: Watermark::new(origin.base),
            commit: Commit::new(origin.synced),
            table: Mutex::new(Vec::new()),
            next_number: AtomicU64::new(origin.number),
            generation: AtomicU64::new(origin.generation),
            pinned: AtomicU64::new(0),
            released: AtomicU64::new(origin.released),
            buffering: AtomicBool::new(false),
            recovered_bytes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            history: History::new(origin.released),
            directory: Arc::clone(directory),
            options,
            origin,
        })
    }

    /// Marks durably that the log ends at the synced watermark. Without room for the mark there is none.
    ///
    /// # Errors
    /// As the device says.
    pub(super) fn mark_closed(&self) -> Result<()> {
        let Some(file) = &self.close_file else {
            return Ok(());
        };
        let mark = CloseMark {
            incarnation: self.origin.incarnation,
            generation: self.generation(),
            synced: self.commit.synced(),
            identity: self.options.identity,
        };
        close::write(file.as_ref(), &mark)
    }

    /// What every segment header of this incarnation says; the rest is the segment's own.
    #[must_use]
    pub(super) fn header(&self) -> SegmentHeader {
        SegmentHeader {
            slot: 0,
            number: 0,
            incarnation: self.origin.incarnation,
            base: self.origin.base,
            boot: self.origin.boot,
            generation: self.generation(),
            synced: 0,
            len: 0,
            identity: self.options.identity,
            lane: 0,
            mapped: false,
        }
    }

    /// The number of a segment about to be activated.
    #[must_use]
    pub(super) fn next_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// The newest generation that is known to be durable.
    #[must_use]
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The number of the segment that must stay.
    #[must_use]
    pub(super) fn pinned(&self) -> u64 {
        self.pinned.load(Ordering::Acquire)
    }

    /// Everything up to here is held by a durable checkpoint.
    #[must_use]
    pub(super) fn released(&self) -> u64 {
        self.released.load(Ordering::Acquire)
    }

    /// Raises what is held by a durable checkpoint.
    pub(super) fn raise_released(&self, through: u64) {
        self.released.fetch_max(through, Ordering::AcqRel);
        self.commit.raise(through);
    }

    /// How many bytes were live when recovery had ended.
    #[must_use]
    pub(super) fn recovered_bytes(&self) -> u64 {
        self.recovered_bytes.load(Ordering::Relaxed)
    }

    /// Recovery has ended.
    pub(super) fn end_recovery(&self) {
        let live = self.pool.usage().live_bytes;
        self.recovered_bytes.store(live, Ordering::Relaxed);
        self.pool.ignore_limit(Limit::Kept);
    }

    /// Takes away the mark of a clean close, or what is left of it.
    ///
    /// # Errors
    /// As the device says.
    pub(super) fn clear_mark(&self) -> Result<()> {
        self.close_file.as_deref().map_or(Ok(()), close::clear)
    }

    /// How many syncs the log has asked the device for.
    #[must_use]
    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// A lane has records in its buffer.
    pub(super) fn note_buffering(&self) {
        self.buffering.store(true, Ordering::Release);
    }

    /// A failed write or sync is for good; a full disk is not one.
    pub(super) fn poison_unless_full(&self, error: Error) -> Error {
        if !error.is_full() && !matches!(error, Error::Poisoned { .. }) {
            self.commit.poison(&error.to_string());
        }
        error
    }

    /// Puts a record and waits until `durability` holds.
    ///
    /// # Errors
    /// As [`Log::append`](super::Log::append).
    pub(super) fn append(&self, entry: Entry<'_>, durability: Durability, claim: Claim) -> Result<()> {
        self.commit.healthy()?;
        check_payload(entry.len())?;
        assert!(
            entry.first > 0 && entry.count > 0,
            "a record covers sequences from 1 on"
        );
        let last = entry.first + u64::from(entry.count) - 1;
        if !self.watermark.has_room(entry.first) {
            self.commit.sleep_until(|| self.watermark.has_room(entry.first))?;
        }
        let put = |claim| self.lanes.pick(durability).put(self, entry, durability, claim);
        match put(claim) {
            Err(error) if error.is_full() && self.is_in_the_way(&entry) => put(Claim::Unblock)?,
            other => other?,
        }
        if self.watermark.complete(entry.first, last) {
            self.commit.completed_moved();
        }
        if durability == Durability::Disk {
            self.wait_synced(last)?;
        }
        Ok(())
    }

    /// Whether a checkpoint could release nothing before this record is appended or given up: it is the lowest that is
    /// incomplete, and there are records above it. (A writer that loses its processor between the assignment of a
    /// sequence and its append can find that the others have filled the log.)
    fn is_in_the_way(&self, entry: &Entry<'_>) -> bool {
        let above = || {
            self.table
                .lock()
                .iter()
                .any(|segment| segment.highest() > entry.first)
        };
        entry.first == self.watermark.completed() + 1 && (entry.kind == Kind::Void || above())
    }

    /// Blocks until everything up to `target` is synced.
    ///
    /// # Errors
    /// The device's, for whoever called it; [`Error::Poisoned`] for everybody else, and for a full disk: to the caller
    /// that would mean that nothing was written.
    pub(super) fn wait_synced(&self, target: u64) -> Result<()> {
        let waited = self
            .commit
            .wait(target, || self.watermark.completed(), || self.sync_segments());
        waited.map_err(|error| match error {
            full if full.is_full() => Error::Poisoned {
                cause: full.to_string(),
            },
            other => other,
        })
    }

    /// Brings every lane's buffer into the page cache.
    ///
    /// # Errors
    /// As the device says.
    pub(super) fn drain(&self) -> Result<()> {
        if self.buffering.load(Ordering::Acquire) {
            self.lanes.each().try_for_each(|mut lane| lane.drain(self))?;
        }
        Ok(())
    }

    /// Makes durable whatever was complete when this was called, except what a checkpoint has overtaken.
    ///
    /// # Errors
    /// As the device says. Even a full disk is a failure here: what was acknowledged cannot be made durable.
    pub(super) fn sync_segments(&self) -> Result<()> {
        self.drain()?;
        let released = self.released();
        let wanted =
            |segment: &&Arc<Segment>| segment.synced() < segment.written() && segment.highest() > released;
        let segments: Vec<_> = self.table.lock().iter().filter(wanted).cloned().collect();
        for segment in segments {
            self.sync_segment(&segment)?;
        }
        Ok(())
    }

    /// Makes one segment durable as far as it is written.
    ///
    /// # Errors
    /// As the device says.
    pub(super) fn sync_segment(&self, segment: &Segment) -> Result<()> {
        if segment.sync()? {
            self.syncs.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Puts a control record that names `generation` into the first lane and makes it durable; its segment is pinned.
    ///
    /// # Errors
    /// As the device says; the log is poisoned unless there was no room.
    pub(super) fn control(&self, kind: Kind, generation: u64) -> Result<()> {
        self.commit.healthy()?;
        let segment = {
            let mut lane = self.lanes.first();
            let entry = Entry {
                kind,
                first: generation,
                count: 0,
                payload: &[],
                tail: &[],
            };
            lane.put(self, entry, Durability::Process, Claim::Control)?;
            Arc::clone(lane.position().expect("a lane has a segment after a record").0)
        };
        self.sync_segment(&segment)
            .map_err(|error| self.poison_unless_full(error))?;
        self.generation.fetch_max(generation, Ordering::AcqRel);
        self.pinned.store(segment.header.number, Ordering::Release);
        Ok(())
    }
}
