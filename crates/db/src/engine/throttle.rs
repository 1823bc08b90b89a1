//! Who must wait: writers, as far as the background is behind, and commits for which the disk has
//! no space.

use super::Engine;
use super::policy::{self, Debt, PARTS};
use super::record::Commit;
use super::work::{SLICE, Worked};
use crate::{Error, Result};
use alluvium_base::Purpose;
use alluvium_storage::extents::{Class, MAX_EXTENT_UNITS, UNIT};
use alluvium_storage::log;
use alluvium_storage::tiers::Access;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Poll interval of a blocked writer; it is also woken when a memtable has gone.
const NAP: Duration = Duration::from_millis(2);

/// How many naps a delete waits on a full disk for space, before it is refused, and any write while
/// another tier has some: five seconds.
pub(super) const FULL_TURNS: u32 = 2500;

/// After how many naps a writer that waits for space looks for some itself.
const LOOK_TURNS: u32 = 16;

/// What is in the way.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// The disk had no space for something that may not use the reserve.
    full: AtomicBool,
    /// It had none for a compaction that was due.
    blocked: AtomicBool,
    /// It has none, and nothing in the tree would free any: what would is in memtables.
    stuck: AtomicBool,
    /// The newest memtable may hold deletes.
    deletes: AtomicBool,
    /// Steps in a row that found their tier full and were due again on another.
    moved: AtomicU64,
    /// Steps that were done.
    steps: AtomicU64,
    /// Bytes that writers have written since they last looked at the debt.
    since: Sum,
    /// Microseconds of delay that were too few to be taken.
    owed_us: Sum,
    /// When it was last said that the disk is full, and whether that still stands.
    told: Mutex<Told>,
    lock: Mutex<()>,
    relieved: Condvar,
    /// The workers sleep on it.
    wanted: Condvar,
    /// How often they were called.
    calls: AtomicU64,
}

/// What was said of a full disk.
#[derive(Debug, Default)]
struct Told {
    at: Option<Instant>,
    stands: bool,
}

/// For how long a full disk is not told of again: space comes and goes while the background makes
/// some.
const TOLD_AGAIN: Duration = Duration::from_secs(30);

/// A sum of many threads, until one of them finds that it is enough and takes it: whatever was
/// added is taken once.
#[derive(Debug, Default)]
struct Sum(AtomicU64);

impl Sum {
    /// Adds, and takes what has come together if that is `enough`; zero if it is not. Of several
    /// who find so at once, the later ones get what the first has left, which may be too little.
    fn add(&self, more: u64, enough: u64) -> u64 {
        if self.0.fetch_add(more, Ordering::Relaxed) + more < enough {
            return 0;
        }
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Pressure {
    /// The class of what must be written whatever happens: from the reserve when there is nothing
    /// else, and from more of it when compactions have nothing to free until it is written.
    pub(crate) fn class(&self) -> Class {
        if !self.is_full() {
            Class::Normal
        } else if !self.stuck.load(Ordering::Relaxed) {
            Class::Essential
        } else {
            Class::Unblocking
        }
    }

    /// Returns whether the disk was full.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// An error may say that the disk is full.
    pub(crate) fn note(&self, error: &alluvium_storage::Error) {
        if error.is_full() && !self.full.swap(true, Ordering::AcqRel) {
            let mut told = self.told.lock();
            if told.at.is_none_or(|at| at.elapsed() >= TOLD_AGAIN) {
                (told.at, told.stands) = (Some(Instant::now()), true);
                tracing::warn!(%error, "the disk is full: writes wait for space, or are refused");
            }
        }
    }

    /// As [`Pressure::note`], of a compaction.
    pub(crate) fn note_compaction(&self, error: &alluvium_storage::Error) {
        self.note(error);
        self.blocked.fetch_or(error.is_full(), Ordering::Relaxed);
    }

    /// Notes that the disk has space again.
    pub(crate) fn has_room(&self) {
        if self.full.swap(false, Ordering::AcqRel) && std::mem::take(&mut self.told.lock().stands) {
            tracing::info!("there is space on the disk again: writes resume");
        }
    }

    /// Notes that a step was done: the next one that finds its tier full may try the others.
    pub(super) fn stepped(&self) {
        self.moved.store(0, Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many steps were done.
    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Wakes blocked writers, so that they look again.
    pub(crate) fn relieved(&self) {
        drop(self.lock.lock());
        self.relieved.notify_all();
    }

    /// Sleeps a little, until another thread has done something.
    pub(crate) fn nap(&self) {
        let mut guard = self.lock.lock();
        self.relieved.wait_for(&mut guard, NAP);
    }

    /// Rests for so long, or a little longer if others come too.
    fn delay(&self, us: u64) {
        let owed = self.owed_us.add(us, policy::LEAST_DELAY_US);
        if owed > 0 {
            std::thread::sleep(Duration::from_micros(owed));
        }
    }

    /// There is work, or an end to it.
    pub(crate) fn call_all(&self) {
        self.calls.fetch_add(1, Ordering::Release);
        drop(self.lock.lock());
        self.wanted.notify_all();
    }

    /// Returns how often the workers were called. A worker that is about to look for work remembers
    /// the number, so that it misses no call.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Acquire)
    }

    /// Sleeps until there was a call after the first `calls`, or for at most `most`.
    pub(crate) fn rest(&self, calls: u64, most: Duration) {
        let mut guard = self.lock.lock();
        if self.calls() == calls {
            self.wanted.wait_for(&mut guard, most);
        }
    }
}

impl Engine {
    /// Lets a commit in when a memtable has `room` bytes for it, after it has done its share of the
    /// work.
    pub(crate) fn admit(&self, commit: &Commit, room: u64) -> Result<()> {
        self.health()?;
        if commit.grows && self.pressure.is_full() {
            if self.plan.workers == 0 {
                self.look_for_room();
            }
            self.wait_for_space()?;
        }
        if !commit.grows && !self.pressure.deletes.load(Ordering::Relaxed) {
            self.pressure.deletes.store(true, Ordering::Relaxed);
        }
        let part = self.plan.scale.memtable / PARTS;
        let since = self.pressure.since.add(room, part);
        if since >= part {
            let debt = self.debt();
            let parts = since / part;
            if self.plan.workers == 0 {
                self.help(policy::share(&debt) * parts / 100)?;
            } else {
                let (us, cause) = policy::delay(&debt);
                self.tallies.delayed_us[cause as usize].fetch_add(us * parts, Ordering::Relaxed);
                self.pressure.delay(us * parts);
            }
        }
        let mut turns = 0;
        while self.queue.is_full(room) {
            self.health()?;
            self.tallies.waits.fetch_add(1, Ordering::Relaxed);
            match self.make_memtable_room() {
                Ok(()) => {}
                // A delete waits until the background has freed what its deletes are to free, and
                // any write for what goes to another tier.
                Err(error)
                    if error.is_full()
                        && (!commit.grows || self.space_is_coming())
                        && self.plan.workers > 0
                        && turns < FULL_TURNS =>
                {
                    turns += 1;
                    self.note_full(&error);
                    self.pressure.nap();
                }
                Err(error) => return Err(error),
            }
            if commit.grows {
                self.wait_for_space()?;
            }
        }
        Ok(())
    }

    /// Returns whether a disk that is full is one of several, of which another has space: what
    /// compactions write goes there, and what it is made of comes free.
    pub(super) fn space_is_coming(&self) -> bool {
        self.store.tiers().count() > 1 && self.store.has_space_for(4 * self.plan.scale.memtable)
    }

    /// Holds a write back while the disk is full and space is coming. Fails where none is.
    fn wait_for_space(&self) -> Result<()> {
        let mut turns = 0;
        while self.pressure.is_full() {
            if self.plan.workers == 0 || turns >= FULL_TURNS || !self.space_is_coming() {
                return Err(self.full());
            }
            self.health()?;
            turns += 1;
            self.tallies.waits.fetch_add(1, Ordering::Relaxed);
            self.pressure.nap();
            if turns.is_multiple_of(LOOK_TURNS) {
                self.look_for_room();
            }
        }
        Ok(())
    }

    /// Has space freed on a tier that is full, at the first turn what has died; then what goes to
    /// another tier, which it waits for. Returns whether there may be some now.
    pub(super) fn frees_space(&self, turn: u32) -> Result<bool> {
        if turn == 0 {
            self.store.give_up_copies();
            self.free_replaced()?;
            return Ok(true);
        }
        if !self.space_is_coming() || turn > FULL_TURNS {
            return Ok(false);
        }
        self.health()?;
        self.pressure.note(&self.full_error());
        if self.plan.workers == 0 {
            self.make_room()?;
            return Ok(self.work()? == Worked::Something);
        }
        self.tallies.waits.fetch_add(1, Ordering::Relaxed);
        self.pressure.call_all();
        self.pressure.nap();
        Ok(true)
    }

    /// Helps to write a memtable out, or waits for the thread that does.
    fn make_memtable_room(&self) -> Result<()> {
        if self.plan.workers == 0 {
            self.help(1)?;
        } else if self.is_incorporating() || self.incorporate_slice(SLICE)? == Worked::Nothing {
            self.pressure.nap();
        }
        Ok(())
    }

    /// Has the log get space on a full disk: of what is free in the data files, or by a checkpoint.
    /// Where there is no space for that, what was deleted before is compacted first: by the
    /// background, if there is one.
    pub(super) fn make_log_room_on_a_full_disk(&self) -> Result<()> {
        if self.store.make_log_space(self.pressure.class())? {
            return Ok(());
        }
        match self.make_log_room() {
            Err(error) if error.is_full() => {
                self.note_full(&error);
                if self.plan.workers == 0 {
                    self.make_room()?;
                    self.help(1)
                } else {
                    self.pressure.call_all();
                    self.pressure.nap();
                    Ok(())
                }
            }
            other => other,
        }
    }

    /// Has a writer do slices of work, where there are no workers.
    fn help(&self, slices: u64) -> Result<()> {
        for _ in 0..slices {
            if self.work()? == Worked::Nothing && self.queue.sealed() > 0 {
                self.pressure.nap();
            }
        }
        Ok(())
    }

    /// Whether so much is due that writers are held back, or soon will be.
    pub(crate) fn hurries(&self) -> bool {
        policy::hurries(&self.debt())
    }

    /// Whether compactions are so far behind that they go on beside a memtable that is written out.
    pub(crate) fn presses(&self) -> bool {
        policy::presses(&self.debt())
    }

    fn debt(&self) -> Debt {
        Debt {
            sealed: self.queue.sealed(),
            parts: self.queue.filled(),
            compactions: self.dictionaries.overdue_steps(),
            crowding: self.dictionaries.read_amplification_percent(),
        }
    }

    /// Bytes that the device was asked for by compactions and by memtables on their way out.
    pub(crate) fn moved_bytes(&self) -> u64 {
        let counts = self.device_stats();
        let of = |purpose| counts.of(purpose).read_bytes + counts.of(purpose).written_bytes;
        of(Purpose::Compact) + of(Purpose::Incorporate)
    }

    /// Whether deletes may wait in the newest memtable, where they free no space.
    pub(crate) fn holds_deletes(&self) -> bool {
        self.pressure.deletes.load(Ordering::Relaxed)
    }

    /// Has the newest memtable written out, with the deletes that it holds, if no other waits for
    /// that.
    pub(crate) fn seal_deletes(&self) {
        if self.queue.sealed() == 0 {
            self.pressure.deletes.store(false, Ordering::Relaxed);
            self.queue.seal();
            self.pressure.call_all();
        }
    }

    /// Notes that a memtable was sealed, and calls the workers to write it out.
    pub(crate) fn note_sealed(&self) {
        self.pressure.call_all();
    }

    /// Notes that a commit was refused because the disk was full.
    pub(crate) fn note_full(&self, error: &Error) {
        if let Some(error) = error.storage() {
            self.pressure.note(error);
        }
    }

    /// Wakes the whole background.
    pub(crate) fn call_all(&self) {
        self.pressure.call_all();
    }

    /// How often the background was called.
    pub(crate) fn calls(&self) -> u64 {
        self.pressure.calls()
    }

    /// Sleeps until the background is called again after `calls` calls, or for at most `most`.
    pub(crate) fn rest(&self, calls: u64, most: Duration) {
        self.pressure.rest(calls, most);
    }

    pub(super) fn full(&self) -> Error {
        self.full_error().into()
    }

    fn full_error(&self) -> alluvium_storage::Error {
        let total = self.store.usage().0.total();
        alluvium_storage::Error::Full {
            wanted: self.plan.scale.memtable,
            free: total.backed_bytes.saturating_sub(total.reserve_bytes),
            reserve: true,
        }
    }

    /// While the disk is full: what was deleted is compacted away wherever it is worth most, and
    /// what died is given back.
    pub(crate) fn make_room(&self) -> Result<()> {
        if !self.pressure.is_full() {
            return Ok(());
        }
        self.store.give_up_copies();
        let mut is_stuck = !self.dictionaries.has_pending_work();
        if is_stuck || self.pressure.blocked.swap(false, Ordering::Relaxed) {
            let in_tree = self.maintain(u64::MAX)?;
            if self.dictionaries.want_deletes_merged() || in_tree {
                is_stuck = false;
                self.pressure.call_all();
            }
        }
        if self.dictionaries.want_page_deletes_applied() {
            is_stuck = false;
            self.pressure.call_all();
        }
        if self.store.usage().0.total().dying_bytes > 0 || self.dictionaries.returnable_page_bytes() > 0 {
            is_stuck = false;
            self.checkpoint_now()?;
        }
        self.pressure.stuck.store(is_stuck, Ordering::Relaxed);
        self.reclaim()
    }

    /// Keeps as much space for compactions that free some as one of them takes. Where there are
    /// several tiers they have the space of all.
    pub(crate) fn fit_reserve(&self) {
        let bytes = match self.store.tiers().count() {
            1 => self.dictionaries.freeing_bytes(),
            _ => 0,
        };
        self.store.extents().keep_for_freeing(0, bytes);
    }

    /// Returns whether a tier has this number of units for ordinary writes.
    fn has_units(&self, tier: u8, units: u32) -> bool {
        let extents = self.store.extents();
        let (mut left, mut found) = (units, Vec::new());
        while left > 0 {
            match extents.allocate_between(tier, 1..=left.min(MAX_EXTENT_UNITS), Class::Normal, None) {
                Ok(extent) => {
                    left -= extent.units;
                    found.push(extent);
                }
                Err(_) => break,
            }
        }
        for extent in found {
            extents.abandon(extent);
        }
        left == 0
    }

    /// Returns whether a step that found its tier full, or failing, is due again on another, which
    /// has space. A tier that fails takes nothing new.
    ///
    /// What a file system says to have free may not be had. So after as many steps in a row as
    /// there are tiers the disk counts as full, until a step is done.
    pub(super) fn goes_elsewhere(&self, error: &alluvium_storage::Error) -> bool {
        let tiers = self.store.tiers().count() as u64;
        let has_failed = matches!(error.failing_tier(), Some((_, Access::Writing)));
        (error.is_full() || has_failed)
            && tiers > 1
            && self.pressure.moved.fetch_add(1, Ordering::Relaxed) < tiers
            && (has_failed || self.space_is_coming())
    }

    /// Looks whether a full disk has space again: it is asked for as much as writing a memtable out
    /// takes.
    pub(crate) fn look_for_room(&self) {
        if !self.pressure.is_full() {
            return;
        }
        self.store.give_up_copies();
        let tiers = self.store.tiers().count() as u8;
        let units = (self.plan.scale.memtable * 2).div_ceil(UNIT) as u32;
        let has_room = |tier| self.store.takes_extents(tier) && self.has_units(tier, units);
        if !(0..tiers).any(has_room) {
            return;
        }
        // There is room for data; what is written goes through the log first.
        let log = self.store.log();
        while let Ok(log::Progress::Worked) = log.prepare() {}
        if !log.has_space() && !self.store.make_log_space(Class::Normal).unwrap_or(false) {
            return;
        }
        self.pressure.has_room();
        self.pressure.relieved();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_threads_add_is_taken_once() {
        const EACH: u64 = 200_000;
        let sum = Sum::default();
        let taken: u64 = std::thread::scope(|scope| {
            let add = || (0..EACH).map(|step| sum.add(step % 7, 5)).sum::<u64>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(add)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no thread panics"))
                .sum()
        });
        let added = 4 * (0..EACH).map(|step| step % 7).sum::<u64>();
        assert_eq!(taken + sum.0.load(Ordering::Relaxed), added);
    }

    #[test]
    fn what_is_too_little_stays() {
        let sum = Sum::default();
        assert_eq!((sum.add(4, 10), sum.add(5, 10), sum.add(1, 10)), (0, 0, 10));
        assert_eq!(sum.add(25, 10), 25);
    }
}
