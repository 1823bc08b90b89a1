//! What all parts of an open log share, and how an append goes through them.

use super::commit::Commit;
use super::format::{BLOCK_BYTES, Kind, Mark, SegmentHeader};
use super::history::History;
use super::keep::PutOff;
use super::lane::{Entry, Lanes, check_payload};
use super::lost::LostTail;
use super::mark::MarkFile;
use super::options::{Durability, LogOptions};
use super::pool::{Claim, Limit, Pool};
use super::segment::Segment;
use crate::watermark::{WINDOW, Watermark};
use crate::{Error, Result};
use alluvium_device::{BootId, Directory};
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
    /// How far the log has come, as written down apart from the segments.
    pub(super) mark: MarkFile,
    origin: Origin,
    next_number: AtomicU64,
    /// The newest generation that is known to be durable.
    generation: AtomicU64,
    /// The number of the segment that is kept because it names the newest generation and the
    /// incarnation, durably.
    pinned: AtomicU64,
    /// Everything up to here is held by a durable checkpoint.
    released: AtomicU64,
    /// Voids that did not fit, first and last sequence: the next segment that any lane begins takes
    /// them up.
    pub(super) owed: Mutex<Owed>,
    /// Whether any are owed; they are paid by one thread at a time.
    owes: AtomicBool,
    paying: Mutex<()>,
    /// What a recovery on a full disk has still to do to the segments that it keeps.
    pub(super) put_off: PutOff,
    /// Bytes of the segments that recovery kept or wrote: they may exceed the limit until they are
    /// released.
    recovered_bytes: AtomicU64,
    /// Syncs of files and mapped ranges.
    syncs: AtomicU64,
    /// Released segments that are kept for who follows the log.
    pub(super) history: History,
    /// The latest time that readers have read by, in milliseconds since 1970.
    pub(super) time_ms: AtomicU64,
    /// What the opening missed.
    pub(super) lost_tail: Option<LostTail>,
}

/// Voids that did not fit, first and last sequence of each.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// Those that no lane has taken up.
    pub(super) open: Vec<(u64, u64)>,
    /// Those that a lane has taken up since, until the caller asks again.
    pub(super) taken: Vec<(u64, u64)>,
}

impl Owed {
    /// Forgets that these sequences are owed, for their owner asks again. Returns whether a lane
    /// has taken them up.
    fn settle(&mut self, range: (u64, u64)) -> bool {
        debug_assert!(range.0 > 0 && range.0 <= range.1, "sequences {range:?}");
        self.open.retain(|&open| open != range);
        let before = self.taken.len();
        self.taken.retain(|&taken| taken != range);
        self.taken.len() < before
    }
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
    /// The latest time that readers have read by.
    pub(super) time_ms: u64,
}

impl Shared {
    /// Creates a log without segments.
    ///
    /// # Errors
    /// As the device says.
    pub(super) fn new(
        directory: &Arc<dyn Directory>,
        options: LogOptions,
        names: BTreeSet<u32>,
        origin: Origin,
    ) -> Result<Shared> {
        let mark = Mark {
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
        Ok(Shared {
            mark: MarkFile::open(directory.as_ref(), mark)?,
            pool: Pool::new(Arc::clone(directory), options, names),
            lanes: Lanes::new(options.lanes),
            watermark: Watermark::new(origin.base),
            commit: Commit::new(origin.synced),
            table: Mutex::new(Vec::new()),
            next_number: AtomicU64::new(origin.number),
            generation: AtomicU64::new(origin.generation),
            pinned: AtomicU64::new(0),
            released: AtomicU64::new(origin.released),
            owed: Mutex::default(),
            owes: AtomicBool::new(false),
            paying: Mutex::default(),
            put_off: PutOff::default(),
            recovered_bytes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            history: History::new(origin.released),
            time_ms: AtomicU64::new(origin.time_ms),
            lost_tail: None,
            directory: Arc::clone(directory),
            options,
            origin,
        })
    }

    /// Returns what every segment header of this incarnation says; the rest is the segment's own.
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

    /// Returns the number of a segment about to be activated.
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

    /// Returns the number of the segment that must stay.
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

    /// Returns how many bytes were live when recovery had ended.
    #[must_use]
    pub(super) fn recovered_bytes(&self) -> u64 {
        self.recovered_bytes.load(Ordering::Relaxed)
    }

    /// Returns whether a recovery is under way.
    #[must_use]
    pub(super) fn is_recovering(&self) -> bool {
        self.pool.ignores_limit()
    }

    /// Recovery has ended.
    pub(super) fn end_recovery(&self) {
        let live = self.pool.usage().live_bytes;
        self.recovered_bytes.store(live, Ordering::Relaxed);
        self.pool.ignore_limit(Limit::Kept);
    }

    /// Returns how many syncs the log has asked the device for.
    #[must_use]
    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
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
    pub(super) fn append(&self, mut entry: Entry<'_>, durability: Durability, claim: Claim) -> Result<()> {
        self.commit.healthy()?;
        self.catch_up()?;
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
        self.pay_owed()?;
        let put = |claim| self.lanes.pick(durability).put(self, entry, claim);
        match put(claim) {
            Err(error) if error.is_full() && self.is_in_the_way(&entry) => put(Claim::Unblock)?,
            other => other?,
        }
        self.completed(entry.first, last);
        if durability == Durability::Disk {
            self.wait_synced(last)?;
        }
        Ok(())
    }

    /// Does what a recovery on a full disk has put off.
    ///
    /// # Errors
    /// `DiskFull` with nothing changed; otherwise the log is poisoned.
    pub(super) fn catch_up(&self) -> Result<()> {
        self.put_off
            .catch_up(&self.pool, || {
                self.put_note(Kind::Note, self.generation())?;
                self.begin_mark()
            })
            .map_err(|error| self.poison_unless_full(error))
    }

    /// These sequences are in the page cache, or hold nothing.
    pub(super) fn completed(&self, first: u64, last: u64) {
        debug_assert!(first > 0 && first <= last, "sequences {first} to {last}");
        if self.watermark.complete(first, last) {
            self.commit.completed_moved();
        }
    }

    /// Gives up sequences. If the log has no space for the note, they are owed: no lane begins
    /// another segment without them. So nothing is appended above them that a recovery would have
    /// to cut off.
    ///
    /// # Errors
    /// As [`Log::void`](super::Log::void).
    pub(super) fn void(&self, first: u64, count: u32) -> Result<()> {
        assert!(
            first > 0 && count > 0,
            "{count} sequences from {first} on come to nothing"
        );
        let entry = Entry {
            kind: Kind::Void,
            first,
            count: count.into(),
            ..Entry::CONTROL
        };
        let range = (first, first + entry.count - 1);
        let is_paid = {
            // Not while one of them is on its way into a lane.
            let _alone = self.paying.lock();
            self.owed.lock().settle(range)
        };
        if is_paid {
            return Ok(());
        }
        let mut voided = self.append(entry, Durability::Process, Claim::Essential);
        if voided.as_ref().is_err_and(Error::is_full) {
            // It is short: some other lane may have that much left.
            let complete = self.watermark.completed();
            let entry = Entry { complete, ..entry };
            let mut lanes = self.lanes.each();
            let put = lanes.find_map(|mut lane| lane.put(self, entry, Claim::Essential).ok());
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

    /// Puts the voids that are owed, so that nothing is appended above a gap that a recovery would
    /// cut off.
    ///
    /// # Errors
    /// `DiskFull` or `LogFull` while they do not fit; otherwise the log is poisoned.
    fn pay_owed(&self) -> Result<()> {
        if !self.owes.load(Ordering::Acquire) {
            return Ok(());
        }
        let _alone = self.paying.lock();
        loop {
            // Not held while a lane is locked: a lane that goes on to another segment looks at it
            // as well.
            let next = self.owed.lock().open.pop();
            let Some((first, last)) = next else { break };
            assert!(first <= last, "a debt of the sequences {first} to {last}");
            let void = Entry {
                kind: Kind::Void,
                first,
                count: last - first + 1,
                complete: self.watermark.completed(),
                ..Entry::CONTROL
            };
            if let Err(error) = self.lanes.first().put(self, void, Claim::Unblock) {
                self.owed.lock().open.push((first, last));
                return Err(error);
            }
            self.owed.lock().taken.push((first, last));
            self.completed(first, last);
        }
        self.owes.store(false, Ordering::Release);
        Ok(())
    }

    /// Returns whether a checkpoint could release nothing before this record is appended or given
    /// up: it is the lowest that is incomplete, and there are records above it. (A writer that
    /// loses its processor between the assignment of a sequence and its append can find that the
    /// others have filled the log.)
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
    /// The device's error, for the caller that led the sync; [`Error::Poisoned`] for all other
    /// callers, and for a full disk: to the caller that would mean that nothing was written.
    /// `DiskFull` while a recovery's work is put off: nothing was written since.
    pub(super) fn wait_synced(&self, target: u64) -> Result<()> {
        if self.commit.synced() < target {
            self.catch_up()?;
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

    /// Makes durable whatever was complete when this was called, and writes down that everything up
    /// to `goal` was.
    ///
    /// # Errors
    /// As [`Shared::sync_segments`].
    fn sync_round(&self, goal: u64) -> Result<()> {
        self.sync_segments()?;
        self.write_mark(goal)
    }

    /// Makes durable whatever was complete when this was called, except what a checkpoint has
    /// overtaken.
    ///
    /// # Errors
    /// As the device says. Even a full disk is a failure here: what was acknowledged cannot be made
    /// durable.
    pub(super) fn sync_segments(&self) -> Result<()> {
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

    /// Makes the header of an incarnation's first segment durable, before there is any record.
    ///
    /// Were both written and then synced, a loss of power could keep the record and lose the
    /// header. The next opening would begin the same incarnation in the same place, with a segment
    /// of the same number, and would take the record for one of its own.
    ///
    /// # Errors
    /// As the device says.
    pub(super) fn make_first_durable(&self, segment: &Segment) -> Result<()> {
        if self.mark.has_begun() {
            return Ok(());
        }
        segment.wrote(BLOCK_BYTES as u64);
        self.sync_segment(segment)
    }

    /// Puts a control record that names `generation` into the first lane and makes it durable; its
    /// segment is pinned.
    ///
    /// # Errors
    /// As the device says; the log is poisoned unless the disk was full.
    pub(super) fn control(&self, kind: Kind, generation: u64) -> Result<()> {
        self.commit.healthy()?;
        // What a checkpoint gives free afterwards may be used again: nothing of it is left to be
        // done.
        self.catch_up()?;
        self.put_note(kind, generation)
    }

    /// As [`Shared::control`], also where a recovery has put something off.
    fn put_note(&self, kind: Kind, generation: u64) -> Result<()> {
        let segment = {
            let mut lane = self.lanes.first();
            let entry = Entry {
                kind,
                first: generation,
                complete: self.watermark.completed(),
                ..Entry::CONTROL
            };
            lane.leave_long(self)?;
            lane.put(self, entry, Claim::Control)?;
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
