//! The steps of a commit, from admission to acknowledgement.
//!
//! ```text
//!   admitted        room on the disk, debt not too high       throttle.rs
//!   assigned        its sequence numbers and its memtable     queue.rs
//!   logged          in the page cache                         storage::log
//!   applied         in the memtable
//!   visible         all lower ones are, too                   visible_sequence.rs
//!   synced          if it asked for it                        storage::log
//!   acknowledged
//! ```
//!
//! A commit becomes visible before it is synced, so a reader may see a commit that a power failure
//! then undoes. Writes that depend on such a read are undone as well, because recovery keeps a
//! prefix of the log.

use super::Engine;
use super::commit_record::{CommitRecord, too_long};
use super::guard::CommitGuard;
use super::memory::LargeCommitPermit;
use super::queue::{RECORD_OVERHEAD, SequenceAssignment};
use super::structures::LoggedPart;
use super::throttle::FULL_TURNS;
use crate::error::{Error, Result};
use crate::locking::locks::{LockMode, LockSet};
use crate::options::Durability;
use crate::schema::catalog::CommitKeyspaces;
use crate::schema::format::{LogWrite, LogWriteIter};
use alluvium_base::{Message, MessageKind, SequenceNumber};
use alluvium_dictionary::memtable::{Memtable, MemtableFull, RANGE_OVERHEAD};
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::log::{self, AppendPriority, MAX_PAYLOAD};
use std::time::{Duration, Instant};

/// Maximum number of checkpoints that a commit waits for when the log is full, before it fails. One
/// may not be enough, because other writers may use the freed log space first.
pub(super) const LOG_TURNS: u32 = 20;

/// Minimum time that a commit is retried when the log is full and background threads are running.
/// Large writes of other threads may repeatedly use the freed log space first.
const LOG_PATIENCE: Duration = Duration::from_secs(10);

/// The condition of a conditional commit. No other writer can change the commit's keys while it is
/// evaluated.
pub(crate) type CommitCondition<'a> = dyn Fn() -> Result<ConditionVerdict> + 'a;

/// A commit's condition, and the locks that keep it true until the commit is applied.
#[derive(Clone, Copy)]
pub(crate) struct CommitPreconditions<'a> {
    /// The condition, or `None` for an unconditional commit.
    pub(crate) condition: Option<&'a CommitCondition<'a>>,
    /// Mode for locking the written keys while the condition is evaluated.
    pub(crate) mode: LockMode,
    /// Adds locks on the keys that the condition has read.
    pub(crate) reads: &'a dyn Fn(&mut LockSet),
    /// Whether a transaction already holds the locks of the written keys.
    pub(crate) is_locked: bool,
}

impl<'a> CommitPreconditions<'a> {
    /// Preconditions of an unconditional commit whose keys are already locked.
    pub(crate) const LOCKED: CommitPreconditions<'static> = CommitPreconditions {
        condition: None,
        mode: LockMode::Blind,
        reads: &|_| (),
        is_locked: true,
    };

    /// Returns the preconditions of a commit whose condition depends only on the keys that the
    /// commit writes.
    pub(crate) fn of_its_keys(condition: &'a CommitCondition<'a>) -> CommitPreconditions<'a> {
        CommitPreconditions {
            condition: Some(condition),
            mode: LockMode::Exclusive,
            reads: &|_| (),
            is_locked: false,
        }
    }
}

/// Result of evaluating the condition of a commit.
#[derive(Clone, Copy)]
pub(crate) enum ConditionVerdict {
    /// The condition is true; the commit proceeds.
    Go,
    /// The condition is false; nothing is written.
    Stop,
}

/// Counts how often a commit has been rejected so far.
#[derive(Debug, Default)]
struct CommitRefusals {
    turns: u32,
    /// Time at which the commit was first rejected after the maximum number of checkpoints, or
    /// `None` if it was not.
    since: Option<Instant>,
}

/// Returns whether the error reports a full log, in which case a checkpoint would free log space.
pub(super) fn is_log_full(error: &Error) -> bool {
    matches!(error.storage(), Some(alluvium_storage::Error::LogFull { .. }))
}

/// Outcome of one attempt to commit.
enum CommitAttempt {
    /// The commit was applied to the memtable; `last` is the sequence number of its last write.
    Applied { last: SequenceNumber },
    /// The condition is false. The writes that it has seen have sequence numbers of at most `seen`.
    ConditionFailed { seen: SequenceNumber },
    /// Locking transactions are in use. The caller must lock the written keys and try again.
    NeedsLocks,
}

impl Engine {
    /// Commits unconditionally. Waits until the requested durability is reached, and returns the
    /// last sequence number of the commit.
    pub(crate) fn commit(
        &self,
        commit: &CommitRecord<'_>,
        owners: CommitKeyspaces<'_>,
        durability: Durability,
    ) -> Result<SequenceNumber> {
        let at = self.commit_if(commit, owners, durability, None)?;
        Ok(at.expect("there is no condition"))
    }

    /// Commits if the condition is true. While the condition is evaluated, no other writer can
    /// change the keys that it depends on. Returns the last sequence number of the commit, or
    /// `None` if the condition is false. Before `None` is returned, all writes that the condition
    /// has seen have become visible.
    pub(crate) fn commit_if(
        &self,
        commit: &CommitRecord,
        owners: CommitKeyspaces<'_>,
        durability: Durability,
        terms: Option<&CommitPreconditions<'_>>,
    ) -> Result<Option<SequenceNumber>> {
        if commit.len() > MAX_PAYLOAD {
            return Err(too_long(commit, MAX_PAYLOAD));
        }
        if commit.count == 0 {
            self.catalog.alive(owners)?;
            let at = self.visible.at();
            // An empty commit may be the deletion of a range that turned out to be empty, which the
            // caller cannot know in advance. With `Durability::Disk` it must still make all earlier
            // writes durable.
            if durability == Durability::Disk {
                self.health()?;
                self.sync()?;
            }
            return Ok(Some(at));
        }
        if self.dictionaries.has_quarantined_pages() {
            self.reject_quarantined_writes(commit, owners)?;
        }
        self.dictionaries.admit_volatile(commit)?;
        let durability = match durability {
            Durability::Disk if self.dictionaries.is_all_volatile(commit) => Durability::Process,
            asked => asked,
        };
        if terms.is_some_and(|terms| terms.condition.is_some()) {
            self.stripes.require_locks(&self.writers);
        }
        let room = memtable_bytes_of_commit(commit);
        let mut turn = match self.queue.is_large(room) {
            false => None,
            true => Some(self.acquire_large_commit(commit)?),
        };
        let mut refusals = CommitRefusals::default();
        loop {
            self.admit(commit, room)?;
            if let Some(turn) = &turn {
                turn.wait_for_memory(self);
            }
            match self.try_commit(commit, room, owners, turn.as_ref(), terms) {
                Ok(CommitAttempt::ConditionFailed { seen }) => {
                    drop(turn.take());
                    self.wait_until_visible(seen)?;
                    return Ok(None);
                }
                Ok(CommitAttempt::NeedsLocks) => {
                    // Release the permit for large commits before waiting for locks, whose owners
                    // may be waiting for the permit.
                    drop(turn.take());
                    return self.commit_under_locks(commit, owners, durability, terms);
                }
                Ok(CommitAttempt::Applied { last }) => {
                    drop(turn.take());
                    self.wait_until_visible(last)?;
                    if self.unlogged_voids.are_there() && self.store.log().completed() < last {
                        // Recovery would truncate the log at the missing sequence numbers, so they
                        // must be voided in the log before this commit is acknowledged.
                        self.write_pending_voids()?;
                    }
                    if durability == Durability::Disk {
                        self.sync_through(last)?;
                    }
                    return Ok(Some(last));
                }
                Err(error) => self.handle_rejection(error, commit, &mut refusals)?,
            }
        }
    }

    /// Fails if the commit writes to a keyspace whose pages are quarantined. Changes to the catalog
    /// are allowed, so that such a keyspace can be dropped.
    #[cold]
    fn reject_quarantined_writes(
        &self,
        commit: &CommitRecord<'_>,
        owners: CommitKeyspaces<'_>,
    ) -> Result<()> {
        if matches!(owners, CommitKeyspaces::Catalog) {
            return Ok(());
        }
        let Some(id) = self.dictionaries.in_pages(commit.writes()) else {
            return Ok(());
        };
        let keyspace = self.catalog.by_id(id);
        self.dictionaries
            .require_pages(|| keyspace.map_or_else(String::new, |keyspace| keyspace.name()))
    }

    /// Locks the written keys, commits, and releases the locks once the commit is visible.
    #[cold]
    fn commit_under_locks(
        &self,
        commit: &CommitRecord,
        owners: CommitKeyspaces<'_>,
        durability: Durability,
        terms: Option<&CommitPreconditions<'_>>,
    ) -> Result<Option<SequenceNumber>> {
        let locks = self.lock_commit(commit)?;
        let terms = CommitPreconditions {
            is_locked: true,
            ..*terms.unwrap_or(&CommitPreconditions::LOCKED)
        };
        let seen = durability.min(Durability::Process);
        let last = self.commit_if(commit, owners, seen, Some(&terms))?;
        // Release the locks now. Other transactions need not wait until the commit is durable.
        drop(locks);
        if let Some(last) = last
            && durability == Durability::Disk
        {
            self.sync_through(last)?;
        }
        Ok(last)
    }

    /// Waits until all writes up to sequence number `at` are visible.
    fn wait_until_visible(&self, at: SequenceNumber) -> Result<()> {
        if self.visible.wait_for(at) {
            return Ok(());
        }
        self.store.health()?;
        Err(Error::Closed)
    }

    /// Handles a rejected commit. If a retry may succeed, waits or frees space and returns `Ok`.
    /// Otherwise returns the error.
    fn handle_rejection(
        &self,
        error: Error,
        commit: &CommitRecord,
        refusals: &mut CommitRefusals,
    ) -> Result<()> {
        refusals.turns += 1;
        let turns = refusals.turns;
        let is_log_full = is_log_full(&error);
        if is_log_full && turns <= LOG_TURNS {
            // A checkpoint frees log space. The commit fails if it is still rejected after
            // `LOG_TURNS` checkpoints.
            return self.make_log_room();
        }
        if is_log_full && self.plan.workers > 0 {
            let since = *refusals.since.get_or_insert_with(Instant::now);
            if since.elapsed() < LOG_PATIENCE {
                self.throttle.wait_for_progress();
                return self.make_log_room();
            }
        }
        // Before a writer waits, let the log use the first data file's free space beyond its
        // reserve. Several turns may be needed, because other writers may use that space first.
        if error.is_full()
            && !is_log_full
            && turns <= LOG_TURNS
            && self.store.make_log_space(AllocationClass::Normal)?
        {
            return Ok(());
        }
        self.note_full(&error);
        let may_wait = !commit.grows || (self.plan.workers > 0 && self.is_space_expected());
        if error.is_full() && !is_log_full && may_wait && turns <= FULL_TURNS {
            return self.make_log_room_on_a_full_disk();
        }
        Err(error)
    }

    /// Attempts the commit once, up to the point where it is applied to the memtable. If the
    /// condition is false, returns before any sequence number is assigned.
    fn try_commit(
        &self,
        commit: &CommitRecord,
        room: u64,
        owners: CommitKeyspaces<'_>,
        turn: Option<&LargeCommitPermit<'_>>,
        terms: Option<&CommitPreconditions<'_>>,
    ) -> Result<CommitAttempt> {
        let condition = terms.and_then(|terms| terms.condition);
        // An attached ingest must be visible to conditions before a client can act on it, so no
        // ingest is attached while a condition is evaluated.
        let _no_ingest = condition.map(|_| self.ingests.attaching.read());
        let _writing = self.writers.pin();
        if self.locks.are_required() && !terms.is_some_and(|terms| terms.is_locked) {
            return Ok(CommitAttempt::NeedsLocks);
        }
        // If the keyspace is dropped after this check, the drop waits for this commit and then
        // deletes its writes.
        self.catalog.alive(owners)?;
        let _held = match terms.filter(|_| condition.is_some()) {
            None => self.stripes.lock_blind(commit.writes()),
            Some(terms) => Some(self.stripes.lock_for(commit.writes(), terms.mode, terms.reads)),
        };
        if let Some(condition) = condition
            && let ConditionVerdict::Stop = condition()?
        {
            // The condition may have read writes that are not visible yet, but none with a sequence
            // number above `seen`.
            let seen = self.queue.last();
            return Ok(CommitAttempt::ConditionFailed { seen });
        }
        let count = u64::from(commit.count);
        let place = self.queue.assign(count, room, || self.note_sealed());
        if let Some(turn) = turn
            && room > self.plan.scale.memtable
        {
            turn.takes(&place.slot.memtable);
        }
        let committing = CommitGuard::new(self);
        let written = self.log_and_apply(commit, &place, room);
        committing.end();
        written.map(|last| CommitAttempt::Applied { last })
    }

    /// Appends a commit to the log, applies it to its memtable and makes it visible. Returns the
    /// commit's last sequence number.
    fn log_and_apply(
        &self,
        commit: &CommitRecord,
        place: &SequenceAssignment,
        bytes: u64,
    ) -> Result<SequenceNumber> {
        let last = place.first + u64::from(commit.count) - 1;
        if let Err(error) = self.log(commit, place) {
            self.visible.complete(place.first, last);
            return Err(error.into());
        }
        if apply_all(&place.slot.memtable, commit.writes(), place.first).is_err() {
            // The commit is in the log but cannot be made visible. The next opening of the store
            // replays it.
            self.visible.stop();
            let cause = format!("a memtable has no space for {bytes} bytes that were reserved");
            return Ok(self
                .store
                .poison_on_error(Err(alluvium_storage::Error::Poisoned { cause }))?);
        }
        // Do this before the commit becomes visible (N1). A reader that sees the commit must not
        // skip a range that was empty until the commit wrote to it.
        self.queue.empty_ranges().written(assigned_keys(commit.writes()));
        self.visible.complete(place.first, last);
        self.counters.committed(commit);
        self.workload_monitor
            .committed(commit.count, || commit.writes(), || self.time.peek());
        Ok(last)
    }

    /// Appends the commit record to the log. If the log is full, voids the commit's sequence
    /// numbers and returns the error.
    fn log(&self, commit: &CommitRecord, place: &SequenceAssignment) -> alluvium_storage::Result<()> {
        let importance = if commit.grows {
            AppendPriority::Normal
        } else {
            AppendPriority::Essential
        };
        let log = self.store.log();
        let kept = self.dictionaries.kept(commit);
        let parts = match &kept {
            LoggedPart::All => [&commit.record[..], commit.tail],
            LoggedPart::Part(record) => [record, &[][..]],
            LoggedPart::Nothing => return self.void_sequences(place.first, commit.count),
        };
        let appended = log.append_parts(
            place.first,
            commit.count,
            parts,
            log::LogDurability::Process,
            importance,
        );
        match appended {
            Err(error) if error.is_full() => {
                self.void_sequences(place.first, commit.count)?;
                Err(error)
            }
            other => self.store.poison_on_error(other),
        }
    }

    /// Writes a log record that marks `count` sequence numbers from `first` as unused. If the disk
    /// is full, queues the record for [`Engine::write_pending_voids`].
    pub(super) fn void_sequences(&self, first: SequenceNumber, count: u32) -> alluvium_storage::Result<()> {
        match self.store.poison_on_error(self.store.log().void(first, count)) {
            Err(error) if error.is_full() => {
                self.unlogged_voids.note(first, count);
                Ok(())
            }
            other => other,
        }
    }

    /// Writes the queued void records to the log. Until then, no commit with a higher sequence
    /// number can be synced.
    pub(crate) fn write_pending_voids(&self) -> Result<()> {
        self.unlogged_voids
            .fill(|first, count| Ok(self.store.poison_on_error(self.store.log().void(first, count))?))
    }

    /// Waits until every commit up to sequence number `at` is durable.
    pub(crate) fn sync_through(&self, at: SequenceNumber) -> Result<()> {
        self.write_pending_voids()?;
        Ok(self.store.poison_on_error(self.store.log().sync_through(at))?)
    }
}

/// Returns the maximum number of memtable bytes that a commit can need.
fn memtable_bytes_of_commit(commit: &CommitRecord) -> u64 {
    let records = commit.kinds.iter().map(|&count| u64::from(count)).sum();
    let ranges = u64::from(commit.count).saturating_sub(records);
    memtable_bytes(commit.len(), records, ranges)
}

/// Returns the maximum number of memtable bytes that a log record of `bytes` bytes with `records`
/// point writes and `ranges` range deletes can need.
pub(super) fn memtable_bytes(bytes: u64, records: u64, ranges: u64) -> u64 {
    bytes + records * RECORD_OVERHEAD + ranges * RANGE_OVERHEAD as u64
}

/// Decodes a log record and applies its writes to a memtable. The first write has the sequence
/// number `first`.
pub(crate) fn apply(
    memtable: &Memtable,
    record: &[u8],
    first: SequenceNumber,
) -> std::result::Result<(), ApplyError> {
    apply_all(memtable, LogWriteIter::new(record), first)
}

/// Applies the writes of a log record to a memtable. The first write has the sequence number
/// `first`.
fn apply_all(
    memtable: &Memtable,
    writes: LogWriteIter<'_>,
    first: SequenceNumber,
) -> std::result::Result<(), ApplyError> {
    for (write, sequence) in writes.zip(first..) {
        match write.map_err(ApplyError::Damaged)? {
            LogWrite::One {
                key,
                kind,
                expires_ms,
                operand,
            } => memtable.insert(
                key,
                Message {
                    sequence,
                    kind,
                    expires_ms,
                    operand,
                },
            )?,
            LogWrite::Range { start, end } => memtable.delete_range(start, end, sequence)?,
            // Nothing to apply: the tree already contains the ingest, or the ingest was never
            // acknowledged.
            LogWrite::Ingest { .. } => {}
            // Nothing to apply: volatile data does not outlive the process that wrote it.
            LogWrite::Volatile => {}
        }
    }
    Ok(())
}

/// Returns the keys that the writes put or merge into. Deletes are skipped.
fn assigned_keys(writes: LogWriteIter<'_>) -> impl Iterator<Item = &[u8]> {
    writes.filter_map(|write| match write {
        Ok(LogWrite::One { key, kind, .. }) if kind != MessageKind::Delete => Some(key),
        _ => None,
    })
}

/// Why a log record cannot be applied to a memtable.
#[derive(Debug)]
pub(crate) enum ApplyError {
    Full,
    /// The log record is malformed. The string says how.
    Damaged(String),
}

impl From<MemtableFull> for ApplyError {
    fn from(_: MemtableFull) -> ApplyError {
        ApplyError::Full
    }
}
