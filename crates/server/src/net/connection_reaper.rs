//! Background supervision of connections. It closes idle connections, closes the slowest readers
//! when the clients' memory is used up, and returns unused heap memory to the operating system.

use super::budget::SMALL;
use crate::observe::process;
use crate::shared::{ClientHandle, ServerContext};
use alluvium_device::heap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum interval between two runs of the reaper: `WAITING_TICK` while a connection waits for
/// memory, otherwise `TICK`.
const TICK: Duration = Duration::from_secs(1);
const WAITING_TICK: Duration = Duration::from_millis(50);

/// Minimum pause between two runs of the reaper, even if it is woken more often.
const MIN_RUN_INTERVAL: Duration = Duration::from_millis(5);

/// Minimum pause after closing connections to free memory before more of them are closed, unless
/// the limit is exceeded. Gives waiting connections time to use the freed memory.
const PAUSE: Duration = Duration::from_millis(200);

/// Age in milliseconds of a client's oldest unsent reply from which the client counts as a slow
/// reader.
const SLOW_MS: u64 = 1000;

/// Idle time in milliseconds from which a client's incomplete request or transaction counts as
/// stalled.
const STILL_MS: u64 = 5000;

/// Divisor of the idle timeout. The quotient is how long an idle connection may exceed the timeout
/// before it is closed.
const IDLE_CHECK_DIVISOR: u32 = 16;

/// Free heap memory is returned to the operating system once resident memory exceeds the store's
/// budget by more than `HEAP_SLACK_BYTES` plus the budget divided by `HEAP_SLACK_DIVISOR`.
const HEAP_SLACK_BYTES: u64 = 16 << 20;
const HEAP_SLACK_DIVISOR: u64 = 20;

/// If returning heap memory frees fewer bytes than `MIN_TRIM_GAIN`, the pause before the next
/// attempt is doubled, up to `MAX_TRIM_INTERVAL`.
const MIN_TRIM_GAIN: u64 = 2 << 20;
const MAX_TRIM_INTERVAL: Duration = Duration::from_secs(60);

/// The interface to the process's memory outside the connections, in particular the store's caches.
pub(crate) trait MemoryPressureListener: Send + Sync {
    /// Shrinks the caches to leave `held` bytes of memory to the connections.
    ///
    /// # Errors
    /// The reason why the caches cannot be resized.
    fn release_memory(&self, held: u64) -> Result<(), String>;

    /// Ages learnt access statistics. Called by the reaper once a second.
    fn age_statistics(&self);

    /// Returns the memory budget of the store in bytes.
    fn budget(&self) -> u64;
}

/// The background thread that supervises connections.
pub(crate) struct ConnectionReaper {
    common: Arc<ServerContext>,
    is_stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl ConnectionReaper {
    pub(crate) fn start(
        common: &Arc<ServerContext>,
        beside: Arc<dyn MemoryPressureListener>,
    ) -> io::Result<ConnectionReaper> {
        let is_stopping = Arc::new(AtomicBool::new(false));
        let (looked_after, stops) = (Arc::clone(common), Arc::clone(&is_stopping));
        let thread = std::thread::Builder::new()
            .name("alluvium-keeper".to_owned())
            .spawn(move || run(&looked_after, &*beside, &stops))?;
        Ok(ConnectionReaper {
            common: Arc::clone(common),
            is_stopping,
            thread,
        })
    }

    /// Stops the thread and waits for its end.
    pub(crate) fn stop(self) {
        self.is_stopping.store(true, Release);
        self.common.budget.wake_reaper();
        if self.thread.join().is_err() {
            tracing::error!("the thread that closes idle and slow connections has panicked");
        }
    }
}

fn run(common: &ServerContext, beside: &dyn MemoryPressureListener, is_stopping: &AtomicBool) {
    let budget = &common.budget;
    let (mut idle, mut heap) = (IdleCheckSchedule::default(), HeapTrimSchedule::default());
    let (mut lent, mut aged, mut closed) = (0, Instant::now(), None);
    let mut met = Instant::now();
    while !is_stopping.load(Acquire) {
        let is_wanted = budget.is_full() || budget.waiting() > 0;
        let tick = TICK.min(common.config.login_timeout.max(WAITING_TICK));
        budget.wait_for_call(if is_wanted { WAITING_TICK } else { tick });
        let now = Instant::now();
        // Give waiting connections time to use the released memory before closing more connections
        // on their behalf.
        let is_due = closed.is_none_or(|closed| now.duration_since(closed) >= PAUSE);
        let mut has_closed = (budget.is_full() || is_due) && evict_connections(common);
        if has_closed {
            closed = Some(now);
        }
        has_closed |= idle.close_idle(common, now);
        if now.duration_since(met) >= common.config.login_timeout.clamp(MIN_RUN_INTERVAL, TICK) {
            has_closed |= close_strangers(common);
            met = now;
        }
        reclaim_store_memory(common, beside, &mut lent);
        if now.duration_since(aged) >= TICK {
            beside.age_statistics();
            heap.trim_heap(beside, now);
            aged = now;
        }
        if (has_closed || budget.waiting() > 0)
            && let Some(wake) = common.wake.get()
        {
            wake();
        }
        std::thread::sleep(MIN_RUN_INTERVAL);
    }
}

/// Closes connections that have not authenticated within the time limit. Returns whether any was
/// closed.
fn close_strangers(common: &ServerContext) -> bool {
    let most_ms = u64::try_from(common.config.login_timeout.as_millis()).unwrap_or(u64::MAX);
    let mut has_closed = false;
    common.clients.each(|client| {
        let Some(since_ms) = client.load.stranger_ms.load(Relaxed).checked_sub(1) else {
            return;
        };
        let for_ms = client.age_ms().saturating_sub(since_ms);
        if for_ms >= most_ms && !client.is_killed.swap(true, Relaxed) {
            has_closed = true;
            common.counters.timed_out.fetch_add(1, Relaxed);
            tracing::info!(client = client.id, peer = %client.peer, "closed a connection: it did not authenticate in time");
        }
    });
    has_closed
}

/// Resizes the store's caches to the memory that connections currently use.
fn reclaim_store_memory(common: &ServerContext, beside: &dyn MemoryPressureListener, lent: &mut usize) {
    let held = common.budget.held_with(common.clients.len());
    if held.abs_diff(*lent) < common.budget.lending_step() {
        return;
    }
    match beside.release_memory(held as u64) {
        Ok(()) => *lent = held,
        Err(error) => tracing::debug!(%error, "the store cannot release memory for clients"),
    }
}

/// Returns how much a slow reader harms others: its unsent bytes multiplied by their age in
/// milliseconds. Returns `None` if the client is not a slow reader.
fn slowness(client: &ClientHandle, now_ms: u64) -> Option<u128> {
    let load = &client.load;
    let (unread, owing) = (load.unread.load(Relaxed), load.owing_ms.load(Relaxed));
    let age_ms = now_ms.saturating_sub(owing.checked_sub(1)?);
    let is_slow = unread > 0 && age_ms >= SLOW_MS;
    is_slow.then(|| unread as u128 * u128::from(age_ms))
}

/// Returns for how many milliseconds a client with an incomplete request or transaction has been
/// idle, or `None` if the connection is not stalled.
fn measure_stall(client: &ClientHandle, now_ms: u64) -> Option<u128> {
    // A busy connection waits for the server, not for its client.
    if client.is_busy.load(Relaxed) {
        return None;
    }
    let load = &client.load;
    let still_ms = now_ms.saturating_sub(load.moved_ms.load(Relaxed));
    let is_held_up = load.waits.load(Relaxed);
    let stands_still = load.is_unfinished.load(Relaxed) && !is_held_up && still_ms >= STILL_MS;
    stands_still.then(|| u128::from(still_ms))
}

/// Frees memory if the limit is exceeded or a connection waits for memory. Closes the slowest
/// readers or, if there are none, connections with stalled requests. Returns whether any was
/// closed.
fn evict_connections(common: &ServerContext) -> bool {
    let budget = &common.budget;
    let (limit, used) = (budget.limit(), budget.used());
    let is_full = budget.is_full();
    if !is_full && budget.waiting() == 0 {
        return false;
    }
    let mut found: Vec<(u128, Arc<ClientHandle>)> = rank_victims(common, slowness);
    let is_reader = !found.is_empty();
    if !is_reader {
        found = rank_victims(common, measure_stall);
    }
    // Connections that are already closing will release their memory, so it counts as freed.
    let mut missing = if is_full { used - limit / 4 * 3 } else { 1 };
    let mut has_closed = false;
    for (_, client) in found {
        if missing == 0 {
            break;
        }
        let load = &client.load;
        let charged = load.charged.load(Relaxed) + load.backlog.load(Relaxed);
        missing = missing.saturating_sub(charged);
        if client.is_killed.swap(true, Relaxed) {
            continue;
        }
        has_closed = true;
        common.counters.evicted.fetch_add(1, Relaxed);
        let why = match is_reader {
            true => {
                "closed the connection that reads its replies most slowly: clients ran out of \
                 --client-memory"
            }
            false => "closed a connection with a stalled request: clients ran out of --client-memory",
        };
        let unread = load.unread.load(Relaxed);
        tracing::warn!(client = client.id, peer = %client.peer, held = charged, unread, used, limit, why);
    }
    has_closed
}

/// Returns the connections that may be closed to free memory, ordered from worst to best by
/// `how_bad`.
fn rank_victims(
    common: &ServerContext,
    how_bad: impl Fn(&ClientHandle, u64) -> Option<u128>,
) -> Vec<(u128, Arc<ClientHandle>)> {
    let mut found = Vec::new();
    common.clients.each(|client| {
        let load = &client.load;
        let held = load.charged.load(Relaxed) + load.backlog.load(Relaxed);
        if held < SMALL || load.stays.load(Relaxed) {
            return;
        }
        if let Some(badness) = how_bad(client, client.age_ms()) {
            found.push((badness, Arc::clone(client)));
        }
    });
    found.sort_by_key(|(badness, _)| std::cmp::Reverse(*badness));
    found
}

/// Schedules the checks of resident memory. Returning memory to the operating system takes time, so
/// the interval between checks grows while they gain little.
#[derive(Debug, Default)]
struct HeapTrimSchedule {
    pause: Duration,
    due: Option<Instant>,
}

impl HeapTrimSchedule {
    fn trim_heap(&mut self, beside: &dyn MemoryPressureListener, now: Instant) {
        if self.due.is_some_and(|due| now < due) {
            return;
        }
        let budget = beside.budget();
        let resident = || process::resident_bytes().unwrap_or(0);
        let before = resident();
        if before <= budget + budget / HEAP_SLACK_DIVISOR + HEAP_SLACK_BYTES {
            return;
        }
        heap::give_back_between_blocks();
        self.pause = match before.saturating_sub(resident()) {
            MIN_TRIM_GAIN.. => TICK,
            _ => (2 * self.pause).clamp(TICK, MAX_TRIM_INTERVAL),
        };
        self.due = Some(now + self.pause);
    }
}

/// Schedules the checks for idle connections. A check visits all connections. The next check is due
/// when the first of them could reach the idle timeout.
#[derive(Debug, Default)]
struct IdleCheckSchedule {
    timeout: Duration,
    due: Option<Instant>,
}

impl IdleCheckSchedule {
    /// If a check is due, closes all connections that have been idle for at least the timeout.
    /// Returns whether any was closed.
    fn close_idle(&mut self, common: &ServerContext, now: Instant) -> bool {
        let timeout = common.config.idle_timeout();
        if timeout != self.timeout {
            *self = IdleCheckSchedule { timeout, due: None };
        }
        if timeout.is_zero() || self.due.is_some_and(|due| now < due) {
            return false;
        }
        let (mut has_closed, mut soonest) = (false, timeout);
        common.clients.each(|client| {
            if client.is_busy.load(Relaxed) || client.is_subscriber() {
                return;
            }
            let idle = Duration::from_millis(client.idle_ms());
            if idle < timeout {
                soonest = soonest.min(timeout - idle);
            } else if !client.is_killed.swap(true, Relaxed) {
                has_closed = true;
                common.counters.timed_out.fetch_add(1, Relaxed);
                tracing::info!(client = client.id, peer = %client.peer, "closed a connection: it was idle for --client-timeout");
            }
        });
        self.due = Some(now + soonest.max(timeout / IDLE_CHECK_DIVISOR));
        has_closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{LoginThrottle, SystemClock, UserRegistry};
    use crate::net::{EndpointAddress, WireProtocol};
    use crate::shared::ClientRegistry;

    #[test]
    fn a_request_stands_still_only_while_its_client_is_waited_for() {
        let delays = LoginThrottle::new(Arc::new(SystemClock::start().unwrap()));
        let access = UserRegistry::new(None, None, delays).unwrap();
        let place = || EndpointAddress::Socket(Arc::from(std::path::Path::new("/socket")));
        let admitted = ClientRegistry::default().admit(
            WireProtocol::Redis,
            (place(), place()),
            access.default_user(),
            10,
        );
        let client = admitted.unwrap();
        client.load.is_unfinished.store(true, Relaxed);
        assert_eq!(measure_stall(&client, STILL_MS - 1), None);
        assert_eq!(measure_stall(&client, STILL_MS), Some(u128::from(STILL_MS)));
        // The request is complete and waits for its turn to write.
        client.is_busy.store(true, Relaxed);
        assert_eq!(measure_stall(&client, STILL_MS), None);
        client.is_busy.store(false, Relaxed);
        client.load.waits.store(true, Relaxed);
        assert_eq!(measure_stall(&client, STILL_MS), None);
    }
}
