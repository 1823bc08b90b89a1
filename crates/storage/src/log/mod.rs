//! The write-ahead log: durable storage of opaque records, with the durability that each writer
//! requests.
//!
//! *Scope*: segments and their files, lanes, checksums by place, which records are complete and
//! which are synced, the state left by a crash on the same or another boot, and how it differs from
//! damage.
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
//! - **L1** A record verifies only in the store, incarnation, segment and position it was written
//!   for: remains of an earlier use of a file can never be mistaken for a record.
//! - **L2** A slot is handed to a lane only once its name and space are durable. A full disk or a
//!   full log is detected at this point, before anything is written.
//! - **L3** A lane writes its records one after another, each completely before the next: on the
//!   boot that wrote it, no record of a segment follows an incomplete one.
//! - **L4** A record begins at most a window above the completion watermark, and never at or below
//!   it.
//! - **L5** `synced` advances only after a sync that began when everything up to its new value was
//!   complete, or to the cut of a durable checkpoint. A recovery treats nothing as synced unless a
//!   durable watermark covers it.
//! - **L6** `Disk` is acknowledged only at or below `synced`. A record is in the page cache when
//!   its append returns, and survives the process once all lower sequences are complete: a recovery
//!   cuts off the records above a gap.
//! - **L7** A failed write or sync is permanent: nothing is acknowledged after it. A full disk or
//!   log does not count as a failure.
//! - **L8** There is always one durable, unreleased segment that names the incarnation and the
//!   newest generation. No space is released before the generation that frees it is noted there.
//! - **L9** Segments overtaken by a durable checkpoint are never synced.
//! - **L10** An incarnation's first header is durable before its first record; it contains the end
//!   of earlier ones (`base`). Records that a recovery cuts off are durably destroyed before it
//!   lets writers append.
//! - **L11** Everything at or below the highest synced watermark in any valid record or header, the
//!   mark or the superblock is present, or opening fails with the place. On the boot and mount that
//!   wrote the log the same holds for the completion watermark, and for the segments that the mark
//!   names.
//! - **L12** Live bytes never exceed the limit, except by a few segments for the records without
//!   which nothing could be released, by the writes of a recovery, and by one record longer than a
//!   segment, which is accepted while half of the limit is free.
//!
//! *Records longer than a segment* get a segment of their own length, whose file is removed when it
//! is released. They are not fragmented: every record is contiguous, with one checksum.
//!
//! *Back-pressure* has two forms: a full log fails an append at once ([`Error::LogFull`]); a writer
//! whose sequence is more than the window (65,536) above the lowest incomplete one waits until that
//! sequence is complete.

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

/// Returns whether a file of this name is a segment of a log.
#[must_use]
pub(crate) fn is_segment(name: &str) -> bool {
    slot_of(name).is_some()
}

/// A record passed to replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecord<'a> {
    /// First sequence covered by the record.
    pub first: u64,
    /// Number of sequences it covers.
    pub count: u32,
    pub payload: &'a [u8],
}

/// Result of a repair: the replayed records and the losses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    pub replayed_records: u64,
    /// Sequences that no sound record covers: first and last of each range.
    pub missing: Vec<(u64, u64)>,
    /// Sequences after the last sound record that are known to have been written: first and last.
    pub missing_end: Option<(u64, u64)>,
    /// Segments that are missing or hidden by a damaged header and may have contained the newest
    /// records, one sentence each.
    pub lost_segments: Vec<String>,
    /// Sound records that were dropped because other records cover their sequences.
    pub dropped_records: u64,
    /// The damaged places, one description each.
    pub damaged: Vec<String>,
    /// The newest generation named anywhere. It is newer than the superblock's if commits are
    /// undone.
    pub named_generation: u64,
}

/// An open log. Clones share it.
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
    /// Creates the log of a new store whose superblock has `generation`. The first sequence is 1.
    /// The reserve and the first segment are durable when this returns.
    ///
    /// # Errors
    /// [`Error::StoreExists`] if there are files of a log; [`Error::BadOption`]; `DiskFull`; I/O
    /// errors.
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

    /// Opens the log of a store whose superblock has `generation` and contains everything up to
    /// `from`. Passes every record with a sequence above `from` to `replay`, in the order of
    /// sequences. `synced_at_least` is the synced watermark in the superblock. Afterwards
    /// [`WriteAheadLog::completed`] is the last sequence of the log; the next append begins above
    /// it.
    ///
    /// The log ends before the first gap. A gap at or below the synced watermark is an error. On
    /// the boot and the mount that wrote the log, so is a gap at or below the completion watermark
    /// in any record.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the place if something at or below the synced watermark is missing
    /// or damaged; [`Error::OlderGeneration`] if the log names a newer generation;
    /// [`Error::NewerFormat`]; errors of `replay`; I/O errors. After any of them the log can be
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

    /// Opens a log as far as possible: replays every sound record above `from`, skips and reports
    /// damage, and accepts a log that names a newer generation. Afterwards the log is sound, with
    /// voids in place of missing records. No other operation skips damage.
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

    /// Appends a record that covers `first..first + count`, and returns once `durability` holds.
    ///
    /// Sequences are dense: each is appended once, by any thread, or given up with
    /// [`WriteAheadLog::void`]. An append with `Disk` waits until all lower sequences are complete,
    /// so its thread must not be the one that still has to append them.
    ///
    /// # Errors
    /// [`Error::LogFull`] or `DiskFull` ([`Error::is_full`]) with nothing written: the sequences
    /// are still open, and can be appended again once the log has space. [`Error::BadOption`] for a
    /// payload above [`MAX_PAYLOAD`]. Any other error is permanent: [`Error::Poisoned`] follows,
    /// and the record may or may not survive, as after a crash.
    ///
    /// # Panics
    /// If `first` or `count` is zero, or if the sequences were appended before.
    pub fn append(&self, first: u64, count: u32, payload: &[u8], durability: LogDurability) -> Result<()> {
        self.append_as(first, count, payload, durability, AppendPriority::Normal)
    }

    /// Like [`WriteAheadLog::append`], for records that may use the reserve.
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

    /// Like [`WriteAheadLog::append_as`], for a payload in two parts, which are stored
    /// contiguously. The caller need not concatenate them.
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

    /// Gives up sequences that were assigned and could not be appended: they are complete without
    /// content, and nothing waits for them any more. May use the reserve.
    ///
    /// # Errors
    /// As [`WriteAheadLog::append`].
    ///
    /// # Panics
    /// As [`WriteAheadLog::append`].
    pub fn void(&self, first: u64, count: u32) -> Result<()> {
        self.shared.void(first, count)
    }

    /// Makes every complete record durable, and returns the synced watermark. Also makes the mark
    /// durable, so that later damage to any of these records is detected.
    ///
    /// # Errors
    /// I/O errors; they poison the log.
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

    /// Makes the synced watermark durable in the mark: from now on, damage to any record below it
    /// is detected after any crash. Costs a sync of a small file, unless the mark is already up to
    /// date.
    ///
    /// # Errors
    /// I/O errors; they poison the log.
    pub fn mark_synced(&self) -> Result<()> {
        self.shared.commit.healthy()?;
        self.shared
            .sync_mark()
            .map_err(|error| self.shared.poison_unless_full(error))
    }

    /// Makes everything up to `sequence` durable. Concurrent callers share a sync.
    ///
    /// # Errors
    /// I/O errors; they poison the log.
    pub fn sync_through(&self, sequence: u64) -> Result<()> {
        self.shared.commit.healthy()?;
        if self.synced() >= sequence {
            return Ok(());
        }
        self.shared.wait_synced(sequence)
    }

    /// Returns the records that were found missing at opening, if there were any and the opening
    /// succeeded. After a power failure this does not prove damage.
    #[must_use]
    pub fn lost_tail(&self) -> Option<&LostTail> {
        self.shared.lost_tail.as_ref()
    }

    /// Returns the name of a file of the log that was removed while the log is open, if there is
    /// one. Its contents are lost when the log is closed.
    #[must_use]
    pub fn removed_file(&self) -> Option<String> {
        self.shared.removed_file()
    }

    /// Returns the synced watermark: every sequence up to it survives a power failure.
    #[must_use]
    pub fn synced(&self) -> u64 {
        self.shared.commit.synced()
    }

    /// Returns the completion watermark: every sequence up to it was appended or voided.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.shared.watermark.completed()
    }

    /// Durably notes that `generation` exists: from then on no older superblock is accepted. Must
    /// be called once its superblock is durable, before [`WriteAheadLog::release`].
    ///
    /// # Errors
    /// I/O errors; they poison the log, except for a full disk. That is rare, because the note may
    /// use the reserve.
    pub fn note_generation(&self, generation: u64) -> Result<()> {
        self.shared.control(RecordKind::Note, generation)
    }

    /// Releases the segments that contain nothing above `through`. A durable checkpoint contains
    /// everything up to there, and its generation was noted. The segments are recycled, or punched
    /// after a long idle time, and are never synced any more.
    ///
    /// # Errors
    /// I/O errors; they poison the log.
    pub fn release(&self, through: u64) -> Result<()> {
        self.shared.release(through)
    }

    /// Retains the newest released segments from now on, up to `bytes` bytes beyond the limit.
    pub fn retain(&self, bytes: u64) {
        self.shared.history.retain(bytes);
    }

    /// Returns the sequence above which every appended record is still available.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.shared.history.forgotten()
    }

    /// Passes the complete records above `after` and up to `through` to `take`, in the order of
    /// their sequences, until they total about `bytes` bytes. Returns the last sequence examined;
    /// `None` if some of the records are no longer available.
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

    /// Returns the latest time noted by readers, including those of earlier openings, in
    /// milliseconds since 1970.
    #[must_use]
    pub fn time_ms(&self) -> u64 {
        self.shared.time_ms.load(Ordering::Acquire)
    }

    /// Notes the time used by readers. It is written with the next mark.
    pub fn note_time(&self, now_ms: u64) {
        self.shared.time_ms.store(now_ms, Ordering::Release);
    }

    /// Writes the noted time to the mark, so that it survives the process.
    ///
    /// # Errors
    /// I/O errors; they poison the log.
    pub fn mark_time(&self) -> Result<()> {
        self.shared.commit.healthy()?;
        self.shared
            .mark_time()
            .map_err(|error| self.shared.poison_unless_full(error))
    }

    /// Performs one step of background work, at most a mebibyte of page touches or one file:
    /// prefaults pages, prepares segments ahead of the writers, and punches idle ones. Optional:
    /// appends do this work themselves when needed.
    ///
    /// # Errors
    /// I/O errors; they poison the log.
    pub fn prepare(&self) -> Result<PrepareProgress> {
        self.shared.prepare()
    }

    /// Returns whether space is already allocated for the next segment of ordinary writes.
    #[must_use]
    pub fn has_space(&self) -> bool {
        self.shared.has_space()
    }

    /// Returns the number of bytes that the log allocates from the file system at a time. A longer
    /// record needs more.
    #[must_use]
    pub fn segment_bytes(&self) -> u64 {
        self.shared.segment_bytes()
    }

    /// Returns the space used by the log.
    #[must_use]
    pub fn usage(&self) -> LogUsage {
        self.shared.usage()
    }

    /// Syncs the log and marks it as closed, so that the next opening detects any damage. Clones of
    /// this handle refuse further work.
    ///
    /// # Errors
    /// I/O errors.
    #[allow(clippy::needless_pass_by_value)]
    pub fn close(self) -> Result<()> {
        self.shared.close()
    }
}
