//! A commit from start to end.
//!
//! ```text
//!   admitted        room on the disk, debt not too high       throttle.rs
//!   assigned        its sequence numbers and its memtable     queue.rs
//!   logged          in the page cache                         storage::log
//!   applied         in the memtable
//!   visible         all lower ones are, too                   visible.rs
//!   synced          if it asked for it                        storage::log
//!   acknowledged
//! ```
//!
//! A commit is seen before it is synced: a reader may see what the loss of power then undoes. What
//! the reader writes upon it is undone with it, for the log keeps a prefix.

use super::Engine;
use super::dictionaries::Kept;
use super::guard::Committing;
use super::memory::Turn;
use super::queue::{Place, RECORD_OVERHEAD};
use super::record::{Commit, too_long};
use super::throttle::FULL_TURNS;
use crate::catalog::Owners;
use crate::format::{Write, Writes};
use crate::locks::{LockMode, LockSet};
use crate::{Durability, Error, Result};
use alluvium_base::{Kind, Message, Sequence};
use alluvium_dictionary::memtable::{Full, Memtable, RANGE_OVERHEAD};
use alluvium_storage::extents::Class;
use alluvium_storage::log::{self, Importance, MAX_PAYLOAD};
use std::time::{Duration, Instant};

/// How often a commit waits for a checkpoint to free log before it is refused: others may take what
/// was freed.
pub(super) const LOG_TURNS: u32 = 20;

/// How long it does so at least where the background has threads of its own: large writes of
/// others may take each time what was freed.
const LOG_PATIENCE: Duration = Duration::from_secs(10);

/// What a commit depends on. Its keys are not written while it is asked.
pub(crate) type Condition<'a> = dyn Fn() -> Result<Verdict> + 'a;

/// What a commit depends on, and which locks keep it true until the commit is applied.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// What must hold, if anything.
    pub(crate) condition: Option<&'a Condition<'a>>,
    /// How the keys that are written are locked while a condition is asked.
    pub(crate) mode: LockMode,
    /// Adds the locks of what is read.
    pub(crate) reads: &'a dyn Fn(&mut LockSet),
    /// Whether a transaction has locked what is written.
    pub(crate) is_locked: bool,
}

impl<'a> Terms<'a> {
    /// Terms of a commit that depends on nothing, and whose keys are locked.
    pub(crate) const LOCKED: Terms<'static> = Terms {
        condition: None,
        mode: LockMode::Blind,
        reads: &|_| (),
        is_locked: true,
    };

    /// Terms of a commit that depends on the keys that it writes.
    pub(crate) fn of_its_keys(condition: &'a Condition<'a>) -> Terms<'a> {
        Terms {
            condition: Some(condition),
            mode: LockMode::Exclusive,
            reads: &|_| (),
            is_locked: false,
        }
    }
}

/// What a condition says about going on.
pub(crate) enum Verdict {
    /// The condition holds.
    Go,
    /// It does not: nothing is written.
    Stop,
}

/// How often a commit was refused.
#[derive(Debug, Default)]
struct Refusals {
    turns: u32,
    /// Since when by a log that checkpoints free too little of.
    since: Option<Instant>,
}

/// Returns whether a checkpoint would help.
pub(super) fn is_log_full(error: &Error) -> bool {
    matches!(error.storage(), Some(alluvium_storage::Error::LogFull { .. }))
}

/// What became of a commit.
enum Tried {
    /// It is applied, up to this number.
    Applied { last: Sequence },
    /// Its condition does not hold, by what was written up to this number.
    Stopped { seen: Sequence },
    /// It must lock what it writes to before.
    Unlocked,
}

impl Engine {
    /// Commits, and returns the last sequence number when `durability` holds.
    pub(crate) fn commit(
        &self,
        commit: &Commit<'_>,
        owners: Owners<'_>,
        durability: Durability,
    ) -> Result<Sequence> {
        let at = self.commit_if(commit, owners, durability, None)?;
        Ok(at.expect("there is no condition"))
    }

    /// Commits if a condition holds once no other writer can write to what it depends on. None when
    /// it does not; what the condition has seen is visible then.
    pub(crate) fn commit_if(
        &self,
        commit: &Commit,
        owners: Owners<'_>,
        durability: Durability,
        terms: Option<&Terms<'_>>,
    ) -> Result<Option<Sequence>> {
        if commit.len() > MAX_PAYLOAD {
            return Err(too_long(commit, MAX_PAYLOAD));
        }
        if commit.count == 0 {
            self.catalog.alive(owners)?;
            let at = self.visible.at();
            // The delete of an empty range writes nothing, and its caller need not know that. A
            // durable write makes all earlier writes durable all the same.
            if durability == Durability::Disk {
                self.health()?;
                self.sync()?;
            }
            return Ok(Some(at));
        }
        if self.dictionaries.has_aside() {
            self.admit_beside_damage(commit, owners)?;
        }
        self.dictionaries.admit_volatile(commit)?;
        let durability = match durability {
            Durability::Disk if self.dictionaries.is_all_volatile(commit) => Durability::Process,
            asked => asked,
        };
        if terms.is_some_and(|terms| terms.condition.is_some()) {
            self.stripes.want(&self.writers);
        }
        let room = room_for(commit);
        let mut turn = match self.queue.is_large(room) {
            false => None,
            true => Some(self.turn_of_long(commit)?),
        };
        let mut refusals = Refusals::default();
        loop {
            self.admit(commit, room)?;
            if let Some(turn) = &turn {
                turn.wait_for_memory(self);
            }
            match self.try_commit(commit, room, owners, turn.as_ref(), terms) {
                Ok(Tried::Stopped { seen }) => {
                    drop(turn.take());
                    self.wait_until_visible(seen)?;
                    return Ok(None);
                }
                Ok(Tried::Unlocked) => {
                    // Those for whose locks it waits may wait for its turn.
                    drop(turn.take());
                    return self.commit_under_locks(commit, owners, durability, terms);
                }
                Ok(Tried::Applied { last }) => {
                    drop(turn.take());
                    self.wait_until_visible(last)?;
                    if self.gaps.are_there() && self.store.log().completed() < last {
                        // A recovery would cut the log at the gap: this commit is not acknowledged
                        // before it is filled.
                        self.fill_gaps()?;
                    }
                    if durability == Durability::Disk {
                        self.sync_through(last)?;
                    }
                    return Ok(Some(last));
                }
                Err(error) => self.make_way(error, commit, &mut refusals)?,
            }
        }
    }

    /// Fails for a commit to a keyspace in pages that are set aside. It can be dropped.
    #[cold]
    fn admit_beside_damage(&self, commit: &Commit<'_>, owners: Owners<'_>) -> Result<()> {
        if matches!(owners, Owners::Catalog) {
            return Ok(());
        }
        let Some(id) = self.dictionaries.in_pages(commit.writes()) else {
            return Ok(());
        };
        let keyspace = self.catalog.by_id(id);
        self.dictionaries
            .require_pages(|| keyspace.map_or_else(String::new, |keyspace| keyspace.name()))
    }

    /// Locks what a commit writes to until it is visible.
    #[cold]
    fn commit_under_locks(
        &self,
        commit: &Commit,
        owners: Owners<'_>,
        durability: Durability,
        terms: Option<&Terms<'_>>,
    ) -> Result<Option<Sequence>> {
        let locks = self.lock_commit(commit)?;
        let terms = Terms {
            is_locked: true,
            ..*terms.unwrap_or(&Terms::LOCKED)
        };
        let seen = durability.min(Durability::Process);
        let last = self.commit_if(commit, owners, seen, Some(&terms))?;
        // Others need not wait for the device.
        drop(locks);
        if let Some(last) = last
            && durability == Durability::Disk
        {
            self.sync_through(last)?;
        }
        Ok(last)
    }

    /// Waits until what was written up to `at` is visible.
    fn wait_until_visible(&self, at: Sequence) -> Result<()> {
        if self.visible.wait_for(at) {
            return Ok(());
        }
        self.store.health()?;
        Err(Error::Closed)
    }

    /// Handles a refused commit, after `turns` refusals: has it succeed the next time, or returns
    /// why it does not.
    fn make_way(&self, error: Error, commit: &Commit, refusals: &mut Refusals) -> Result<()> {
        refusals.turns += 1;
        let turns = refusals.turns;
        let is_log_full = is_log_full(&error);
        if is_log_full && turns <= LOG_TURNS {
            // A checkpoint frees log; a commit that is let through by none of them is refused.
            return self.make_log_room();
        }
        if is_log_full && self.plan.workers > 0 {
            let since = *refusals.since.get_or_insert_with(Instant::now);
            if since.elapsed() < LOG_PATIENCE {
                self.pressure.nap();
                return self.make_log_room();
            }
        }
        // What lies free in the first data file, beyond the reserve, is the log's before any writer
        // waits. Others may take it first.
        if error.is_full()
            && !is_log_full
            && turns <= LOG_TURNS
            && self.store.make_log_space(Class::Normal)?
        {
            return Ok(());
        }
        self.note_full(&error);
        let may_wait = !commit.grows || (self.plan.workers > 0 && self.space_is_coming());
        if error.is_full() && !is_log_full && may_wait && turns <= FULL_TURNS {
            return self.make_log_room_on_a_full_disk();
        }
        Err(error)
    }

    /// Until it is applied. Ends before anything is assigned when the condition does not hold.
    fn try_commit(
        &self,
        commit: &Commit,
        room: u64,
        owners: Owners<'_>,
        turn: Option<&Turn<'_>>,
        terms: Option<&Terms<'_>>,
    ) -> Result<Tried> {
        let condition = terms.and_then(|terms| terms.condition);
        // What an ingest has attached is read by conditions before a client may act on it.
        let _no_ingest = condition.map(|_| self.ingests.attaching.read());
        let _writing = self.writers.pin();
        if self.locks.are_wanted() && !terms.is_some_and(|terms| terms.is_locked) {
            return Ok(Tried::Unlocked);
        }
        // A drop of one of them from here on waits for this commit, and deletes what it writes.
        self.catalog.alive(owners)?;
        let _held = match terms.filter(|_| condition.is_some()) {
            None => self.stripes.lock_blind(commit.writes()),
            Some(terms) => Some(self.stripes.lock_for(commit.writes(), terms.mode, terms.reads)),
        };
        if let Some(condition) = condition
            && let Verdict::Stop = condition()?
        {
            // It may have read what is not visible yet, and nothing behind this.
            let seen = self.queue.last();
            return Ok(Tried::Stopped { seen });
        }
        let count = u64::from(commit.count);
        let place = self.queue.assign(count, room, || self.note_sealed());
        if let Some(turn) = turn
            && room > self.plan.scale.memtable
        {
            turn.takes(&place.slot.memtable);
        }
        let committing = Committing::new(self);
        let written = self.write_down(commit, &place, room);
        committing.end();
        written.map(|last| Tried::Applied { last })
    }

    /// Puts a commit into the log and its memtable, and has it seen. Returns its last number.
    fn write_down(&self, commit: &Commit, place: &Place, bytes: u64) -> Result<Sequence> {
        let last = place.first + u64::from(commit.count) - 1;
        if let Err(error) = self.log(commit, place) {
            self.visible.complete(place.first, last);
            return Err(error.into());
        }
        if apply_all(&place.slot.memtable, commit.writes(), place.first).is_err() {
            // It is in the log and cannot be shown: the next opening of the store finds it.
            self.visible.stop();
            let cause = format!("a memtable has no room for {bytes} bytes that were reserved");
            return Ok(self
                .store
                .judge(Err(alluvium_storage::Error::Poisoned { cause }))?);
        }
        // Readers that see the commit find no range empty that it writes to (N1).
        self.queue.empty_ranges().written(given(commit.writes()));
        self.visible.complete(place.first, last);
        self.tallies.committed(commit);
        self.watches
            .committed(commit.count, || commit.writes(), || self.time.peek());
        Ok(last)
    }

    /// Puts the record into the log, or gives its numbers up.
    fn log(&self, commit: &Commit, place: &Place) -> alluvium_storage::Result<()> {
        let importance = if commit.grows {
            Importance::Normal
        } else {
            Importance::Essential
        };
        let log = self.store.log();
        let kept = self.dictionaries.kept(commit);
        let parts = match &kept {
            Kept::All => [&commit.record[..], commit.tail],
            Kept::Part(record) => [record, &[][..]],
            Kept::Nothing => return self.give_up(place.first, commit.count),
        };
        let appended = log.append_parts(
            place.first,
            commit.count,
            parts,
            log::Durability::Process,
            importance,
        );
        match appended {
            Err(error) if error.is_full() => {
                self.give_up(place.first, commit.count)?;
                Err(error)
            }
            other => self.store.judge(other),
        }
    }

    /// Gives these numbers up: the log is told, or will be once the disk has space for the note.
    pub(super) fn give_up(&self, first: Sequence, count: u32) -> alluvium_storage::Result<()> {
        match self.store.judge(self.store.log().void(first, count)) {
            Err(error) if error.is_full() => {
                self.gaps.note(first, count);
                Ok(())
            }
            other => other,
        }
    }

    /// Tells the log of numbers that it could not be told of before. Until then nothing above them
    /// can be synced.
    pub(crate) fn fill_gaps(&self) -> Result<()> {
        self.gaps
            .fill(|first, count| Ok(self.store.judge(self.store.log().void(first, count))?))
    }

    /// Waits until everything up to `at` survives the loss of power.
    pub(crate) fn sync_through(&self, at: Sequence) -> Result<()> {
        self.fill_gaps()?;
        Ok(self.store.judge(self.store.log().sync_through(at))?)
    }
}

/// Returns the bytes of a memtable that a commit needs, at most.
fn room_for(commit: &Commit) -> u64 {
    let records = commit.kinds.iter().map(|&count| u64::from(count)).sum();
    let ranges = u64::from(commit.count).saturating_sub(records);
    room(commit.len(), records, ranges)
}

/// Returns how many bytes of a memtable a record of the log needs, at most, that is `bytes` long
/// and has this many writes to single keys and to ranges.
pub(super) fn room(bytes: u64, records: u64, ranges: u64) -> u64 {
    bytes + records * RECORD_OVERHEAD + ranges * RANGE_OVERHEAD as u64
}

/// Applies the writes of a record to a memtable, from sequence number `first` on.
pub(crate) fn apply(memtable: &Memtable, record: &[u8], first: Sequence) -> std::result::Result<(), Unfit> {
    apply_all(memtable, Writes::new(record), first)
}

/// Applies writes to a memtable, from sequence number `first` on.
fn apply_all(memtable: &Memtable, writes: Writes<'_>, first: Sequence) -> std::result::Result<(), Unfit> {
    for (write, sequence) in writes.zip(first..) {
        match write.map_err(Unfit::Damaged)? {
            Write::One {
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
            Write::Range { start, end } => memtable.delete_range(start, end, sequence)?,
            // The tree has it, or it was never acknowledged.
            Write::Ingest { .. } => {}
            // What it said is gone with the process that wrote it.
            Write::Volatile => {}
        }
    }
    Ok(())
}

/// Returns the keys that writes give values or operands to.
fn given(writes: Writes<'_>) -> impl Iterator<Item = &[u8]> {
    writes.filter_map(|write| match write {
        Ok(Write::One { key, kind, .. }) if kind != Kind::Delete => Some(key),
        _ => None,
    })
}

/// Why a record cannot be applied.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// The memtable is full.
    Full,
    /// It is no record.
    Damaged(String),
}

impl From<Full> for Unfit {
    fn from(_: Full) -> Unfit {
        Unfit::Full
    }
}
