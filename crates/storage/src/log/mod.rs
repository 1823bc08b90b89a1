//! The write-ahead log. Records are opaque to it, and each writer chooses how durable its record
//! must be.
//!
//! *Scope*: segments and their files; lanes; record checksums, which cover the record's location;
//! the completion and synced watermarks; crash recovery, on the same boot or a later one, including
//! how it tells the effects of a crash from damage.
//!
//! *Must not depend on*: the meaning of a record, the assignment of sequences, the scheduling of
//! checkpoints.
//!
//! ```text
//!  sequences   1  2  3  4  5  6  7  8  9 10 11 12 13       synced ≤ completed; a gap is a record under way
//!              ──────── synced ──────┤                     (8 here: 9 to 13 are complete, not counted yet)
//!  lane 0   ┌────┬─┬──┬──┬────┐  ┌────┬──┬──┬───────────┐
//!           │head│1│ 3│ 4│seal│─►│head│ 7│10│  (blank)  │  log-0, log-3
//!           └────┴─┴──┴──┴────┘  └────┴──┴──┴───────────┘
//!  lane 1   ┌────┬─┬──┬──┬──┬──┬────────────────────────┐
//!           │head│2│ 5│ 6│ 9│13│ (stale, other seeds)   │  log-1
//!           └────┴─┴──┴──┴──┴──┴────────────────────────┘
//!  pool     ready: log-2 (prefaulted)   free: log-4   holes: log-5
//! ```
//!
//! Invariants:
//!
//! - **L1** A record passes verification only in the store, incarnation, segment and position for
//!   which it was written. Leftovers from an earlier use of the file therefore cannot be mistaken
//!   for a record.
//! - **L2** The pool gives a slot to a lane only after the file's name and space are durable. A
//!   full disk or a full log is therefore detected before anything is written.
//! - **L3** A lane finishes one record before it begins the next. On the boot that wrote a segment,
//!   an incomplete record is therefore never followed by another record.
//! - **L4** When a record is appended, its first sequence number exceeds the completion watermark
//!   by at least one and by at most the window size.
//! - **L5** `synced` advances in only two ways: after a successful sync, to a watermark up to which
//!   everything was complete when the sync began; and when a checkpoint becomes durable, to its
//!   cut. Recovery treats a sequence number as synced only if a durable watermark covers it.
//! - **L6** A `Disk` append is acknowledged only once `synced` has reached its sequence numbers.
//!   When any append returns, its record is in the page cache. The record survives a process crash
//!   once all lower sequence numbers are complete; until then, recovery would cut it off because of
//!   the gap below it.
//! - **L7** A failed write or sync is permanent: nothing is acknowledged after it. Running out of
//!   space, on disk or in the log, does not count as a failure.
//! - **L8** At all times, one durable, unreleased segment names the incarnation and the newest
//!   generation. The space that a generation frees is not released until this segment names the
//!   generation.
//! - **L9** Once a durable checkpoint covers all records of a segment, the segment is no longer
//!   synced.
//! - **L10** The first segment header of an incarnation is durable before the incarnation's first
//!   record. It contains the last sequence number of earlier incarnations (`base`). Before recovery
//!   lets writers append, it durably destroys the records that it cuts off.
//! - **L11** Opening the log verifies that no sequence number is missing up to the highest synced
//!   watermark found in any valid record or header, in the mark or in the superblock. If one is
//!   missing, opening fails with an error that names the location. On the boot and mount that wrote
//!   the log, opening also verifies that no sequence number is missing up to the completion
//!   watermark, and that the segments named in the mark exist.
//! - **L12** Live bytes exceed the limit in only three cases: a few segments of records without
//!   which nothing could be released; writes during a recovery; and a single record longer than a
//!   segment, which is accepted while half of the limit is free.
//!
//! *Records longer than a segment* get a segment of their own size, whose file is removed when the
//! segment is released. The record is not fragmented: it is contiguous and has a single checksum.
//!
//! *Back-pressure* takes two forms. If the log is full, an append fails immediately with
//! [`Error::LogFull`]. If a sequence number exceeds the lowest incomplete one by more than the
//! window (65,536), its writer waits until the lowest one is complete.

pub mod check;
mod commit;
pub mod format;
mod history;
mod lane;
mod lost;
mod merge;
#[cfg(all(test, alluvium_model_check))]
mod model_check;
pub mod options;
mod pool;
mod recover;
mod recovery_scan;
mod recovery_work;
mod recycle;
mod scan;
mod segment;
mod shared;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;
mod watermark_file;

pub use lane::write_as;
pub use lost::LostTail;
pub use options::{AppendPriority, LogDurability, LogOptions, MAX_LANES, MAX_PAYLOAD, SegmentAccess};
pub use recycle::{LogUsage, PrepareProgress};

use crate::{Error, Result};
use alluvium_device::Directory;
use format::RecordKind;
use lane::LaneRecord;
use recover::{RecoveryMode, RecoveryStart};
use segment::slot_of;
use shared::{IncarnationStart, LogInner};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Returns whether a file name is the name of a log segment.
#[must_use]
pub(crate) fn is_segment(name: &str) -> bool {
    slot_of(name).is_some()
}

/// A log record that replay passes to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecord<'a> {
    /// The first sequence number of the record.
    pub first: u64,
    /// Number of consecutive sequence numbers that the record covers.
    pub count: u32,
    pub payload: &'a [u8],
}

/// The result of a log repair: how many records were replayed, and what was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    pub replayed_records: u64,
    /// Ranges of sequence numbers that no valid record covers, as pairs of the first and last
    /// number.
    pub missing: Vec<(u64, u64)>,
    /// The first and last sequence numbers known to have been written after the last valid record,
    /// if any.
    pub missing_end: Option<(u64, u64)>,
    /// One sentence for each segment that is missing or has a damaged header, and that may have
    /// contained the newest records.
    pub lost_segments: Vec<String>,
    /// Number of valid records that were dropped because other records cover their sequence
    /// numbers.
    pub dropped_records: u64,
    /// One description for each damaged location.
    pub damaged: Vec<String>,
    /// The newest generation named anywhere in the log. If it is newer than the generation of the
    /// superblock, the commits of the newer generation are lost.
    pub named_generation: u64,
}

/// An open write-ahead log. Clones of this handle refer to the same log.
///
/// ```
/// use alluvium_device::{Directory, memory::MemoryDirectory};
/// use alluvium_storage::log::{LogDurability, WriteAheadLog, LogOptions};
/// use std::sync::Arc;
/// let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
/// let options = LogOptions::with_limit(1 << 20);
/// let log = WriteAheadLog::create(&directory, options, 1)?;
/// log.append(1, 1, b"one", LogDurability::Process)?;
/// log.append(2, 3, b"two to four", LogDurability::Disk)?;
/// assert_eq!((log.completed(), log.synced()), (4, 4));
/// log.close()?;
///
/// let mut seen = Vec::new();
/// let log = WriteAheadLog::open(&directory, options, 0, 1, 0, &mut |record| {
///     seen.push((record.first, record.count, record.payload.to_vec()));
///     Ok(())
/// })?;
/// assert_eq!(seen, [(1, 1, b"one".to_vec()), (2, 3, b"two to four".to_vec())]);
/// assert_eq!(log.completed(), 4);
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WriteAheadLog {
    shared: Arc<LogInner>,
}

impl WriteAheadLog {
    /// Creates the log of a new store whose superblock has `generation`. When this returns, the
    /// reserve and the first segment are durable. The first sequence number of the log is 1.
    ///
    /// # Errors
    /// [`Error::StoreExists`] if the directory already contains log files; [`Error::BadOption`];
    /// `DiskFull`; I/O errors.
    pub fn create(
        directory: &Arc<dyn Directory>,
        options: LogOptions,
        generation: u64,
    ) -> Result<WriteAheadLog> {
        options.validate()?;
        if directory.list()?.iter().any(|name| slot_of(name).is_some()) {
            return Err(Error::StoreExists {
                directory: directory.describe(),
            });
        }
        assert!(generation > 0, "generations are counted from 1");
        let origin = IncarnationStart {
            incarnation: 1,
            base: 0,
            boot: directory.boot_id(),
            generation,
            synced: 0,
            released: 0,
            number: 1,
            time_ms: 0,
        };
        let shared = LogInner::new(directory, options, BTreeSet::new(), origin)?;
        if options.starts_small {
            shared.pool.start_small()?;
        }
        shared.control(RecordKind::Note, generation)?;
        shared.begin_mark()?;
        shared.sync_mark()?;
        if !options.starts_small && !shared.pool.fill_reserve()? {
            return Err(Error::Device(alluvium_device::Error::DiskFull {
                operation: alluvium_device::DeviceOperation::Grow,
                file: "the log's reserve".to_owned(),
                wanted: options.reserve_bytes,
            }));
        }
        Ok(WriteAheadLog {
            shared: Arc::new(shared),
        })
    }

    /// Opens the log of a store. `generation`, `from` and `synced_at_least` are the superblock's
    /// generation, cut and synced watermark. Every record above `from` is passed to `replay`, in
    /// sequence order. Afterwards [`WriteAheadLog::completed`] returns the last sequence number in
    /// the log, and the next append must use a higher one.
    ///
    /// Replay ends at the first gap in the sequence numbers. A gap at or below the synced watermark
    /// is an error. On the boot and the mount that wrote the log, a gap at or below the completion
    /// watermark of any record is also an error.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the location if data at or below the synced watermark is missing or
    /// damaged; [`Error::OlderGeneration`] if the log names a newer generation;
    /// [`Error::NewerFormat`]; errors of `replay`; I/O errors. After an error, the log can be
    /// opened again as after a crash.
    pub fn open(
        directory: &Arc<dyn Directory>,
        options: LogOptions,
        from: u64,
        generation: u64,
        synced_at_least: u64,
        replay: &mut dyn FnMut(LogRecord<'_>) -> Result<()>,
    ) -> Result<WriteAheadLog> {
        let start = RecoveryStart {
            from,
            generation,
            synced_at_least,
        };
        let (shared, _) = recover::open(directory, options, start, RecoveryMode::Strict, replay)?;
        Ok(WriteAheadLog {
            shared: Arc::new(shared),
        })
    }

    /// Opens as much of a damaged log as possible. Every valid record above `from` is replayed;
    /// damage is skipped and reported. The log may name a newer generation than `generation`.
    /// Afterwards the log is valid, and voids take the place of the missing records. No other
    /// operation skips damage.
    ///
    /// # Errors
    /// [`Error::NewerFormat`]; errors of `replay`; I/O errors.
    pub fn repair(
        directory: &Arc<dyn Directory>,
        options: LogOptions,
        from: u64,
        generation: u64,
        replay: &mut dyn FnMut(LogRecord<'_>) -> Result<()>,
    ) -> Result<(WriteAheadLog, RepairReport)> {
        let start = RecoveryStart {
            from,
            generation,
            synced_at_least: 0,
        };
        let (shared, report) = recover::open(directory, options, start, RecoveryMode::Repair, replay)?;
        let log = WriteAheadLog {
            shared: Arc::new(shared),
        };
        Ok((log, report))
    }

    /// Appends a record with the sequence numbers `first..first + count`, and returns once the
    /// record is as durable as `durability` requires.
    ///
    /// Sequence numbers must be dense: each is appended exactly once, by any thread, or voided with
    /// [`WriteAheadLog::void`]. A `Disk` append waits until all lower sequence numbers are
    /// complete, so before a thread calls it, the thread must append or void all lower numbers that
    /// were assigned to it.
    ///
    /// # Errors
    /// [`Error::LogFull`] or `DiskFull` (see [`Error::is_full`]): nothing was written, and the same
    /// sequence numbers can be appended again once the log has space. [`Error::BadOption`] if the
    /// payload is longer than [`MAX_PAYLOAD`]. Any other error is permanent: later appends fail
    /// with [`Error::Poisoned`], and as after a crash, the record may or may not survive.
    ///
    /// # Panics
    /// If `first` or `count` is zero, or if one of the sequence numbers was appended before.
    pub fn append(&self, first: u64, count: u32, payload: &[u8], durability: LogDurability) -> Result<()> {
        self.append_as(first, count, payload, durability, AppendPriority::Normal)
    }

    /// Like [`WriteAheadLog::append`], with a priority that determines whether the record may use
    /// the reserve.
    ///
    /// # Errors
    /// As [`WriteAheadLog::append`].
    ///
    /// # Panics
    /// As [`WriteAheadLog::append`].
    pub fn append_as(
        &self,
        first: u64,
        count: u32,
        payload: &[u8],
        durability: LogDurability,
        importance: AppendPriority,
    ) -> Result<()> {
        self.append_parts(first, count, [payload, &[]], durability, importance)
    }

    /// Like [`WriteAheadLog::append_as`], but for a payload in two parts, which the caller then
    /// need not concatenate. The parts are stored contiguously.
    ///
    /// # Errors
    /// As [`WriteAheadLog::append`].
    ///
    /// # Panics
    /// As [`WriteAheadLog::append`].
    #[inline]
    pub fn append_parts(
        &self,
        first: u64,
        count: u32,
        [payload, tail]: [&[u8]; 2],
        durability: LogDurability,
        importance: AppendPriority,
    ) -> Result<()> {
        let entry = LaneRecord {
            kind: RecordKind::Data,
            first,
            count: count.into(),
            payload,
            tail,
            ..LaneRecord::CONTROL
        };
        self.shared.append(entry, durability, importance.into())
    }

    /// Voids sequence numbers that were assigned but could not be appended. They then count as
    /// complete but have no content, so nothing waits for them. A void may use the reserve.
    ///
    /// # Errors
    /// As [`WriteAheadLog::append`].
    ///
    /// # Panics
    /// As [`WriteAheadLog::append`].
    pub fn void(&self, first: u64, count: u32) -> Result<()> {
        self.shared.void(first, count)
    }

    /// Makes every complete record durable, and returns the synced watermark. The watermark is also
    /// made durable in the mark, so that later damage to any of these records is detected.
    ///
    /// # Errors
    /// I/O errors, after which the log refuses further appends.
    pub fn sync_all(&self) -> Result<u64> {
        self.shared.commit.healthy()?;
        self.shared.wait_synced(self.shared.watermark.completed())?;
        self.mark_synced()?;
        debug_assert!(
            self.synced() <= self.completed(),
            "what is synced is complete (L5)"
        );
        Ok(self.synced())
    }

    /// Makes the synced watermark durable in the mark. Damage to any record up to the watermark is
    /// then detected even after a crash. The cost is one sync of a small file, unless the mark
    /// already contains the watermark.
    ///
    /// # Errors
    /// I/O errors, after which the log refuses further appends.
    pub fn mark_synced(&self) -> Result<()> {
        self.shared.commit.healthy()?;
        self.shared
            .sync_mark()
            .map_err(|error| self.shared.poison_unless_full(error))
    }

    /// Makes every record up to `sequence` durable. Concurrent callers share one sync.
    ///
    /// # Errors
    /// I/O errors, after which the log refuses further appends.
    pub fn sync_through(&self, sequence: u64) -> Result<()> {
        self.shared.commit.healthy()?;
        if self.synced() >= sequence {
            return Ok(());
        }
        self.shared.wait_synced(sequence)
    }

    /// Returns the records that were missing when the log was opened, or `None` if none were.
    /// Missing records do not prove damage, because a power failure can also cause them.
    #[must_use]
    pub fn lost_tail(&self) -> Option<&LostTail> {
        self.shared.lost_tail.as_ref()
    }

    /// Returns the name of a log file that was removed while the log was open, or `None` if all
    /// files still exist. The contents of a removed file are lost when the log is closed.
    #[must_use]
    pub fn removed_file(&self) -> Option<String> {
        self.shared.removed_file()
    }

    /// Returns the synced watermark. Every record with a sequence number up to it survives a power
    /// failure.
    #[must_use]
    pub fn synced(&self) -> u64 {
        self.shared.commit.synced()
    }

    /// Returns the completion watermark. Every sequence number up to it has been appended or
    /// voided.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.shared.watermark.completed()
    }

    /// Durably records in the log that `generation` exists, so that opening will reject any older
    /// superblock. Call this after the superblock of the generation is durable, and before
    /// [`WriteAheadLog::release`].
    ///
    /// # Errors
    /// I/O errors, after which the log refuses further appends. A full disk does not have this
    /// effect; it is rare here, because the record may use the reserve.
    pub fn note_generation(&self, generation: u64) -> Result<()> {
        self.shared.control(RecordKind::Note, generation)
    }

    /// Releases the segments whose sequence numbers are all at or below `through`. A durable
    /// checkpoint must contain everything up to `through`, and its generation must have been
    /// recorded with [`WriteAheadLog::note_generation`]. A released segment is no longer synced. It
    /// is recycled, or its space is returned to the file system once it has been idle for long.
    ///
    /// # Errors
    /// I/O errors, after which the log refuses further appends.
    pub fn release(&self, through: u64) -> Result<()> {
        self.shared.release(through)
    }

    /// From now on, keeps up to `bytes` of the newest released segments for
    /// [`WriteAheadLog::read_after`]. They do not count toward the log's size limit.
    pub fn retain(&self, bytes: u64) {
        self.shared.history.retain(bytes);
    }

    /// Returns the highest sequence number whose record may no longer be available. All records
    /// with higher numbers can still be read with [`WriteAheadLog::read_after`].
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.shared.history.forgotten()
    }

    /// Passes complete records above `after` and up to `through` to `take`, in sequence order.
    /// Stops after about `bytes` bytes. Returns the last sequence number examined, or `None` if
    /// some of the records are no longer available.
    ///
    /// # Errors
    /// I/O errors.
    pub fn read_after(
        &self,
        after: u64,
        through: u64,
        bytes: u64,
        take: &mut dyn FnMut(LogRecord<'_>),
    ) -> Result<Option<u64>> {
        self.shared.read_after(after, through, bytes, take)
    }

    /// Returns the latest time passed to [`WriteAheadLog::note_time`], in milliseconds since 1970.
    /// The time survives closing and reopening the log.
    #[must_use]
    pub fn time_ms(&self) -> u64 {
        self.shared.time_ms.load(Ordering::Acquire)
    }

    /// Sets the latest time at which the store was read, in milliseconds since 1970. It becomes
    /// durable with the next write of the mark.
    pub fn note_time(&self, now_ms: u64) {
        self.shared.time_ms.store(now_ms, Ordering::Release);
    }

    /// Writes the time set by [`WriteAheadLog::note_time`] to the mark, so that it survives a
    /// process crash.
    ///
    /// # Errors
    /// I/O errors, after which the log refuses further appends.
    pub fn mark_time(&self) -> Result<()> {
        self.shared.commit.healthy()?;
        self.shared
            .mark_time()
            .map_err(|error| self.shared.poison_unless_full(error))
    }

    /// Performs one step of background work on at most 1 MiB of pages or one file: prefaults pages,
    /// prepares a segment before writers need it, or returns the space of an idle segment. Calling
    /// this is optional, because an append does the same work when it has to.
    ///
    /// # Errors
    /// I/O errors, after which the log refuses further appends.
    pub fn prepare(&self) -> Result<PrepareProgress> {
        self.shared.prepare()
    }

    /// Returns whether space is already allocated on the file system for the next segment of
    /// ordinary writes.
    #[must_use]
    pub fn has_space(&self) -> bool {
        self.shared.has_space()
    }

    /// Returns the size in bytes of the segments that the log allocates. A record longer than a
    /// segment needs more.
    #[must_use]
    pub fn segment_bytes(&self) -> u64 {
        self.shared.segment_bytes()
    }

    /// Returns the space that the log uses.
    #[must_use]
    pub fn usage(&self) -> LogUsage {
        self.shared.usage()
    }

    /// Closes the log. All records are synced, and the log is marked as closed so that the next
    /// opening detects any damage to it. Afterwards, clones of this handle refuse further appends.
    ///
    /// # Errors
    /// I/O errors.
    #[allow(clippy::needless_pass_by_value)]
    pub fn close(self) -> Result<()> {
        self.shared.close()
    }
}
