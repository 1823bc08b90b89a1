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

/// The state of an open log, shared by the modules that implement it.
#[derive(Debug)]
pub(super) struct LogInner {
    pub(super) directory: Arc<dyn Directory>,
    pub(super) options: LogOptions,
    /// Slots that no lane writes.
    pub(super) pool: SlotPool,
    /// The lanes, to which records are appended.
    pub(super) lanes: LaneSet,
    /// Every sequence up to its value has been appended.
    pub(super) watermark: Watermark,
    /// The synced watermark and the first failure.
    pub(super) commit: GroupCommit,
    /// Every unreleased segment. Locked after lanes and before the pool.
    pub(super) table: Mutex<Vec<Arc<LogSegment>>>,
    /// The mark: the log's progress, stored separately from the segments.
    pub(super) mark: MarkFile,
    origin: IncarnationStart,
    next_number: AtomicU64,
    /// The newest generation known to be durable.
    generation: AtomicU64,
    /// The number of the segment that is kept because it durably names the newest generation and
    /// the incarnation.
    pinned: AtomicU64,
    /// A durable checkpoint contains every sequence up to this one.
    released: AtomicU64,
    /// Voids that did not fit: the next segment that any lane begins includes them.
    pub(super) owed: Mutex<OwedVoids>,
    /// Whether any voids are owed. One thread at a time writes them.
    owes: AtomicBool,
    paying: Mutex<()>,
    /// Work on kept segments that a recovery on a full disk has postponed.
    pub(super) postponed_work: PostponedWork,
    /// Bytes of the segments that recovery kept or wrote. They may exceed the limit until they are
    /// released.
    recovered_bytes: AtomicU64,
    /// Number of syncs of files and mapped ranges.
    syncs: AtomicU64,
    /// Released segments retained for followers of the log.
    pub(super) history: SegmentHistory,
    /// The latest time used by readers, in milliseconds since 1970.
    pub(super) time_ms: AtomicU64,
    /// Records found missing at opening.
    pub(super) lost_tail: Option<LostTail>,
}

/// Voids that did not fit, as first and last sequence of each.
#[derive(Debug, Default)]
pub(super) struct OwedVoids {
    /// Voids that no lane has written yet.
    pub(super) open: Vec<(u64, u64)>,
    /// Voids that a lane has written since, until the caller retries.
    pub(super) taken: Vec<(u64, u64)>,
}

impl OwedVoids {
    /// Stops owing these sequences, because their owner retries. Returns whether a lane has already
    /// written their void.
    fn settle(&mut self, range: (u64, u64)) -> bool {
        debug_assert!(range.0 > 0 && range.0 <= range.1, "sequences {range:?}");
        self.open.retain(|&open| open != range);
        let before = self.taken.len();
        self.taken.retain(|&taken| taken != range);
        self.taken.len() < before
    }
}

/// The start of a log's incarnation.
#[derive(Clone, Copy, Debug)]
pub(super) struct IncarnationStart {
    /// The incarnation. It grows with every opening.
    pub(super) incarnation: u64,
    /// The last valid sequence of earlier incarnations.
    pub(super) base: u64,
    /// The current boot of this machine.
    pub(super) boot: BootId,
    /// The newest generation known to be durable.
    pub(super) generation: u64,
    /// Everything up to this sequence is durable.
    pub(super) synced: u64,
    /// A durable checkpoint contains every sequence up to this one.
    pub(super) released: u64,
    /// The number of the next segment.
    pub(super) number: u64,
    /// The latest time used by readers.
    pub(super) time_ms: u64,
}

impl LogInner {
    /// Creates a log without segments.
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

    /// Returns the fields common to all segment headers of this incarnation. The caller sets the
    /// others.
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

    /// Returns the number for a segment about to be activated.
    #[must_use]
    pub(super) fn next_number(&self) -> u64 {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        debug_assert!(number > 0, "segments are counted from 1");
        number
    }

    /// Returns the newest generation known to be durable.
    #[must_use]
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the number of the segment that must stay.
    #[must_use]
    pub(super) fn pinned(&self) -> u64 {
        self.pinned.load(Ordering::Acquire)
    }

    /// Returns the sequence up to which a durable checkpoint contains everything.
    #[must_use]
    pub(super) fn released(&self) -> u64 {
        self.released.load(Ordering::Acquire)
    }

    /// Raises the sequence up to which a durable checkpoint contains everything.
    pub(super) fn raise_released(&self, through: u64) {
        self.released.fetch_max(through, Ordering::AcqRel);
        self.commit.raise(through);
    }

    /// Returns the live bytes at the end of recovery.
    #[must_use]
    pub(super) fn recovered_bytes(&self) -> u64 {
        self.recovered_bytes.load(Ordering::Relaxed)
    }

    /// Returns whether a recovery is in progress.
    #[must_use]
    pub(super) fn is_recovering(&self) -> bool {
        self.pool.ignores_limit()
    }

    /// Ends the recovery: the limit is enforced again.
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

    /// Poisons the log after a failed write or sync, and returns the error. A full disk does not
    /// poison it.
    pub(super) fn poison_unless_full(&self, error: Error) -> Error {
        if !error.is_full() && !matches!(error, Error::Poisoned { .. }) {
            self.commit.poison(&error.to_string());
        }
        error
    }

    /// Appends a record and waits until `durability` holds.
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

    /// Does the work that a recovery on a full disk has postponed.
    ///
    /// # Errors
    /// `DiskFull` with nothing changed; any other error poisons the log.
    pub(super) fn run_postponed(&self) -> Result<()> {
        self.postponed_work
            .run_postponed(&self.pool, || {
                self.put_note(RecordKind::Note, self.generation())?;
                self.begin_mark()
            })
            .map_err(|error| self.poison_unless_full(error))
    }

    /// Marks sequences as complete: their records are in the page cache, or they are void.
    pub(super) fn completed(&self, first: u64, last: u64) {
        debug_assert!(first > 0 && first <= last, "sequences {first} to {last}");
        if self.watermark.complete(first, last) {
            self.commit.completed_moved();
        }
    }

    /// Gives up sequences. If the log has no space for the void record, it is owed: no lane begins
    /// another segment without it. So nothing is appended above these sequences that a recovery
    /// would have to cut off.
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
            // Excludes a thread that is writing one of them to a lane.
            let _alone = self.paying.lock();
            self.owed.lock().settle(range)
        };
        if is_paid {
            return Ok(());
        }
        let mut voided = self.append(entry, LogDurability::Process, SlotPriority::Essential);
        if voided.as_ref().is_err_and(Error::is_full) {
            // The record is short, so another lane may have space for it.
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

    /// Writes the owed voids, so that nothing is appended above a gap that a recovery would cut
    /// off.
    ///
    /// # Errors
    /// `DiskFull` or `LogFull` while they do not fit; any other error poisons the log.
    fn write_owed_voids(&self) -> Result<()> {
        if !self.owes.load(Ordering::Acquire) {
            return Ok(());
        }
        let _alone = self.paying.lock();
        loop {
            // Not held while a lane is locked: a lane that switches segments locks it as well.
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

    /// Returns whether no checkpoint could release anything before this record is appended or
    /// voided: it is the lowest incomplete one, and there are records above it. (If a writer is
    /// descheduled between the assignment of a sequence and its append, the others may fill the
    /// log.)
    fn blocks_release(&self, entry: &LaneRecord<'_>) -> bool {
        let above = || {
            self.table
                .lock()
                .iter()
                .any(|segment| segment.highest() > entry.first)
        };
        entry.first == self.watermark.completed() + 1 && (entry.kind == RecordKind::Void || above())
    }

    /// Blocks until everything up to `target` is synced.
    ///
    /// # Errors
    /// The device's error, for the caller that led the sync; [`Error::Poisoned`] for all other
    /// callers, and in place of a full disk, which callers would interpret as nothing written.
    /// `DiskFull` while work of a recovery is postponed: nothing was written since.
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

    /// Makes every record durable that was complete at the time of the call, and writes the synced
    /// watermark `goal` to the mark.
    ///
    /// # Errors
    /// As [`LogInner::sync_segments`].
    fn sync_round(&self, goal: u64) -> Result<()> {
        self.sync_segments()?;
        self.write_mark(goal)
    }

    /// Makes every record durable that was complete at the time of the call, except those overtaken
    /// by a checkpoint.
    ///
    /// # Errors
    /// I/O errors. Even a full disk is a failure here, because acknowledged records cannot be made
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

    /// Syncs one segment up to its write position.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn sync_segment(&self, segment: &LogSegment) -> Result<()> {
        if segment.sync()? {
            self.syncs.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes the header of an incarnation's first segment durable, before there is any record.
    ///
    /// If both were written and then synced, a power failure could keep the record and lose the
    /// header. The next opening would begin the same incarnation in the same place, with a segment
    /// of the same number, and would mistake the record for its own.
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

    /// Appends a control record that names `generation` to the first lane and makes it durable. Its
    /// segment is pinned.
    ///
    /// # Errors
    /// I/O errors; they poison the log, except for a full disk.
    pub(super) fn control(&self, kind: RecordKind, generation: u64) -> Result<()> {
        self.commit.healthy()?;
        // Space that a checkpoint frees afterwards may be reused, so no postponed work on it may
        // remain.
        self.run_postponed()?;
        self.put_note(kind, generation)
    }

    /// Like [`LogInner::control`], but without first doing postponed work of a recovery.
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
