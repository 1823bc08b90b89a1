//! The path of a commit, from admission to acknowledgement.
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
//! A commit becomes visible before it is synced: a reader may see a commit that a power loss then
//! undoes. Writes that depend on this read are undone as well, because recovery keeps a prefix of
//! the log.

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

/// Maximum number of attempts of a commit to free log space by a checkpoint before it is refused.
/// Several are needed because other writers may use the freed space first.
pub(super) const LOG_TURNS: u32 = 20;

/// Minimum time for which a commit keeps trying if background threads run: large writes of other
/// threads may repeatedly use the freed space first.
const LOG_PATIENCE: Duration = Duration::from_secs(10);

/// The condition of a conditional commit. No other writer changes the commit's keys while it is
/// evaluated.
pub(crate) type CommitCondition<'a> = dyn Fn() -> Result<ConditionVerdict> + 'a;

/// The condition of a commit, and the locks that keep it true until the commit is applied.
#[derive(Clone, Copy)]
pub(crate) struct CommitPreconditions<'a> {
    /// The condition, if there is one.
    pub(crate) condition: Option<&'a CommitCondition<'a>>,
    /// How the written keys are locked while the condition is evaluated.
    pub(crate) mode: LockMode,
    /// Adds locks on the keys that were read.
    pub(crate) reads: &'a dyn Fn(&mut LockSet),
    /// Whether a transaction already holds locks on the written keys.
    pub(crate) is_locked: bool,
}

impl<'a> CommitPreconditions<'a> {
    /// Terms of an unconditional commit whose keys are already locked.
    pub(crate) const LOCKED: CommitPreconditions<'static> = CommitPreconditions {
        condition: None,
        mode: LockMode::Blind,
        reads: &|_| (),
        is_locked: true,
    };

    /// Terms of a commit whose condition depends only on the keys that it writes.
    pub(crate) fn of_its_keys(condition: &'a CommitCondition<'a>) -> CommitPreconditions<'a> {
        CommitPreconditions {
            condition: Some(condition),
            mode: LockMode::Exclusive,
            reads: &|_| (),
            is_locked: false,
        }
    }
}

/// Result of evaluating a condition.
pub(crate) enum ConditionVerdict {
    /// The condition holds; the commit proceeds.
    Go,
    /// The condition does not hold; nothing is written.
    Stop,
}

/// Refusals of one commit so far.
#[derive(Debug, Default)]
struct CommitRefusals {
    turns: u32,
    /// When it was first refused because checkpoints freed too little log.
    since: Option<Instant>,
}

/// Returns whether the error is a full log, which a checkpoint would free.
pub(super) fn is_log_full(error: &Error) -> bool {
    matches!(error.storage(), Some(alluvium_storage::Error::LogFull { .. }))
}

/// Outcome of one attempt to commit.
enum CommitAttempt {
    /// The commit is applied; `last` is its last sequence number.
    Applied { last: SequenceNumber },
    /// The condition does not hold; it has seen writes up to `seen` at most.
    ConditionFailed { seen: SequenceNumber },
    /// Transactions use locks: retry while holding locks on the written keys.
    NeedsLocks,
}

impl Engine {
    /// Commits. Returns the last sequence number once `durability` is reached.
    pub(crate) fn commit(
        &self,
        commit: &CommitRecord<'_>,
        owners: CommitKeyspaces<'_>,
        durability: Durability,
    ) -> Result<SequenceNumber> {
        let at = self.commit_if(commit, owners, durability, None)?;
        Ok(at.expect("there is no condition"))
    }

    /// Commits if the condition holds; it is evaluated while no other writer can change the keys
    /// that it depends on. Returns `None` if it does not hold; all writes that the condition has
    /// seen are visible by then.
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
            // Deleting an empty range writes nothing, but the caller may not know this: a durable
            // write still makes all earlier writes durable.
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
                    // Release the turn first: owners of the locks may be waiting for it.
                    drop(turn.take());
                    return self.commit_under_locks(commit, owners, durability, terms);
                }
                Ok(CommitAttempt::Applied { last }) => {
                    drop(turn.take());
                    self.wait_until_visible(last)?;
                    if self.unlogged_voids.are_there() && self.store.log().completed() < last {
                        // Recovery would cut the log at the gap, so the gap must be filled before
                        // this commit is acknowledged.
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

    /// Fails for a commit to a keyspace whose pages are quarantined. Dropping such a keyspace is
    /// allowed.
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

    /// Commits while holding locks on the written keys until the commit is visible.
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
        // Other transactions need not wait for the device.
        drop(locks);
        if let Some(last) = last
            && durability == Durability::Disk
        {
            self.sync_through(last)?;
        }
        Ok(last)
    }

    /// Waits until all writes up to `at` are visible.
    fn wait_until_visible(&self, at: SequenceNumber) -> Result<()> {
        if self.visible.wait_for(at) {
            return Ok(());
        }
        self.store.health()?;
        Err(Error::Closed)
    }

    /// Handles a refused commit: waits or frees space so that a retry may succeed, or returns the
    /// error.
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
            // A checkpoint frees log. A commit that is still refused after this many checkpoints
            // fails.
            return self.make_log_room();
        }
        if is_log_full && self.plan.workers > 0 {
            let since = *refusals.since.get_or_insert_with(Instant::now);
            if since.elapsed() < LOG_PATIENCE {
                self.throttle.wait_for_progress();
                return self.make_log_room();
            }
        }
        // Before any writer waits, the log may use free space of the first data file beyond the
        // reserve. Other writers may use that space first.
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

    /// Attempts the commit once, up to its application to the memtable. Stops before assigning
    /// sequence numbers if the condition does not hold.
    fn try_commit(
        &self,
        commit: &CommitRecord,
        room: u64,
        owners: CommitKeyspaces<'_>,
        turn: Option<&LargeCommitPermit<'_>>,
        terms: Option<&CommitPreconditions<'_>>,
    ) -> Result<CommitAttempt> {
        let condition = terms.and_then(|terms| terms.condition);
        // Attached ingests must be visible to conditions before a client can act on them.
        let _no_ingest = condition.map(|_| self.ingests.attaching.read());
        let _writing = self.writers.pin();
        if self.locks.are_required() && !terms.is_some_and(|terms| terms.is_locked) {
            return Ok(CommitAttempt::NeedsLocks);
        }
        // A keyspace dropped after this check waits for this commit and deletes its writes.
        self.catalog.alive(owners)?;
        let _held = match terms.filter(|_| condition.is_some()) {
            None => self.stripes.lock_blind(commit.writes()),
            Some(terms) => Some(self.stripes.lock_for(commit.writes(), terms.mode, terms.reads)),
        };
        if let Some(condition) = condition
            && let ConditionVerdict::Stop = condition()?
        {
            // The condition may have read writes that are not visible yet, but none later than
            // this.
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

    /// Appends a commit to the log, applies it to its memtable and makes it visible. Returns its
    /// last sequence number.
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
            // The commit is in the log but cannot be made visible; the next opening replays it.
            self.visible.stop();
            let cause = format!("a memtable has no space for {bytes} bytes that were reserved");
            return Ok(self
                .store
                .poison_on_error(Err(alluvium_storage::Error::Poisoned { cause }))?);
        }
        // Must precede visibility: readers that see the commit must not find a range empty that it
        // writes to (N1).
        self.queue.empty_ranges().written(assigned_keys(commit.writes()));
        self.visible.complete(place.first, last);
        self.counters.committed(commit);
        self.workload_monitor
            .committed(commit.count, || commit.writes(), || self.time.peek());
        Ok(last)
    }

    /// Appends the record to the log, or voids its sequence numbers if the log is full.
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

    /// Voids sequence numbers in the log, or queues the void record if the disk is full.
    pub(super) fn void_sequences(&self, first: SequenceNumber, count: u32) -> alluvium_storage::Result<()> {
        match self.store.poison_on_error(self.store.log().void(first, count)) {
            Err(error) if error.is_full() => {
                self.unlogged_voids.note(first, count);
                Ok(())
            }
            other => other,
        }
    }

    /// Writes the queued void records to the log. Until then, no later commit can be synced.
    pub(crate) fn write_pending_voids(&self) -> Result<()> {
        self.unlogged_voids
            .fill(|first, count| Ok(self.store.poison_on_error(self.store.log().void(first, count))?))
    }

    /// Waits until every commit up to `at` survives power loss.
    pub(crate) fn sync_through(&self, at: SequenceNumber) -> Result<()> {
        self.write_pending_voids()?;
        Ok(self.store.poison_on_error(self.store.log().sync_through(at))?)
    }
}

/// Returns an upper bound of the memtable bytes needed by a commit.
fn memtable_bytes_of_commit(commit: &CommitRecord) -> u64 {
    let records = commit.kinds.iter().map(|&count| u64::from(count)).sum();
    let ranges = u64::from(commit.count).saturating_sub(records);
    memtable_bytes(commit.len(), records, ranges)
}

/// Returns an upper bound of the memtable bytes needed by a log record of `bytes` bytes with this
/// number of point writes and range deletes.
pub(super) fn memtable_bytes(bytes: u64, records: u64, ranges: u64) -> u64 {
    bytes + records * RECORD_OVERHEAD + ranges * RANGE_OVERHEAD as u64
}

/// Applies the writes of a log record to a memtable. The first write has the sequence number
/// `first`.
pub(crate) fn apply(
    memtable: &Memtable,
    record: &[u8],
    first: SequenceNumber,
) -> std::result::Result<(), ApplyError> {
    apply_all(memtable, LogWriteIter::new(record), first)
}

/// Applies writes to a memtable. The first write has the sequence number `first`.
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
            // Either the tree already contains the ingest, or it was never acknowledged.
            LogWrite::Ingest { .. } => {}
            // Volatile data is lost with the process that wrote it.
            LogWrite::Volatile => {}
        }
    }
    Ok(())
}

/// Returns the keys to which writes assign values or merge operands.
fn assigned_keys(writes: LogWriteIter<'_>) -> impl Iterator<Item = &[u8]> {
    writes.filter_map(|write| match write {
        Ok(LogWrite::One { key, kind, .. }) if kind != MessageKind::Delete => Some(key),
        _ => None,
    })
}

/// The reason why a log record cannot be applied.
#[derive(Debug)]
pub(crate) enum ApplyError {
    Full,
    /// The record is malformed, for this reason.
    Damaged(String),
}

impl From<MemtableFull> for ApplyError {
    fn from(_: MemtableFull) -> ApplyError {
        ApplyError::Full
    }
}
