//! The write-ahead log: opaque records that survive, as far as each writer asked.
//!
//! *Knows*: segments and the files they live in, lanes, checksums by place, what is complete and
//! what is synced, what a crash on the same or another boot leaves, and how it is told from damage.
//!
//! *Does not know*: what a record means, who assigns sequences, when a checkpoint is due.
//!
//! *Read in this order*: [`options`], [`format`](mod@format), `segment` (files and their uses),
//! `lane` (where records are put), `pool` (slots between uses), [`watermark`](crate::watermark)
//! (what is complete), `commit` (who syncs), `shared` (an append from start to end), `release`
//! (space back, the background step), `history` (what is kept for who follows), `mark` (how far the
//! log has come), `scan` and `merge` (reading back), `survey`, `lost` (what a loss of power may
//! have taken), `recover` and `keep`, [`check`].
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
//!   for: what an earlier use of a file left can never be taken for a record.
//! - **L2** A slot is handed to a lane only once its name and space are durable; a full disk or a
//!   full log is found there, before anything is written.
//! - **L3** A lane writes its records one after the other, each whole before the next: on the boot
//!   that wrote it, no record of a segment lies behind one that is not whole.
//! - **L4** A record begins at most a window above the completion watermark, and never at or below
//!   it.
//! - **L5** `synced` moves only after a sync that began when everything up to its new value was
//!   complete, or to what a durable checkpoint holds. A recovery takes nothing for synced that no
//!   durable word says was.
//! - **L6** `Disk` is acknowledged at or below `synced` only. A record is in the page cache when
//!   its append returns, and
//!   survives the process once all lower sequences are complete: a recovery cuts off what lies
//!   above a gap.
//! - **L7** A failed write or sync is for good: nothing is acknowledged after it. A full disk or
//!   log is not one.
//! - **L8** One segment is always durable and never released that names the incarnation and the
//!   newest generation; no space is released before the generation that frees it is noted there.
//! - **L9** What a durable checkpoint has overtaken is never synced.
//! - **L10** An incarnation's first header is durable before its first record; it says where
//!   earlier ones end (`base`). What a recovery cuts off is destroyed, durably, before it lets
//!   writers append.
//! - **L11** Everything at or below the highest synced watermark that any valid record or header,
//!   the mark or the superblock
//!   names is there, or opening fails with the place. On the boot and mount that wrote the log the
//!   same goes for the
//!   completion watermark, and for the segments that the mark names.
//! - **L12** Live bytes never exceed the limit, but by a few segments for the records without which
//!   nothing could be released, by what a recovery must write, and by one record longer than a
//!   segment, which is taken while half of the limit is free.
//!
//! *Records longer than a segment* get a segment of their own length, whose file is removed when it
//! is released. They are not fragmented: a record is whole where its checksum is, and nothing has
//! to be put together.
//!
//! *Back-pressure* comes in two kinds: a full log is an error at once ([`Error::LogFull`]); a
//! writer whose sequence is more than the window (65,536) above the lowest incomplete one waits for
//! the latter.

pub mod check;
mod commit;
pub mod format;
mod history;
mod keep;
mod lane;
mod lost;
mod mark;
mod merge;
#[cfg(all(test, alluvium_model_check))]
mod model_check;
pub mod options;
mod pool;
mod recover;
mod release;
mod scan;
mod segment;
mod shared;
mod survey;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;

pub use lane::write_as;
pub use lost::LostTail;
pub use options::{Access, Durability, Importance, LogOptions, MAX_LANES, MAX_PAYLOAD};
pub use release::{LogUsage, Progress};

use crate::{Error, Result};
use alluvium_device::Directory;
use format::Kind;
use lane::Entry;
use recover::{Start, Strictness};
use segment::slot_of;
use shared::{Origin, Shared};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Returns whether a file of this name is a segment of a log.
#[must_use]
pub(crate) fn is_segment(name: &str) -> bool {
    slot_of(name).is_some()
}

/// A record as it is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its first sequence.
    pub first: u64,
    /// How many sequences it covers.
    pub count: u32,
    /// The caller's bytes.
    pub payload: &'a [u8],
}

/// What a repair replayed, and what it could not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// How many records were handed over.
    pub replayed_records: u64,
    /// The sequences that no sound record covers, first and last of each range.
    pub missing: Vec<(u64, u64)>,
    /// The sequences behind the last sound record that were written, first and last.
    pub missing_end: Option<(u64, u64)>,
    /// Segments that are gone, or that a damaged header hides, and that may have held the newest
    /// records: a sentence each.
    pub lost_segments: Vec<String>,
    /// Sound records that were left out because others cover their sequences.
    pub dropped_records: u64,
    /// The damaged places.
    pub damaged: Vec<String>,
    /// The newest generation that anything names: newer than the superblock's if commits are
    /// undone.
    pub named_generation: u64,
}

/// An open log. Clones share it.
///
/// ```
/// use alluvium_device::{Directory, memory::MemoryDirectory};
/// use alluvium_storage::log::{Durability, Log, LogOptions};
/// use std::sync::Arc;
/// let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
/// let options = LogOptions::with_limit(1 << 20);
/// let log = Log::create(&directory, options, 1)?;
/// log.append(1, 1, b"one", Durability::Process)?;
/// log.append(2, 3, b"two to four", Durability::Disk)?;
/// assert_eq!((log.completed(), log.synced()), (4, 4));
/// log.close()?;
///
/// let mut seen = Vec::new();
/// let log = Log::open(&directory, options, 0, 1, 0, &mut |record| {
///     seen.push((record.first, record.count, record.payload.to_vec()));
///     Ok(())
/// })?;
/// assert_eq!(seen, [(1, 1, b"one".to_vec()), (2, 3, b"two to four".to_vec())]);
/// assert_eq!(log.completed(), 4);
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Log {
    shared: Arc<Shared>,
}

impl Log {
    /// Creates the log of a new store whose superblock has `generation`. The first sequence is 1.
    /// The reserve and the first segment are durable when this returns.
    ///
    /// # Errors
    /// [`Error::StoreExists`] when there are files of a log, [`Error::BadOption`], `DiskFull`, or
    /// as the device says.
    pub fn create(directory: &Arc<dyn Directory>, options: LogOptions, generation: u64) -> Result<Log> {
        options.validate()?;
        if directory.list()?.iter().any(|name| slot_of(name).is_some()) {
            return Err(Error::StoreExists {
                directory: directory.describe(),
            });
        }
        assert!(generation > 0, "generations are counted from 1");
        let origin = Origin {
            incarnation: 1,
            base: 0,
            boot: directory.boot_id(),
            generation,
            synced: 0,
            released: 0,
            number: 1,
            time_ms: 0,
        };
        let shared = Shared::new(directory, options, BTreeSet::new(), origin)?;
        if options.starts_small {
            shared.pool.start_small()?;
        }
        shared.control(Kind::Note, generation)?;
        shared.begin_mark()?;
        shared.sync_mark()?;
        if !options.starts_small && !shared.pool.fill_reserve()? {
            return Err(Error::Device(alluvium_device::Error::DiskFull {
                operation: alluvium_device::Operation::Grow,
                file: "the log's reserve".to_owned(),
                wanted: options.reserve_bytes,
            }));
        }
        Ok(Log {
            shared: Arc::new(shared),
        })
    }

    /// Opens the log of a store whose superblock has `generation` and holds everything up to
    /// `from`, and hands every record with a sequence above `from` to `replay`, in the order of
    /// sequences. `synced_at_least` is what the superblock says was synced. Afterwards
    /// [`Log::completed`] is the last sequence of the log; the next append begins above it.
    ///
    /// The log ends before the first gap. A gap at or below the synced watermark is an error; so is
    /// one at or below the completion watermark that a record names, on the boot and the mount that
    /// wrote it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the place when something at or below the synced watermark is missing
    /// or damaged; [`Error::OlderGeneration`] when the log names a newer generation;
    /// [`Error::NewerFormat`]; what `replay` fails with; or as the device says. Whatever it is, the
    /// log can be opened again as after a crash.
    pub fn open(
        directory: &Arc<dyn Directory>,
        options: LogOptions,
        from: u64,
        generation: u64,
        synced_at_least: u64,
        replay: &mut dyn FnMut(Record<'_>) -> Result<()>,
    ) -> Result<Log> {
        let start = Start {
            from,
            generation,
            synced_at_least,
        };
        let (shared, _) = recover::open(directory, options, start, Strictness::Strict, replay)?;
        Ok(Log {
            shared: Arc::new(shared),
        })
    }

    /// Opens a log as far as it goes: every sound record above `from` is replayed, damage is
    /// skipped and reported, a newer generation named by the log is accepted. Afterwards the log is
    /// sound: what was missing is void. Nothing else ever skips damage.
    ///
    /// # Errors
    /// [`Error::NewerFormat`], what `replay` fails with, or as the device says.
    pub fn repair(
        directory: &Arc<dyn Directory>,
        options: LogOptions,
        from: u64,
        generation: u64,
        replay: &mut dyn FnMut(Record<'_>) -> Result<()>,
    ) -> Result<(Log, RepairReport)> {
        let start = Start {
            from,
            generation,
            synced_at_least: 0,
        };
        let (shared, report) = recover::open(directory, options, start, Strictness::Repair, replay)?;
        let log = Log {
            shared: Arc::new(shared),
        };
        Ok((log, report))
    }

    /// Appends a record that covers `first..first + count`, and returns when `durability` holds.
    ///
    /// Sequences are dense: each is appended once, by whichever thread, or given up with
    /// [`Log::void`]. A thread that asks for `Disk` waits until all lower sequences are complete,
    /// so it must not be the one that is still to append them.
    ///
    /// # Errors
    /// [`Error::LogFull`] or `DiskFull` ([`Error::is_full`]) with nothing written: the sequences
    /// are still open, and can be appended again once the log has space. [`Error::BadOption`] for a
    /// payload above [`MAX_PAYLOAD`]. Anything else is for good: [`Error::Poisoned`] follows, and
    /// whether the record survives is open, as after a crash.
    ///
    /// # Panics
    /// When `first` or `count` is zero, or the sequences were appended before.
    pub fn append(&self, first: u64, count: u32, payload: &[u8], durability: Durability) -> Result<()> {
        self.append_as(first, count, payload, durability, Importance::Normal)
    }

    /// As [`Log::append`], for records that may use the reserve.
    ///
    /// # Errors
    /// As [`Log::append`].
    ///
    /// # Panics
    /// As [`Log::append`].
    pub fn append_as(
        &self,
        first: u64,
        count: u32,
        payload: &[u8],
        durability: Durability,
        importance: Importance,
    ) -> Result<()> {
        self.append_parts(first, count, [payload, &[]], durability, importance)
    }

    /// As [`Log::append_as`], of a payload in two parts, which stand one behind the other: a caller
    /// need not put them together.
    ///
    /// # Errors
    /// As [`Log::append`].
    ///
    /// # Panics
    /// As [`Log::append`].
    #[inline]
    pub fn append_parts(
        &self,
        first: u64,
        count: u32,
        [payload, tail]: [&[u8]; 2],
        durability: Durability,
        importance: Importance,
    ) -> Result<()> {
        let entry = Entry {
            kind: Kind::Data,
            first,
            count: count.into(),
            payload,
            tail,
            ..Entry::CONTROL
        };
        self.shared.append(entry, durability, importance.into())
    }

    /// Gives up sequences that were assigned and could not be appended: they hold nothing, and
    /// nothing waits for them any more. It may use the reserve.
    ///
    /// # Errors
    /// As [`Log::append`].
    ///
    /// # Panics
    /// As [`Log::append`].
    pub fn void(&self, first: u64, count: u32) -> Result<()> {
        self.shared.void(first, count)
    }

    /// Makes everything that is complete durable, and returns up to where that is. That it is
    /// durable is written down durably apart from the segments: whatever of it is damaged later is
    /// missed.
    ///
    /// # Errors
    /// As the device says; the log is poisoned then.
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

    /// Writes the synced watermark down durably, apart from the segments: from now on damage to
    /// anything below it is found, whatever crashes. It costs a sync of a small file, unless the
    /// mark says as much already.
    ///
    /// # Errors
    /// As the device says; the log is poisoned then.
    pub fn mark_synced(&self) -> Result<()> {
        self.shared.commit.healthy()?;
        self.shared
            .sync_mark()
            .map_err(|error| self.shared.poison_unless_full(error))
    }

    /// Makes everything up to `sequence` durable. Callers that ask at the same time share a sync.
    ///
    /// # Errors
    /// As the device says; the log is poisoned then.
    pub fn sync_through(&self, sequence: u64) -> Result<()> {
        self.shared.commit.healthy()?;
        if self.synced() >= sequence {
            return Ok(());
        }
        self.shared.wait_synced(sequence)
    }

    /// Returns what was written to the log and was gone when it was opened, unless that was
    /// refused: after a loss of power this is no proof of damage.
    #[must_use]
    pub fn lost_tail(&self) -> Option<&LostTail> {
        self.shared.lost_tail.as_ref()
    }

    /// Returns the name of a file of the log that was removed since it was opened, if any was: what
    /// it holds is gone once the log is closed.
    #[must_use]
    pub fn removed_file(&self) -> Option<String> {
        self.shared.removed_file()
    }

    /// Everything up to this sequence survives the loss of power.
    #[must_use]
    pub fn synced(&self) -> u64 {
        self.shared.commit.synced()
    }

    /// Every sequence up to this one was appended, or given up.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.shared.watermark.completed()
    }

    /// Makes durable that `generation` exists: from then on no older superblock is accepted. To be
    /// called once its superblock is durable, before [`Log::release`].
    ///
    /// # Errors
    /// As the device says; the log is poisoned unless the disk was full. It seldom is: the note may
    /// use the reserve.
    pub fn note_generation(&self, generation: u64) -> Result<()> {
        self.shared.control(Kind::Note, generation)
    }

    /// A durable checkpoint holds everything up to `through`, and its generation was noted:
    /// segments that hold nothing above are recycled, or punched when they have been idle for long.
    /// They are never synced any more.
    ///
    /// # Errors
    /// As the device says; the log is poisoned then.
    pub fn release(&self, through: u64) -> Result<()> {
        self.shared.release(through)
    }

    /// Keeps released segments from now on, the newest ones of them, up to `bytes` bytes beyond the
    /// limit.
    pub fn retain(&self, bytes: u64) {
        self.shared.history.retain(bytes);
    }

    /// Every record above this sequence is still there, as far as it was appended.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.shared.history.forgotten()
    }

    /// Hands records above `after` and up to `through` over, which are complete, in the order of
    /// their sequences, until about `bytes` of them were. Answers the last sequence that was looked
    /// at; none when some of it is not there any more.
    ///
    /// # Errors
    /// As the device says.
    pub fn read_after(
        &self,
        after: u64,
        through: u64,
        bytes: u64,
        take: &mut dyn FnMut(Record<'_>),
    ) -> Result<Option<u64>> {
        self.shared.read_after(after, through, bytes, take)
    }

    /// Returns the latest time that was noted, in milliseconds since 1970, by earlier openings too.
    #[must_use]
    pub fn time_ms(&self) -> u64 {
        self.shared.time_ms.load(Ordering::Acquire)
    }

    /// Notes the time that readers read by: it is written down with the next mark.
    pub fn note_time(&self, now_ms: u64) {
        self.shared.time_ms.store(now_ms, Ordering::Release);
    }

    /// Writes the time that was noted down, so that the death of the process does not undo it.
    ///
    /// # Errors
    /// As the device says; the log is poisoned then.
    pub fn mark_time(&self) -> Result<()> {
        self.shared.commit.healthy()?;
        self.shared
            .mark_time()
            .map_err(|error| self.shared.poison_unless_full(error))
    }

    /// Does a slice of background work, at most a mebibyte of page touches or one file: empties
    /// buffers, makes segments ready ahead of the writers, punches idle ones. Without calls of it,
    /// appends do the same when they must.
    ///
    /// # Errors
    /// As the device says; the log is poisoned then.
    pub fn prepare(&self) -> Result<Progress> {
        self.shared.prepare()
    }

    /// Returns whether the next segment that ordinary writes need has its space already.
    #[must_use]
    pub fn has_space(&self) -> bool {
        self.shared.has_space()
    }

    /// Returns how much space the log asks the file system for at once, in bytes; for a longer
    /// record more.
    #[must_use]
    pub fn segment_bytes(&self) -> u64 {
        self.shared.segment_bytes()
    }

    /// Returns what the log holds.
    #[must_use]
    pub fn usage(&self) -> LogUsage {
        self.shared.usage()
    }

    /// Syncs everything and marks the log as closed, so that at the next opening any damage is
    /// found. Clones of this handle refuse further work.
    ///
    /// # Errors
    /// As the device says.
    #[allow(clippy::needless_pass_by_value)]
    pub fn close(self) -> Result<()> {
        self.shared.close()
    }
}
