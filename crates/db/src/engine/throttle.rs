//! Write throttling. Writers are delayed when background work falls behind, and have to wait when
//! the disk has no space for their commits.

use super::Engine;
use super::commit_record::CommitRecord;
use super::policy::{self, PARTS, WorkBacklog};
use super::steps::{SLICE, SliceOutcome};
use crate::error::{Error, Result};
use alluvium_base::Purpose;
use alluvium_storage::extents::{AllocationClass, MAX_EXTENT_UNITS, UNIT};
use alluvium_storage::log;
use alluvium_storage::tiers::FailedAccess;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time after which a blocked writer checks again whether it can continue. Flushing a memtable also
/// wakes it.
/// Tuning: `Duration::from_millis(2)` since 2026-11-22.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Maximum number of poll intervals that a write waits for space on a full disk before it fails,
/// five seconds in total. Deletes always wait. Other writes wait only if compactions are expected
/// to free space because another tier has space.
/// Tuning: `2500` since 2026-11-22.
pub(super) const FULL_TURNS: u32 = 2500;

/// While a writer waits for space, it checks the free disk space itself, once in this many poll
/// intervals.
/// Tuning: `16` since 2026-11-27.
const LOOK_TURNS: u32 = 16;

/// State of write throttling: whether the disk is full, how long writers are delayed, and which
/// threads are waiting.
#[derive(Debug, Default)]
pub(crate) struct WriteThrottle {
    /// Whether the disk is full, which means that it had no space for a write that may not use the
    /// reserve.
    full: AtomicBool,
    /// Whether the disk had no space for a due compaction.
    blocked: AtomicBool,
    /// Whether the disk is full and no work in the dictionaries would free space, because the
    /// deletes that would free it are still in memtables, for example.
    stuck: AtomicBool,
    /// Whether the newest memtable may contain deletes.
    deletes: AtomicBool,
    /// Number of consecutive steps of background work that found their tier full and were
    /// rescheduled to another tier.
    moved: AtomicU64,
    /// Number of background work steps completed since the store was opened.
    steps: AtomicU64,
    /// Number of bytes written since a writer last computed the backlog.
    since: SharedAccumulator,
    /// Sum of delays, in microseconds, that are still too short for a system call.
    owed_us: SharedAccumulator,
    /// When a full disk was last logged, and whether that message still holds.
    told: Mutex<FullDiskWarning>,
    lock: Mutex<()>,
    relieved: Condvar,
    /// Worker threads wait for work on this condition variable.
    wanted: Condvar,
    /// Number of times that the worker threads have been woken.
    calls: AtomicU64,
}

/// Tracks when a full disk was logged, so that the message is not repeated.
#[derive(Debug, Default)]
struct FullDiskWarning {
    at: Option<Instant>,
    stands: bool,
}

/// Minimum time between two log messages about a full disk. While background work frees space, the
/// disk may repeatedly become full and have space again.
/// Tuning: `Duration::from_secs(30)` since 2026-11-27.
const TOLD_AGAIN: Duration = Duration::from_secs(30);

/// A sum that many threads add to, until one of them finds it large enough, takes it and resets it
/// to zero. Each added amount is taken exactly once.
#[derive(Debug, Default)]
struct SharedAccumulator(AtomicU64);

impl SharedAccumulator {
    /// Adds `more` to the sum. If the sum reaches `enough`, resets it to zero and returns its
    /// value. Otherwise returns zero. If several threads find the sum large enough at the same
    /// time, only the first gets all of it. The others get what was added since, which may be less
    /// than `enough`.
    fn add(&self, more: u64, enough: u64) -> u64 {
        if self.0.fetch_add(more, Ordering::Relaxed) + more < enough {
            return 0;
        }
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl WriteThrottle {
    /// Returns the space class that essential writes allocate from. On a full disk, they may use
    /// the reserve. They may use more of it if compactions cannot free any space before these
    /// writes complete.
    pub(crate) fn class(&self) -> AllocationClass {
        if !self.is_full() {
            AllocationClass::Normal
        } else if !self.stuck.load(Ordering::Relaxed) {
            AllocationClass::Essential
        } else {
            AllocationClass::Unblocking
        }
    }

    /// Returns whether the disk was found to be full.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Handles an error. If it reports a full disk, records and logs that.
    pub(crate) fn note(&self, error: &alluvium_storage::Error) {
        if error.is_full() && !self.full.swap(true, Ordering::AcqRel) {
            let mut told = self.told.lock();
            if told.at.is_none_or(|at| at.elapsed() >= TOLD_AGAIN) {
                (told.at, told.stands) = (Some(Instant::now()), true);
                tracing::warn!(%error, "the disk is full: writes wait for space or fail; delete data or free disk space");
            }
        }
    }

    /// Like [`WriteThrottle::note`], but for the error of a compaction.
    pub(crate) fn note_compaction(&self, error: &alluvium_storage::Error) {
        self.note(error);
        self.blocked.fetch_or(error.is_full(), Ordering::Relaxed);
    }

    /// Records that the disk has space again.
    pub(crate) fn mark_space_available(&self) {
        if self.full.swap(false, Ordering::AcqRel) && std::mem::take(&mut self.told.lock().stands) {
            tracing::info!("there is space on the disk again: writes resume");
        }
    }

    /// Records that a step of background work was completed. The next step that finds its tier full
    /// may then try all other tiers.
    pub(super) fn stepped(&self) {
        self.moved.store(0, Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of completed background work steps.
    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Wakes all blocked writers to check again whether they can continue.
    pub(crate) fn wake_writers(&self) {
        drop(self.lock.lock());
        self.relieved.notify_all();
    }

    /// Sleeps for one poll interval, or until another thread has made progress.
    pub(crate) fn wait_for_progress(&self) {
        let mut guard = self.lock.lock();
        self.relieved.wait_for(&mut guard, POLL_INTERVAL);
    }

    /// Delays the calling thread by `us` microseconds. Short delays are added up, and one of the
    /// callers later sleeps for their entire sum.
    fn delay(&self, us: u64) {
        let owed = self.owed_us.add(us, policy::LEAST_DELAY_US);
        if owed > 0 {
            std::thread::sleep(Duration::from_micros(owed));
        }
    }

    /// Wakes all worker threads, because there is work or because the store is being closed.
    pub(crate) fn call_all(&self) {
        self.calls.fetch_add(1, Ordering::Release);
        drop(self.lock.lock());
        self.wanted.notify_all();
    }

    /// Returns how often the worker threads have been woken. A worker reads this number before it
    /// looks for work, and passes it to [`WriteThrottle::wait_for_call`], so that it misses no
    /// wake-up.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Acquire)
    }

    /// Sleeps until the worker threads have been woken more than `calls` times, but for at most
    /// `most`.
    pub(crate) fn wait_for_call(&self, calls: u64, most: Duration) {
        let mut guard = self.lock.lock();
        if self.calls() == calls {
            self.wanted.wait_for(&mut guard, most);
        }
    }
}

impl Engine {
    /// Admits a commit that needs `room` bytes in a memtable. Depending on the backlog, the writer
    /// is first delayed or does some background work, and then waits until a memtable has space.
    pub(crate) fn admit(&self, commit: &CommitRecord, room: u64) -> Result<()> {
        self.health()?;
        if commit.grows && self.throttle.is_full() {
            if self.plan.workers == 0 {
                self.probe_free_space();
            }
            self.wait_for_space()?;
        }
        if !commit.grows && !self.throttle.deletes.load(Ordering::Relaxed) {
            self.throttle.deletes.store(true, Ordering::Relaxed);
        }
        let part = self.plan.scale.memtable / PARTS;
        let since = self.throttle.since.add(room, part);
        if since >= part {
            let debt = self.debt();
            let parts = since / part;
            if self.plan.workers == 0 {
                self.help(policy::share(&debt) * parts / 100)?;
            } else {
                let (us, cause) = policy::delay(&debt);
                self.counters.delayed_us[cause as usize].fetch_add(us * parts, Ordering::Relaxed);
                self.throttle.delay(us * parts);
            }
        }
        let mut turns = 0;
        while self.queue.is_full(room) {
            self.health()?;
            self.counters.waits.fetch_add(1, Ordering::Relaxed);
            match self.make_memtable_room() {
                Ok(()) => {}
                // A delete waits until background work has freed the space of deleted data. Any
                // other write waits only while moving data to another tier can free space.
                Err(error)
                    if error.is_full()
                        && (!commit.grows || self.is_space_expected())
                        && self.plan.workers > 0
                        && turns < FULL_TURNS =>
                {
                    turns += 1;
                    self.note_full(&error);
                    self.throttle.wait_for_progress();
                }
                Err(error) => return Err(error),
            }
            if commit.grows {
                self.wait_for_space()?;
            }
        }
        Ok(())
    }

    /// Returns whether compactions can be expected to free space on a full tier. They can if
    /// another tier has space, because they write their output there and free the space of their
    /// inputs on the full tier.
    pub(super) fn is_space_expected(&self) -> bool {
        self.store.tiers().count() > 1 && self.store.has_space_for(4 * self.plan.scale.memtable)
    }

    /// Waits while the disk is full. Returns an error if compactions are not expected to free
    /// space, or if the wait times out.
    fn wait_for_space(&self) -> Result<()> {
        let mut turns = 0;
        while self.throttle.is_full() {
            if self.plan.workers == 0 || turns >= FULL_TURNS || !self.is_space_expected() {
                return Err(self.full());
            }
            self.health()?;
            turns += 1;
            self.counters.waits.fetch_add(1, Ordering::Relaxed);
            self.throttle.wait_for_progress();
            if turns.is_multiple_of(LOOK_TURNS) {
                self.probe_free_space();
            }
        }
        Ok(())
    }

    /// Frees space on a full tier for an operation that has failed `turn` times before. The first
    /// time, frees dead space. After that, waits until data is moved to another tier. Returns
    /// whether to retry the operation.
    pub(super) fn frees_space(&self, turn: u32) -> Result<bool> {
        if turn == 0 {
            self.store.give_up_copies();
            self.free_replaced()?;
            return Ok(true);
        }
        if !self.is_space_expected() || turn > FULL_TURNS {
            return Ok(false);
        }
        self.health()?;
        self.throttle.note(&self.full_error());
        if self.plan.workers == 0 {
            self.free_space()?;
            return Ok(self.work()? == SliceOutcome::Something);
        }
        self.counters.waits.fetch_add(1, Ordering::Relaxed);
        self.throttle.call_all();
        self.throttle.wait_for_progress();
        Ok(true)
    }

    /// Helps flush a memtable, or waits for the thread that is flushing one.
    fn make_memtable_room(&self) -> Result<()> {
        if self.plan.workers == 0 {
            self.help(1)?;
        } else if self.is_incorporating() || self.incorporate_slice(SLICE)? == SliceOutcome::Nothing {
            self.throttle.wait_for_progress();
        }
        Ok(())
    }

    /// Frees log space on a full disk, either from the data files' free space or by a checkpoint.
    /// If a checkpoint finds no space either, compacts deleted data first. Background threads do
    /// this if there are any.
    pub(super) fn make_log_room_on_a_full_disk(&self) -> Result<()> {
        if self.store.make_log_space(self.throttle.class())? {
            return Ok(());
        }
        match self.make_log_room() {
            Err(error) if error.is_full() => {
                self.note_full(&error);
                if self.plan.workers == 0 {
                    self.free_space()?;
                    self.help(1)
                } else {
                    self.throttle.call_all();
                    self.throttle.wait_for_progress();
                    Ok(())
                }
            }
            other => other,
        }
    }

    /// Runs up to `slices` slices of background work on the calling writer's thread, for stores
    /// without worker threads.
    fn help(&self, slices: u64) -> Result<()> {
        for _ in 0..slices {
            if self.work()? == SliceOutcome::Nothing && self.queue.sealed() > 0 {
                self.throttle.wait_for_progress();
            }
        }
        Ok(())
    }

    /// Returns whether the backlog is so large that writers are throttled, or soon will be.
    pub(crate) fn must_lift_limits(&self) -> bool {
        policy::must_lift_limits(&self.debt())
    }

    /// Returns whether compactions are so far behind that they must run concurrently with a flush.
    pub(crate) fn is_compaction_urgent(&self) -> bool {
        policy::is_compaction_urgent(&self.debt())
    }

    fn debt(&self) -> WorkBacklog {
        WorkBacklog {
            sealed: self.queue.sealed(),
            parts: self.queue.filled(),
            compactions: self.dictionaries.overdue_steps(),
            crowding: self.dictionaries.read_amplification_percent(),
        }
    }

    /// Returns the number of bytes that compactions and flushes have read from and written to
    /// devices.
    pub(crate) fn moved_bytes(&self) -> u64 {
        let counts = self.device_stats();
        let of = |purpose| counts.of(purpose).read_bytes + counts.of(purpose).written_bytes;
        of(Purpose::Compact) + of(Purpose::Incorporate)
    }

    /// Returns whether the newest memtable may contain deletes. Deletes free no space until the
    /// memtable is flushed.
    pub(crate) fn holds_deletes(&self) -> bool {
        self.throttle.deletes.load(Ordering::Relaxed)
    }

    /// Seals the newest memtable so that its deletes are flushed. Does nothing if another memtable
    /// is already waiting to be flushed.
    pub(crate) fn seal_deletes(&self) {
        if self.queue.sealed() == 0 {
            self.throttle.deletes.store(false, Ordering::Relaxed);
            self.queue.seal();
            self.throttle.call_all();
        }
    }

    /// Wakes the worker threads to flush a newly sealed memtable.
    pub(crate) fn note_sealed(&self) {
        self.throttle.call_all();
    }

    /// Records that a commit failed because of a full disk. Ignores other errors.
    pub(crate) fn note_full(&self, error: &Error) {
        if let Some(error) = error.storage() {
            self.throttle.note(error);
        }
    }

    /// Wakes all background threads to look for work.
    pub(crate) fn call_all(&self) {
        self.throttle.call_all();
    }

    /// Returns how often the background threads have been woken.
    pub(crate) fn calls(&self) -> u64 {
        self.throttle.calls()
    }

    /// Sleeps until the background threads have been woken more than `calls` times, but for at most
    /// `most`.
    pub(crate) fn wait_for_call(&self, calls: u64, most: Duration) {
        self.throttle.wait_for_call(calls, most);
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

    /// If the disk is full, requests the compactions that remove the most deleted data, and
    /// reclaims dead space.
    pub(crate) fn free_space(&self) -> Result<()> {
        if !self.throttle.is_full() {
            return Ok(());
        }
        self.store.give_up_copies();
        let mut is_stuck = !self.dictionaries.has_pending_work();
        if is_stuck || self.throttle.blocked.swap(false, Ordering::Relaxed) {
            let in_tree = self.maintain(u64::MAX)?;
            if self.dictionaries.want_deletes_merged() || in_tree {
                is_stuck = false;
                self.throttle.call_all();
            }
        }
        if self.dictionaries.want_page_deletes_applied() {
            is_stuck = false;
            self.throttle.call_all();
        }
        if self.store.usage().0.total().dying_bytes > 0 || self.dictionaries.returnable_page_bytes() > 0 {
            is_stuck = false;
            self.checkpoint_now()?;
        }
        self.throttle.stuck.store(is_stuck, Ordering::Relaxed);
        self.reclaim()
    }

    /// Sets the reserve to the space that a compaction needs in order to free space. With several
    /// tiers there is no reserve, because compactions may use the space of all tiers.
    pub(crate) fn fit_reserve(&self) {
        let bytes = match self.store.tiers().count() {
            1 => self.dictionaries.freeing_bytes(),
            _ => 0,
        };
        self.store.extents().set_freeing_reserve(0, bytes);
    }

    /// Returns whether ordinary writes can allocate `units` units of space on a tier.
    fn has_units(&self, tier: u8, units: u32) -> bool {
        let extents = self.store.extents();
        let (mut left, mut found) = (units, Vec::new());
        while left > 0 {
            match extents.allocate_between(
                tier,
                1..=left.min(MAX_EXTENT_UNITS),
                AllocationClass::Normal,
                None,
            ) {
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

    /// Returns whether a failed step of background work can be retried on another tier. The step
    /// must have found its tier full, or must have failed to write to it, because a failing tier
    /// accepts no new data.
    ///
    /// The free space that a file system reports may not be usable, so the number of consecutive
    /// retries on other tiers is limited to the number of tiers. After that, the disk is considered
    /// full until a step completes.
    pub(super) fn can_retry_on_other_tier(&self, error: &alluvium_storage::Error) -> bool {
        let tiers = self.store.tiers().count() as u64;
        let has_failed = matches!(error.failing_tier(), Some((_, FailedAccess::Writing)));
        (error.is_full() || has_failed)
            && tiers > 1
            && self.throttle.moved.fetch_add(1, Ordering::Relaxed) < tiers
            && (has_failed || self.is_space_expected())
    }

    /// Checks whether a full disk has space again, by trying to allocate the space that a flush
    /// needs.
    pub(crate) fn probe_free_space(&self) {
        if !self.throttle.is_full() {
            return;
        }
        self.store.give_up_copies();
        let tiers = self.store.tiers().count() as u8;
        let units = (self.plan.scale.memtable * 2).div_ceil(UNIT) as u32;
        let has_room = |tier| self.store.takes_extents(tier) && self.has_units(tier, units);
        if !(0..tiers).any(has_room) {
            return;
        }
        // There is space for data, but every write first needs space in the log.
        let log = self.store.log();
        while let Ok(log::PrepareProgress::Worked) = log.prepare() {}
        if !log.has_space()
            && !self
                .store
                .make_log_space(AllocationClass::Normal)
                .unwrap_or(false)
        {
            return;
        }
        self.throttle.mark_space_available();
        self.throttle.wake_writers();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_threads_add_is_taken_once() {
        const EACH: u64 = 200_000;
        let sum = SharedAccumulator::default();
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
        let sum = SharedAccumulator::default();
        assert_eq!((sum.add(4, 10), sum.add(5, 10), sum.add(1, 10)), (0, 0, 10));
        assert_eq!(sum.add(25, 10), 25);
    }
}
