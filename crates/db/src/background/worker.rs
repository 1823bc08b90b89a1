//! The background threads of a store. One thread flushes memtables, one makes checkpoints, and some
//! run compactions. Another prepares log space and memory for writers. The last one, the keeper,
//! syncs the log and manages space.
//!
//! At most `workers` threads are CPU-bound, so one of the compaction threads pauses while a
//! memtable is being flushed, unless compactions are so far behind that writers would be throttled.
//! The other threads mostly wait for the device, and no thread waits for them. All background
//! threads run at a lower priority than the application's threads, which could otherwise wait for
//! an entire scheduler time slice. If the background threads fall behind because of their lower
//! priority, writers are throttled (`engine/throttle.rs`).

use crate::engine::{Engine, SliceOutcome, WorkerDuty};
use crate::error::Error;
use crate::options::BackgroundLimits;
use crate::options::limits::{self, SliceDecision, TokenBucket};
use crate::options::machine;
use alluvium_base::{MIB, SequenceNumber};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum time that an idle worker sleeps. A limit is needed because some work becomes due without
/// a notification.
const REST: Duration = Duration::from_millis(20);

/// Time that the preparing thread sleeps while writers are active. Writers produce a few hundred
/// KiB in this time.
const SOON: Duration = Duration::from_millis(4);

/// Time that a thread sleeps after an error before it retries.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Maximum time between two rounds of the keeper. A shorter sync interval shortens the rounds.
const ROUND: Duration = Duration::from_millis(100);

/// Time without writes after which maintenance brings scattered values together. While a program
/// writes files one after the other, nothing is written twice for that.
const IDLE: Duration = Duration::from_secs(2);

/// Maximum number of bytes that maintenance processes in one round of the keeper. Maintenance runs
/// only while there is no other work.
const MAINTENANCE_PER_ROUND: u64 = 8 * MIB;
/// Like `MAINTENANCE_PER_ROUND`, but for a store whose data fits entirely into the cache, which
/// needs little maintenance.
const CACHED_MAINTENANCE_PER_ROUND: u64 = 64 * MIB;

/// Maximum time that deletes stay in a memtable that is not full. Deletes free space only once they
/// are flushed.
const MOST_DELETES_WAIT: Duration = Duration::from_secs(5);

/// `MOST_LOG_WAITS` is the maximum time that log records already in the tree wait for a checkpoint.
/// `MOST_IDLE_ROUNDS` is the maximum number of keeper rounds for which a flushed memtable's memory
/// is kept for reuse. Both limits matter under a low write load, when the log and idle memtables
/// occupy memory that could cache pages and records.
const MOST_LOG_WAITS: Duration = Duration::from_secs(2);
const MOST_IDLE_ROUNDS: u64 = 20;

/// Time between two adjustments of the page cache and record cache sizes.
const BALANCE: Duration = Duration::from_secs(1);

/// Recent values of the visible sequence number, oldest first.
#[derive(Debug, Default)]
struct VisibilityHistory {
    moments: VecDeque<(Instant, SequenceNumber)>,
    /// Sequence number of the newest entry removed from `moments`.
    behind: SequenceNumber,
}

impl VisibilityHistory {
    fn note(&mut self, now: Instant, visible: SequenceNumber) {
        self.moments.push_back((now, visible));
    }

    /// Returns the newest sequence number that had been visible for at least `age` when the latest
    /// entry was added.
    fn until(&mut self, age: Duration) -> SequenceNumber {
        let now = self.moments.back().map(|&(moment, _)| moment);
        while let (Some(now), Some(&(moment, visible))) = (now, self.moments.front())
            && now.duration_since(moment) >= age
        {
            self.behind = visible;
            self.moments.pop_front();
        }
        self.behind
    }
}

/// State that the keeper thread carries from one round to the next.
struct HousekeepingState {
    seen: VisibilityHistory,
    /// Time of the last adjustment of the cache sizes.
    balanced: Instant,
    busy_until: Instant,
    /// The newest visible sequence number, and when the keeper first saw it.
    written: (SequenceNumber, Instant),
    deletes_since: Option<Instant>,
    /// Sequence number of the newest checkpoint, and when the keeper first saw it. The sequence
    /// number is `None` if the tree contains no later commits.
    outgrown: (Option<SequenceNumber>, Instant),
}

/// The background threads of one store.
#[derive(Debug)]
pub(crate) struct BackgroundWorkers {
    shared: Arc<WorkerShared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct WorkerShared {
    engine: Arc<Engine>,
    stop: AtomicBool,
    /// The first background error that has not been reported to a writer.
    failure: Mutex<Option<String>>,
    has_failed: AtomicBool,
    lock: Mutex<()>,
    stopping: Condvar,
    sync_interval: Duration,
    caps: BackgroundLimits,
    bucket: Mutex<TokenBucket>,
    started: Instant,
}

impl BackgroundWorkers {
    /// Starts `workers` worker threads and the service threads. Starts no thread if `workers` is
    /// zero.
    pub(crate) fn start(
        engine: &Arc<Engine>,
        workers: usize,
        sync_interval: Duration,
        caps: BackgroundLimits,
    ) -> BackgroundWorkers {
        let shared = Arc::new(WorkerShared {
            engine: Arc::clone(engine),
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
            has_failed: AtomicBool::new(false),
            lock: Mutex::new(()),
            stopping: Condvar::new(),
            sync_interval,
            caps,
            bucket: Mutex::default(),
            started: Instant::now(),
        });
        // Set the reserve before the log can use the free space.
        engine.fit_reserve();
        let mut threads = Vec::new();
        let mut spawn = |name: String, run: fn(&WorkerShared)| {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(name).spawn(move || {
                machine::lower_priority();
                run(&shared);
            });
            match thread {
                Ok(thread) => threads.push(thread),
                // Not fatal: writers take over the work of a thread that could not be started.
                Err(error) => tracing::warn!(%error, "a background thread could not be started"),
            }
        };
        for number in 1..workers {
            spawn(format!("alluvium-work-{number}"), |shared| {
                shared.work(WorkerDuty::Compact);
            });
        }
        if workers > 0 {
            spawn("alluvium-work-0".to_owned(), WorkerShared::compact_in_between);
            spawn("alluvium-prepare".to_owned(), WorkerShared::prepare);
            spawn("alluvium-write-out".to_owned(), |shared| {
                shared.work(WorkerDuty::Incorporate);
            });
            spawn("alluvium-checkpoint".to_owned(), |shared| {
                shared.work(WorkerDuty::Checkpoint);
            });
            spawn("alluvium-keep".to_owned(), WorkerShared::keep);
        }
        BackgroundWorkers {
            shared,
            threads: Mutex::new(threads),
        }
    }

    /// Returns the first background error since the previous call, if there was one.
    pub(crate) fn failure(&self) -> Result<(), Error> {
        if !self.shared.has_failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let cause = self.shared.failure.lock().take();
        self.shared.has_failed.store(false, Ordering::Relaxed);
        cause.map_or(Ok(()), |cause| Err(Error::Background { cause }))
    }

    /// Stops all background threads and waits until they have exited.
    pub(crate) fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.engine.call_all();
        drop(self.shared.lock.lock());
        self.shared.stopping.notify_all();
        for thread in self.threads.lock().drain(..) {
            // If the thread has panicked, the panic has already been reported.
            let _ = thread.join();
        }
    }
}

impl WorkerShared {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn work(&self, duty: WorkerDuty) {
        while !self.is_stopped() {
            self.slice(duty);
        }
    }

    /// Prepares log space and memory before writers need them. Checks for work more often while
    /// writers are active.
    fn prepare(&self) {
        let mut is_written = false;
        while !self.is_stopped() {
            match self.engine.work_at(WorkerDuty::Prepare) {
                Ok(SliceOutcome::Something) => is_written = true,
                Ok(SliceOutcome::Nothing) => {
                    self.pause(if is_written { SOON } else { REST });
                    is_written = false;
                }
                Err(error) => self.failed(&error),
            }
        }
    }

    /// Runs compactions on the thread that pauses during flushes. The thread works while no
    /// memtable is being flushed, or if compactions are urgent.
    fn compact_in_between(&self) {
        while !self.is_stopped() {
            let calls = self.engine.calls();
            if self.engine.is_incorporating() && !self.engine.is_compaction_urgent() {
                self.engine.wait_for_call(calls, REST);
            } else {
                self.slice(WorkerDuty::Compact);
            }
        }
    }

    fn slice(&self, duty: WorkerDuty) {
        if duty == WorkerDuty::Compact && self.is_capped() {
            return;
        }
        let calls = self.engine.calls();
        let began = Instant::now();
        match self.engine.work_at(duty) {
            Ok(SliceOutcome::Something) if duty == WorkerDuty::Compact => self.rest_after(began),
            Ok(SliceOutcome::Something) => {}
            Ok(SliceOutcome::Nothing) => self.engine.wait_for_call(calls, REST),
            Err(error) => self.failed(&error),
        }
    }

    /// Checks whether compactions have used up the bytes allowed by the configured limits. If so,
    /// it pauses and returns true.
    fn is_capped(&self) -> bool {
        let (engine, now) = (&self.engine, self.started.elapsed());
        let hurries = engine.must_lift_limits();
        let leave = self
            .bucket
            .lock()
            .ask(&self.caps, now, engine.moved_bytes(), hurries);
        match leave {
            SliceDecision::Go => false,
            SliceDecision::Yield => {
                engine.counters.cap_yields.fetch_add(1, Ordering::Relaxed);
                false
            }
            SliceDecision::Rest(rest) => {
                self.rest(rest);
                true
            }
        }
    }

    /// Pauses if the last slice exceeded the configured share of processor time.
    fn rest_after(&self, began: Instant) {
        if let Some(rest) = limits::rest_after(&self.caps, began.elapsed()) {
            if self.engine.must_lift_limits() {
                self.engine.counters.cap_yields.fetch_add(1, Ordering::Relaxed);
            } else {
                self.rest(rest);
            }
        }
    }

    fn rest(&self, rest: Duration) {
        let capped = &self.engine.counters.capped_us;
        capped.fetch_add(rest.as_micros() as u64, Ordering::Relaxed);
        self.pause(rest);
    }

    /// Pauses after a failed background task. The store survives a full disk and the failure of a
    /// tier other than the first, so these errors are not reported. Any other error is reported to
    /// the next writer.
    fn failed(&self, error: &Error) {
        if !error.is_full() && error.failing_tier().is_none() {
            tracing::error!(%error, "background work failed");
            self.failure.lock().get_or_insert_with(|| error.to_string());
            self.has_failed.store(true, Ordering::Relaxed);
        }
        self.pause(AFTER_ERROR);
    }

    fn pause(&self, time: Duration) {
        let mut guard = self.lock.lock();
        if !self.is_stopped() {
            self.stopping.wait_for(&mut guard, time);
        }
    }

    fn keep(&self) {
        let mut keeping = HousekeepingState {
            seen: VisibilityHistory::default(),
            balanced: Instant::now(),
            busy_until: Instant::now(),
            written: (self.engine.visible(), Instant::now()),
            deletes_since: None,
            outgrown: (None, Instant::now()),
        };
        let round = self.sync_interval.min(ROUND);
        while !self.is_stopped() {
            self.pause(round);
            let kept = self.engine.guarded("maintenance", || {
                self.keep_round(&mut keeping, round);
                Ok(())
            });
            if let Err(error) = kept {
                self.failed(&error);
            }
        }
    }

    fn keep_round(&self, keeping: &mut HousekeepingState, round: Duration) {
        self.engine.notice_removal();
        if let Err(error) = self.engine.mark_time() {
            self.failed(&error);
        }
        self.engine.fit_reserve();
        if let Err(error) = self.engine.free_space() {
            self.failed(&error);
        }
        self.engine.probe_free_space();
        if let Err(error) = self.engine.fit_memory() {
            self.failed(&error);
        }
        keeping.seen.note(Instant::now(), self.engine.visible());
        // Sync only commits that have reached a certain age. Under a high write load, a checkpoint
        // makes younger commits durable, so their log records never have to be written to the
        // device.
        let due = keeping.seen.until(self.sync_interval.saturating_sub(round));
        if due > self.engine.synced()
            && let Err(error) = self.engine.sync()
        {
            self.failed(&error);
        }
        let deletes_since = &mut keeping.deletes_since;
        if !self.engine.holds_deletes() {
            *deletes_since = None;
        } else if deletes_since.get_or_insert_with(Instant::now).elapsed() >= MOST_DELETES_WAIT {
            self.engine.seal_deletes();
        }
        self.engine.note_hour();
        if let Err(error) = self.engine.watch_trial() {
            self.failed(&error);
        }
        self.engine.end_old_transactions();
        self.engine.locks.disable_if_idle();
        self.engine.give_back_memtables(MOST_IDLE_ROUNDS);
        let (checkpoint, outgrown) = (self.engine.outgrown_checkpoint(), &mut keeping.outgrown);
        if checkpoint != outgrown.0 {
            *outgrown = (checkpoint, Instant::now());
        } else if checkpoint.is_some() && outgrown.1.elapsed() >= MOST_LOG_WAITS {
            self.engine.want_checkpoint();
        }
        if keeping.balanced.elapsed() >= BALANCE {
            keeping.balanced = Instant::now();
            if let Err(error) = self.engine.balance() {
                self.failed(&error);
            }
        }
        let per_round = match self.engine.note_fit() {
            true => CACHED_MAINTENANCE_PER_ROUND,
            false => MAINTENANCE_PER_ROUND,
        };
        let now = Instant::now();
        if keeping.written.0 != self.engine.visible() {
            keeping.written = (self.engine.visible(), now);
        }
        self.engine
            .note_idle(now.duration_since(keeping.written.1) >= IDLE);
        if self.engine.is_busy() {
            keeping.busy_until = now + ROUND;
        } else if now >= keeping.busy_until && self.engine.maintain(per_round).unwrap_or(false) {
            self.engine.call_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_an_age_is_told_and_nothing_younger() {
        let (start, mut seen) = (Instant::now(), VisibilityHistory::default());
        let ms = Duration::from_millis;
        for (at, visible) in [(0, 10), (100, 20), (200, 30)] {
            seen.note(start + ms(at), visible);
        }
        assert_eq!(seen.until(ms(250)), 0);
        assert_eq!(seen.until(ms(100)), 20);
        seen.note(start + ms(1000), 30);
        assert_eq!(seen.until(ms(100)), 30);
        assert_eq!(seen.until(ms(0)), 30);
    }
}
