//! The shared state of an open log, and the path of an append through it.

use super::commit::GroupCommit;
use super::format::{BLOCK_BYTES, LogMark, RecordKind, SegmentHeader};
use super::history::SegmentHistory;
use super::lane::{LaneRecord, LaneSet, check_payload};
use super::lost::LostTail;
use super::options::{LogDurability, LogOptions};
use super::pool::{LimitEnforcement, SlotPool, SlotPriority};
use super::recovery_work::PostponedWork;
use super::segment::LogSegment;
use super::watermark_file::MarkFile;
use crate::watermark::{WINDOW, Watermark};
use crate::{Error, Result};
use alluvium_device::{BootId, Directory};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The state of an open log. Each part has a module of its own.
#[derive(Debug)]
pub(super) struct LogInner {
    pub(super) directory: Arc<dyn Directory>,
    pub(super) options: LogOptions,
    /// The slots that no lane is using.
    pub(super) pool: SlotPool,
    /// The lanes to which records are appended.
    pub(super) lanes: LaneSet,
    /// The completion watermark: every sequence number up to it has been appended or voided.
    pub(super) watermark: Watermark,
    /// The synced watermark, and the cause of the first failure.
    pub(super) commit: GroupCommit,
    /// All segments that are not released. Lock order: after the lanes and before the pool.
    pub(super) table: Mutex<Vec<Arc<LogSegment>>>,
    /// The mark: a separate file that stores the log's progress.
    pub(super) mark: MarkFile,
    origin: IncarnationStart,
    next_number: AtomicU64,
    /// The newest generation that is known to be durable.
    generation: AtomicU64,
    /// Number of the segment that durably names the newest generation and the incarnation, and must
    /// therefore not be released.
    pinned: AtomicU64,
    /// A durable checkpoint contains everything up to this sequence number.
    released: AtomicU64,
    /// Voids that could not be written because the log had no space for them. They are written
    /// before the next record, or to the next segment that any lane begins.
    pub(super) owed: Mutex<OwedVoids>,
    /// Whether `owed` may contain unwritten voids. The `paying` lock ensures that only one thread
    /// at a time writes them.
    owes: AtomicBool,
    paying: Mutex<()>,
    /// Work on recovered segments that recovery postponed because the disk was full.
    pub(super) postponed_work: PostponedWork,
    /// Size in bytes of the segments that recovery kept or wrote. Until they are released, they may
    /// exceed the log's size limit.
    recovered_bytes: AtomicU64,
    /// Number of file syncs and mapped-range syncs so far.
    syncs: AtomicU64,
    /// Released segments that are kept for readers that follow the log.
    pub(super) history: SegmentHistory,
    /// The latest time at which the store was read, in milliseconds since 1970.
    pub(super) time_ms: AtomicU64,
    /// The records that were missing when the log was opened.
    pub(super) lost_tail: Option<LostTail>,
}

/// Voided sequence numbers for which the log had no space, as pairs of the first and last number of
/// a range.
#[derive(Debug, Default)]
pub(super) struct OwedVoids {
    /// Voids that are not written yet.
    pub(super) open: Vec<(u64, u64)>,
    /// Voids that a lane has since written. A range stays here until its owner retries and learns
    /// that it was written.
    pub(super) taken: Vec<(u64, u64)>,
}

impl OwedVoids {
    /// Removes a range from both lists because the owner of its sequence numbers is retrying.
    /// Returns whether a lane has already written the void.
    fn settle(&mut self, range: (u64, u64)) -> bool {
        debug_assert!(range.0 > 0 && range.0 <= range.1, "sequences {range:?}");
        self.open.retain(|&open| open != range);
        let before = self.taken.len();
        self.taken.retain(|&taken| taken != range);
        self.taken.len() < before
    }
}

/// The state in which an incarnation of a log starts. Each opening of the log begins a new
/// incarnation.
#[derive(Clone, Copy, Debug)]
pub(super) struct IncarnationStart {
    /// The incarnation number, which increases each time the log is opened.
    pub(super) incarnation: u64,
    /// The last valid sequence number of all earlier incarnations.
    pub(super) base: u64,
    /// Identifies the machine's current boot.
    pub(super) boot: BootId,
    /// The newest generation that is known to be durable.
    pub(super) generation: u64,
    /// Everything up to this sequence number is durable.
    pub(super) synced: u64,
    /// A durable checkpoint contains everything up to this sequence number.
    pub(super) released: u64,
    /// Number of the next segment to be written.
    pub(super) number: u64,
    /// The latest time at which the store was read, in milliseconds since 1970.
    pub(super) time_ms: u64,
}

impl LogInner {
    /// Creates the state of a log that has no segments yet.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn new(
        directory: &Arc<dyn Directory>,
        options: LogOptions,
        names: BTreeSet<u32>,
        origin: IncarnationStart,
    ) -> Result<LogInner> {
        let mark = LogMark {
            closed: false,
            incarnation: origin.incarnation,
            generation: origin.generation,
            synced: origin.synced,
            identity: options.identity,
            complete: origin.base,
            released: origin.released,
            turn: 0,
            lanes: Vec::new(),
            time_ms: origin.time_ms,
        };
        Ok(LogInner {
            mark: MarkFile::open(directory.as_ref(), mark)?,
            pool: SlotPool::new(Arc::clone(directory), options, names),
            lanes: LaneSet::new(options.lanes),
            watermark: Watermark::new(origin.base),
            commit: GroupCommit::new(origin.synced),
            table: Mutex::new(Vec::new()),
            next_number: AtomicU64::new(origin.number),
            generation: AtomicU64::new(origin.generation),
            pinned: AtomicU64::new(0),
            released: AtomicU64::new(origin.released),
            owed: Mutex::default(),
            owes: AtomicBool::new(false),
            paying: Mutex::default(),
            postponed_work: PostponedWork::default(),
            recovered_bytes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            history: SegmentHistory::new(origin.released),
            time_ms: AtomicU64::new(origin.time_ms),
            lost_tail: None,
            directory: Arc::clone(directory),
            options,
            origin,
        })
    }

    /// Returns a segment header with the fields that all segments of this incarnation share. The
    /// caller must set the others.
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

    /// Allocates a number for the segment that a lane is about to begin.
    #[must_use]
    pub(super) fn next_number(&self) -> u64 {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        debug_assert!(number > 0, "segments are counted from 1");
        number
    }

    /// Returns the newest generation that is known to be durable.
    #[must_use]
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the number of the segment that must not be released.
    #[must_use]
    pub(super) fn pinned(&self) -> u64 {
        self.pinned.load(Ordering::Acquire)
    }

    /// Returns the sequence number up to which a durable checkpoint contains everything.
    #[must_use]
    pub(super) fn released(&self) -> u64 {
        self.released.load(Ordering::Acquire)
    }

    /// Raises the sequence number up to which a durable checkpoint contains everything, and the
    /// synced watermark with it.
    pub(super) fn raise_released(&self, through: u64) {
        self.released.fetch_max(through, Ordering::AcqRel);
        self.commit.raise(through);
    }

    /// Returns the number of live bytes at the end of the last recovery.
    #[must_use]
    pub(super) fn recovered_bytes(&self) -> u64 {
        self.recovered_bytes.load(Ordering::Relaxed)
    }

    /// Returns whether the log is being recovered, so that its limit is not enforced.
    #[must_use]
    pub(super) fn is_recovering(&self) -> bool {
        self.pool.ignores_limit()
    }

    /// Ends the recovery, so that the log's size limit is enforced from now on.
    pub(super) fn end_recovery(&self) {
        let live = self.pool.usage().live_bytes;
        self.recovered_bytes.store(live, Ordering::Relaxed);
        self.pool.ignore_limit(LimitEnforcement::Kept);
    }

    /// Returns the number of syncs requested from the device.
    #[must_use]
    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Returns the error unchanged. Unless the disk or the log is full, also poisons the log so
    /// that all later appends fail, because a failed write or sync is permanent.
    pub(super) fn poison_unless_full(&self, error: Error) -> Error {
        if !error.is_full() && !matches!(error, Error::Poisoned { .. }) {
            self.commit.poison(&error.to_string());
        }
        error
    }

    /// Appends a record, and waits until it is as durable as `durability` requests.
    ///
    /// # Errors
    /// As [`WriteAheadLog::append`](super::WriteAheadLog::append).
    pub(super) fn append(
        &self,
        mut entry: LaneRecord<'_>,
        durability: LogDurability,
        claim: SlotPriority,
    ) -> Result<()> {
        self.commit.healthy()?;
        self.run_postponed()?;
        check_payload(entry.len())?;
        assert!(
            entry.first > 0 && entry.count > 0,
            "a record covers sequences from 1 on"
        );
        let last = entry.first + entry.count - 1;
        debug_assert!(last >= entry.first, "sequences rise");
        entry.complete = self.watermark.completed();
        if entry.first > entry.complete + WINDOW {
            self.commit.sleep_until(|| self.watermark.has_room(entry.first))?;
            entry.complete = self.watermark.completed();
        }
        self.write_owed_voids()?;
        let put = |claim| self.lanes.pick(durability).put(self, entry, claim);
        match put(claim) {
            Err(error) if error.is_full() && self.blocks_release(&entry) => put(SlotPriority::Unblock)?,
            other => other?,
        }
        self.completed(entry.first, last);
        if durability == LogDurability::Disk {
            self.wait_synced(last)?;
        }
        Ok(())
    }

    /// Performs the work that recovery postponed because the disk was full.
    ///
    /// # Errors
    /// `DiskFull` if there is still not enough space, in which case nothing has changed. After any
    /// other error, the log refuses further appends.
    pub(super) fn run_postponed(&self) -> Result<()> {
        self.postponed_work
            .run_postponed(&self.pool, || {
                self.put_note(RecordKind::Note, self.generation())?;
                self.begin_mark()
            })
            .map_err(|error| self.poison_unless_full(error))
    }

    /// Marks sequence numbers as complete because their record is in the page cache or because they
    /// are void.
    pub(super) fn completed(&self, first: u64, last: u64) {
        debug_assert!(first > 0 && first <= last, "sequences {first} to {last}");
        if self.watermark.complete(first, last) {
            self.commit.completed_moved();
        }
    }

    /// Voids sequence numbers. If the log has no space for the void record, the void is remembered
    /// and written to the next segment that any lane begins. Records above these numbers therefore
    /// never follow a gap at which recovery would cut off the log.
    ///
    /// # Errors
    /// As [`WriteAheadLog::void`](super::WriteAheadLog::void).
    pub(super) fn void(&self, first: u64, count: u32) -> Result<()> {
        assert!(
            first > 0 && count > 0,
            "{count} sequences from {first} on come to nothing"
        );
        let entry = LaneRecord {
            kind: RecordKind::Void,
            first,
            count: count.into(),
            ..LaneRecord::CONTROL
        };
        let range = (first, first + entry.count - 1);
        let is_paid = {
            // Exclude a thread that is writing one of the remembered voids to a lane.
            let _alone = self.paying.lock();
            self.owed.lock().settle(range)
        };
        if is_paid {
            return Ok(());
        }
        let mut voided = self.append(entry, LogDurability::Process, SlotPriority::Essential);
        if voided.as_ref().is_err_and(Error::is_full) {
            // A void record is short, so another lane may still have space for it in its segment.
            let complete = self.watermark.completed();
            let entry = LaneRecord { complete, ..entry };
            let mut lanes = self.lanes.each();
            let put = lanes.find_map(|mut lane| lane.put(self, entry, SlotPriority::Essential).ok());
            if put.is_some() {
                self.completed(range.0, range.1);
                voided = Ok(());
            } else {
                self.owed.lock().open.push(range);
                self.owes.store(true, Ordering::Release);
            }
        }
        voided
    }

    /// Writes the remembered voids, so that no record is appended above a gap at which recovery
    /// would cut off the log.
    ///
    /// # Errors
    /// `DiskFull` or `LogFull` if there is no space for the voids. After any other error, the log
    /// refuses further appends.
    fn write_owed_voids(&self) -> Result<()> {
        if !self.owes.load(Ordering::Acquire) {
            return Ok(());
        }
        let _alone = self.paying.lock();
        loop {
            // Do not hold the lock of `owed` while locking a lane, because a lane that begins a new
            // segment locks `owed` too.
            let next = self.owed.lock().open.pop();
            let Some((first, last)) = next else { break };
            assert!(first <= last, "a debt of the sequences {first} to {last}");
            let void = LaneRecord {
                kind: RecordKind::Void,
                first,
                count: last - first + 1,
                complete: self.watermark.completed(),
                ..LaneRecord::CONTROL
            };
            if let Err(error) = self.lanes.first().put(self, void, SlotPriority::Unblock) {
                self.owed.lock().open.push((first, last));
                return Err(error);
            }
            self.owed.lock().taken.push((first, last));
            self.completed(first, last);
        }
        self.owes.store(false, Ordering::Release);
        Ok(())
    }

    /// Returns whether this record must be appended or voided before a checkpoint can release
    /// anything: its sequence number is the lowest incomplete one, and there are records above it.
    /// This happens when a writer is descheduled after its sequence number was assigned, and other
    /// writers fill the log before it appends.
    fn blocks_release(&self, entry: &LaneRecord<'_>) -> bool {
        let above = || {
            self.table
                .lock()
                .iter()
                .any(|segment| segment.highest() > entry.first)
        };
        entry.first == self.watermark.completed() + 1 && (entry.kind == RecordKind::Void || above())
    }

    /// Blocks until every record up to `target` is synced.
    ///
    /// # Errors
    /// The caller that performed the sync gets the device's error, and all other callers get
    /// [`Error::Poisoned`]. A full disk during a sync is also reported as [`Error::Poisoned`],
    /// because callers take a full disk to mean that nothing was written. `DiskFull` is returned
    /// only while recovery work is postponed, when nothing has been written since.
    pub(super) fn wait_synced(&self, target: u64) -> Result<()> {
        if self.commit.synced() < target {
            self.run_postponed()?;
        }
        let waited = self.commit.wait(
            target,
            || self.watermark.completed(),
            |goal| self.sync_round(goal),
        );
        waited.map_err(|error| match error {
            full if full.is_full() => Error::Poisoned {
                cause: full.to_string(),
            },
            other => other,
        })
    }

    /// Makes every record that is complete at the time of the call durable, and writes the new
    /// synced watermark `goal` to the mark.
    ///
    /// # Errors
    /// As [`LogInner::sync_segments`].
    fn sync_round(&self, goal: u64) -> Result<()> {
        self.sync_segments()?;
        self.write_mark(goal)
    }

    /// Makes every record that is complete at the time of the call durable. Segments that a durable
    /// checkpoint covers entirely are skipped.
    ///
    /// # Errors
    /// I/O errors. A full disk is a failure here, because acknowledged records cannot be made
    /// durable.
    pub(super) fn sync_segments(&self) -> Result<()> {
        let released = self.released();
        let wanted =
            |segment: &&Arc<LogSegment>| segment.synced() < segment.written() && segment.highest() > released;
        let segments: Vec<_> = self.table.lock().iter().filter(wanted).cloned().collect();
        for segment in segments {
            self.sync_segment(&segment)?;
        }
        Ok(())
    }

    /// Syncs one segment up to its current write position.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn sync_segment(&self, segment: &LogSegment) -> Result<()> {
        if segment.sync()? {
            self.syncs.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes the header of the first segment of an incarnation durable before any record is
    /// written.
    ///
    /// If the header and a record were written and then synced together, a power failure could
    /// preserve the record but lose the header. The next opening would begin an incarnation and a
    /// segment with the same numbers in the same place, and would mistake the old record for one of
    /// its own.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn make_first_durable(&self, segment: &LogSegment) -> Result<()> {
        if self.mark.has_begun() {
            return Ok(());
        }
        segment.set_written(BLOCK_BYTES as u64);
        self.sync_segment(segment)
    }

    /// Appends a control record that names `generation` to the first lane and makes it durable.
    /// While the generation is the newest, the segment with this record must not be released.
    ///
    /// # Errors
    /// I/O errors, after which the log refuses further appends. A full disk does not have this
    /// effect.
    pub(super) fn control(&self, kind: RecordKind, generation: u64) -> Result<()> {
        self.commit.healthy()?;
        // Once this returns, the checkpoint frees space that may be reused. Perform postponed work
        // first, because it may refer to that space.
        self.run_postponed()?;
        self.put_note(kind, generation)
    }

    /// Like [`LogInner::control`], but skips recovery's postponed work.
    fn put_note(&self, kind: RecordKind, generation: u64) -> Result<()> {
        let segment = {
            let mut lane = self.lanes.first();
            let entry = LaneRecord {
                kind,
                first: generation,
                complete: self.watermark.completed(),
                ..LaneRecord::CONTROL
            };
            lane.leave_long(self)?;
            lane.put(self, entry, SlotPriority::Control)?;
            Arc::clone(lane.position().expect("a lane has a segment after a record").0)
        };
        self.sync_segment(&segment)
            .map_err(|error| self.poison_unless_full(error))?;
        self.generation.fetch_max(generation, Ordering::AcqRel);
        debug_assert!(segment.synced() > 0, "what names the generation is durable (L8)");
        self.pinned.store(segment.header.number, Ordering::Release);
        Ok(())
    }
}
