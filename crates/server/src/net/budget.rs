//! Memory accounting for connections: the budget that all connections share, each connection's
//! charge, and limits on the sizes of requests and replies.

use super::admission::AdmissionQueue;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

/// Granularity of charges, in bytes. A connection that uses less memory than this never touches the
/// shared counter.
const STEP: usize = 4 << 10;

/// Approximate memory of a connection besides its buffers, in bytes. It counts towards the store's
/// memory but is not charged to the budget, because `--max-clients` limits it.
pub(crate) const PER_CONNECTION: usize = 4 << 10;

/// Approximate memory of a serving thread in bytes: its stack, and what the allocator caches for
/// it. Each request that waits for the store occupies a thread.
const PER_THREAD: usize = 48 << 10;

/// Minimum memory in bytes of a connection that may be closed to free memory.
pub(crate) const SMALL: usize = 64 << 10;

/// The input size that is free of charge is the budget divided by `UNASKED_PART`, clamped to the
/// range `UNASKED` (in bytes). Each request that waits for the store occupies a thread with an
/// input buffer of up to this size, so the total can be large.
const UNASKED_PART: usize = 128;
const UNASKED: std::ops::RangeInclusive<usize> = (64 << 10)..=(256 << 10);

/// Minimum budget in bytes. A smaller limit is raised to this value.
pub(crate) const LEAST: usize = 1 << 20;

/// Minimum default budget in bytes. The default is a quarter of the store's memory.
const DEFAULT_AT_LEAST: u64 = 8 << 20;

/// Returns the default budget in bytes for a store with `memory` bytes of memory.
pub(crate) fn share_of(memory: u64) -> usize {
    usize::try_from((memory / 4).max(DEFAULT_AT_LEAST)).unwrap_or(usize::MAX)
}

/// The result of reserving memory for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReserveOutcome {
    /// The memory is charged to the connection, possibly since before the call.
    Taken,
    /// The budget has too little memory left, but other connections may release some.
    Later,
    /// The request exceeds the total budget, so it can never be satisfied.
    Never,
}

/// The memory budget that all connections of a server share.
#[derive(Debug)]
pub(crate) struct ConnectionBudget {
    limit: AtomicUsize,
    used: AtomicUsize,
    /// Admission of long writes, whose memory is not charged to a connection.
    pub(super) writing: Mutex<AdmissionQueue>,
    /// Admission of reads of long values, whose memory is not charged to a connection.
    pub(super) reading: Mutex<AdmissionQueue>,
    /// Number of serving threads, each estimated at [`PER_THREAD`] bytes.
    threads: AtomicUsize,
    /// Number of connections that wait for memory.
    waiting: AtomicUsize,
    /// Whether another thread has asked the connection reaper to run immediately.
    is_called: Mutex<bool>,
    called: Condvar,
}

impl ConnectionBudget {
    pub(crate) fn new(limit: usize) -> ConnectionBudget {
        ConnectionBudget {
            limit: AtomicUsize::new(limit.max(LEAST)),
            used: AtomicUsize::new(0),
            writing: Mutex::default(),
            reading: Mutex::default(),
            threads: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            is_called: Mutex::new(false),
            called: Condvar::new(),
        }
    }

    /// Returns the limit on the total memory of all connections in bytes.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// Changes the limit in bytes. If the connections use more, the reaper closes some of them.
    pub(crate) fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes.max(LEAST), Relaxed);
        self.wake_reaper();
    }

    /// Returns the number of bytes charged to all connections.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Returns whether the memory charged to the connections exceeds the limit.
    pub(crate) fn is_full(&self) -> bool {
        self.used() > self.limit()
    }

    /// Returns whether more than half of the budget is used. The server then does not read from
    /// clients with outstanding replies, and reads only small amounts from other clients.
    pub(crate) fn is_tight(&self) -> bool {
        self.used() > self.limit() / 2
    }

    /// Returns the maximum input size in bytes that is free of charge.
    pub(crate) fn uncharged_input_limit(&self) -> usize {
        (self.limit() / UNASKED_PART).clamp(*UNASKED.start(), *UNASKED.end())
    }

    /// Returns the maximum size of a single reply in bytes: the unused part of the budget, but at
    /// least half of the budget, or only [`SMALL`] if the budget is exceeded. If a reply exceeds
    /// the unused part, the reaper closes the slowest readers to free memory.
    pub(crate) fn reply_room(&self) -> usize {
        let (used, limit) = (self.used(), self.limit());
        if used > limit {
            SMALL
        } else {
            (limit - used).max(limit / 2)
        }
    }

    /// Charges bytes to the budget even beyond the limit.
    pub(crate) fn charge(&self, bytes: usize) {
        let before = self.used.fetch_add(bytes, Relaxed);
        let limit = self.limit();
        let step = self.lending_step();
        if before <= limit && before + bytes > limit || before / step != (before + bytes) / step {
            self.wake_reaper();
        }
    }

    pub(crate) fn uncharge(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
        if self.waiting() > 0 {
            self.wake_reaper();
        }
    }

    /// Charges bytes to the budget if the limit allows it. Returns whether it did.
    pub(crate) fn try_charge(&self, bytes: usize) -> bool {
        let limit = self.limit();
        let fits = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= limit);
        self.used.fetch_update(Relaxed, Relaxed, fits).is_ok()
    }

    /// Returns by how many bytes the connections' memory must change before the store's caches are
    /// resized to match.
    pub(crate) fn lending_step(&self) -> usize {
        self.limit() / 16
    }

    /// Returns the total memory in bytes for serving this number of connections: their buffers and
    /// fixed overhead, admitted reads and writes, and serving threads.
    pub(crate) fn held_with(&self, connections: usize) -> usize {
        let threads = self.threads.load(Relaxed) * PER_THREAD;
        self.used() + connections * PER_CONNECTION + self.in_progress_bytes() + threads
    }

    /// Accounts for a new serving thread.
    pub(super) fn add_thread(&self) {
        self.threads.fetch_add(1, Relaxed);
        self.wake_reaper();
    }

    /// Stops accounting for a serving thread that has ended.
    pub(super) fn remove_thread(&self) {
        self.threads.fetch_sub(1, Relaxed);
    }

    /// Returns the number of connections that wait for memory.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    pub(crate) fn begin_to_wait(&self) {
        self.waiting.fetch_add(1, Relaxed);
        self.wake_reaper();
    }

    pub(crate) fn end_to_wait(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// Asks the connection reaper to run immediately.
    pub(crate) fn wake_reaper(&self) {
        let mut is_called = self.is_called.lock();
        if !std::mem::replace(&mut *is_called, true) {
            self.called.notify_one();
        }
    }

    /// Blocks the connection reaper until [`ConnectionBudget::wake_reaper`] is called, for at most
    /// the time `most`.
    pub(super) fn wait_for_call(&self, most: Duration) {
        let mut is_called = self.is_called.lock();
        if !*is_called {
            self.called.wait_for(&mut is_called, most);
        }
        *is_called = false;
    }
}

/// A connection's memory use and waiting state, which the connection publishes for other threads.
#[derive(Debug, Default)]
pub(crate) struct ConnectionMemory {
    /// Size of the received bytes that have not been parsed, and (in `input`) the capacity of their
    /// buffer.
    pub(crate) received: AtomicUsize,
    pub(crate) input: AtomicUsize,
    /// Size of the replies that have not been sent, and (in `output`) the capacity of their buffer.
    pub(crate) unread: AtomicUsize,
    pub(crate) output: AtomicUsize,
    /// Bytes of request arguments, and of commands queued between MULTI and EXEC.
    pub(crate) queued: AtomicUsize,
    /// Bytes charged to the budget for this connection.
    pub(crate) charged: AtomicUsize,
    /// Bytes of messages that wait for the connection. Other connections may share them.
    pub(crate) backlog: AtomicUsize,
    /// When the oldest unsent reply was written, in milliseconds since the connection was opened,
    /// plus 1; 0 if there is no unsent reply.
    pub(crate) owing_ms: AtomicU64,
    /// When bytes were last received or sent, in milliseconds since the connection was opened.
    pub(crate) moved_ms: AtomicU64,
    /// Since when the client has been unauthenticated, in milliseconds since the connection was
    /// opened, plus 1; 0 once it has authenticated.
    pub(crate) stranger_ms: AtomicU64,
    /// Whether an incomplete request has been received or a MULTI transaction is open.
    pub(crate) is_unfinished: AtomicBool,
    /// Whether the connection is waiting for memory.
    pub(crate) waits: AtomicBool,
    /// Whether the client has enabled CLIENT NO-EVICT, so that the connection is never closed to
    /// free memory.
    pub(crate) stays: AtomicBool,
}

impl ConnectionMemory {
    /// Returns the total memory of the connection in bytes.
    pub(crate) fn total(&self) -> usize {
        let parts = [&self.input, &self.output, &self.queued];
        parts.iter().map(|part| part.load(Relaxed)).sum::<usize>() + PER_CONNECTION
    }
}

/// A connection's buffer sizes at the end of a turn, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BufferUsage {
    pub(super) received: usize,
    pub(super) input: usize,
    pub(super) unread: usize,
    pub(super) output: usize,
    pub(super) queued: usize,
}

/// One connection's memory account. Dropping it returns the charged memory to the budget.
#[derive(Debug)]
pub(super) struct MemoryAccount {
    budget: Arc<ConnectionBudget>,
    charged: usize,
    /// Input size in bytes for which memory is reserved, so that the rest of an incomplete request
    /// can be received. 0 if no memory is reserved.
    promised: usize,
    held: BufferUsage,
    is_waiting: bool,
    /// A position in the stream of sent bytes. All replies that were unsent at the time stored in
    /// `ConnectionMemory::owing_ms` end before it.
    mark: u64,
    sent: u64,
}

impl MemoryAccount {
    pub(super) fn new(budget: &Arc<ConnectionBudget>) -> MemoryAccount {
        MemoryAccount {
            budget: Arc::clone(budget),
            charged: 0,
            promised: 0,
            held: BufferUsage::default(),
            is_waiting: false,
            mark: 0,
            sent: 0,
        }
    }

    pub(super) fn budget(&self) -> &ConnectionBudget {
        &self.budget
    }

    /// Reserves memory for an input of `input` bytes, unless the connection already has that much.
    pub(super) fn try_reserve_input(&mut self, input: usize) -> ReserveOutcome {
        let has = self.promised.max(self.held.input);
        if input <= has {
            return ReserveOutcome::Taken;
        }
        let others = self.held.output + self.held.queued;
        if input.saturating_add(others) > self.budget.limit() {
            return ReserveOutcome::Never;
        }
        let wanted = rounded(input + others);
        if wanted > self.charged {
            if !self.budget.try_charge(wanted - self.charged) {
                return ReserveOutcome::Later;
            }
            self.charged = wanted;
        }
        self.promised = input;
        ReserveOutcome::Taken
    }

    /// Cancels the reservation for input. The next call to `settle` returns its memory to the
    /// budget.
    pub(super) fn release(&mut self) {
        self.promised = 0;
    }

    /// Charges the connection's current memory to the budget and publishes it in `load`. `now_ms`
    /// returns the milliseconds since the connection was opened; it is called only if the time is
    /// needed.
    pub(super) fn settle(&mut self, held: BufferUsage, load: &ConnectionMemory, now_ms: impl Fn() -> u64) {
        let charge = rounded(held.input.max(self.promised) + held.output + held.queued);
        load.received.store(held.received, Relaxed);
        if held == self.held && charge == self.charged && held.unread == 0 {
            return;
        }
        if charge > self.charged {
            self.budget.charge(charge - self.charged);
        } else if charge < self.charged {
            self.budget.uncharge(self.charged - charge);
        }
        self.charged = charge;
        self.held = held;
        load.input.store(held.input, Relaxed);
        load.unread.store(held.unread, Relaxed);
        load.output.store(held.output, Relaxed);
        load.queued.store(held.queued, Relaxed);
        load.charged.store(charge, Relaxed);
        load.is_unfinished
            .store(held.received > 0 || held.queued > 0, Relaxed);
        if held.unread == 0 {
            self.mark = self.sent;
            load.owing_ms.store(0, Relaxed);
        } else if self.sent >= self.mark {
            // All replies that were unsent at the mark have been sent. The remaining ones were
            // written later.
            self.mark = self.sent + held.unread as u64;
            load.owing_ms.store(now_ms() + 1, Relaxed);
        }
    }

    /// Advances the stream position after `bytes` bytes of replies have been sent.
    pub(super) fn has_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// Updates the state when the connection starts or stops waiting for memory.
    pub(super) fn set_waiting(&mut self, waits: MemoryWait, load: &ConnectionMemory) {
        let is_waiting = waits == MemoryWait::Now;
        if is_waiting != self.is_waiting {
            load.waits.store(is_waiting, Relaxed);
        }
        match (self.is_waiting, is_waiting) {
            (false, true) => self.budget.begin_to_wait(),
            (true, false) => self.budget.end_to_wait(),
            _ => {}
        }
        self.is_waiting = is_waiting;
    }
}

/// Whether a connection waits for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryWait {
    Now,
    NoMore,
}

impl Drop for MemoryAccount {
    fn drop(&mut self) {
        if self.is_waiting {
            self.budget.end_to_wait();
        }
        self.budget.uncharge(self.charged);
    }
}

/// Rounds a number of bytes down to a multiple of [`STEP`].
fn rounded(bytes: usize) -> usize {
    bytes / STEP * STEP
}

/// A rate limiter for a log message, which admits one message a second and counts the suppressed
/// ones.
#[derive(Debug, Default)]
pub(crate) struct LogRateLimiter {
    told: Option<Instant>,
    held_back: u64,
}

impl LogRateLimiter {
    /// Returns `None` if the message must be suppressed now. Otherwise returns the number of
    /// messages suppressed since the last one that was logged.
    pub(crate) fn try_log(&mut self, now: Instant) -> Option<u64> {
        let is_due = self
            .told
            .is_none_or(|told| now.duration_since(told) >= Duration::from_secs(1));
        if !is_due {
            self.held_back += 1;
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(bytes: usize) -> BufferUsage {
        BufferUsage {
            output: bytes,
            unread: bytes,
            ..BufferUsage::default()
        }
    }

    #[test]
    fn what_connections_hold_is_charged_until_they_go() {
        let budget = Arc::new(ConnectionBudget::new(8 << 20));
        let load = ConnectionMemory::default();
        let (mut one, mut two) = (MemoryAccount::new(&budget), MemoryAccount::new(&budget));
        one.settle(output(100), &load, || 5);
        assert_eq!((budget.used(), load.total()), (0, 100 + PER_CONNECTION));
        one.settle(output(5 << 20), &load, || 5);
        two.settle(output(2 << 20), &load, || 5);
        assert_eq!(budget.used(), 7 << 20);
        assert!(budget.is_tight() && !budget.is_full());
        assert_eq!(budget.reply_room(), 4 << 20);
        one.settle(output(7 << 20), &load, || 5);
        assert!(budget.is_full());
        assert_eq!(budget.reply_room(), SMALL);
        drop(one);
        two.settle(BufferUsage::default(), &load, || 5);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn an_input_is_promised_if_it_fits() {
        let budget = Arc::new(ConnectionBudget::new(8 << 20));
        let load = ConnectionMemory::default();
        let (mut one, mut two) = (MemoryAccount::new(&budget), MemoryAccount::new(&budget));
        assert_eq!(one.try_reserve_input(9 << 20), ReserveOutcome::Never);
        assert_eq!(one.try_reserve_input(6 << 20), ReserveOutcome::Taken);
        assert_eq!(budget.used(), 6 << 20);
        // Received input that a reservation has already charged is not charged again.
        let held = BufferUsage {
            input: 3 << 20,
            ..BufferUsage::default()
        };
        one.settle(held, &load, || 0);
        assert_eq!(budget.used(), 6 << 20);
        assert_eq!(two.try_reserve_input(3 << 20), ReserveOutcome::Later);
        one.release();
        one.settle(held, &load, || 0);
        assert_eq!(two.try_reserve_input(3 << 20), ReserveOutcome::Taken);
        assert_eq!(budget.used(), 6 << 20);
    }

    #[test]
    fn inputs_are_long_before_they_are_charged_only_where_there_is_much() {
        let unasked = |limit: usize| ConnectionBudget::new(limit).uncharged_input_limit();
        assert_eq!(
            [1 << 20, 8 << 20, 16 << 20, 1 << 30].map(unasked),
            [64 << 10, 64 << 10, 128 << 10, 256 << 10]
        );
    }

    #[test]
    fn who_takes_replies_owes_none_that_are_old() {
        let budget = Arc::new(ConnectionBudget::new(8 << 20));
        let load = ConnectionMemory::default();
        let owing = || load.owing_ms.load(Relaxed);
        let mut account = MemoryAccount::new(&budget);
        account.settle(output(100_000), &load, || 10);
        assert_eq!(owing(), 11);
        account.has_sent(50_000);
        account.settle(output(60_000), &load, || 20);
        assert_eq!(owing(), 11, "some of the first replies are still there");
        account.has_sent(60_000);
        account.settle(output(70_000), &load, || 30);
        assert_eq!(owing(), 31, "all that is left was written since");
        account.has_sent(70_000);
        account.settle(output(0), &load, || 40);
        assert_eq!(owing(), 0);
    }

    #[test]
    fn a_message_is_told_once_a_second() {
        let (start, mut seldom) = (Instant::now(), LogRateLimiter::default());
        let mut at = |ms| seldom.try_log(start + Duration::from_millis(ms));
        assert_eq!(
            [at(0), at(50), at(100), at(999), at(1000), at(1500), at(2100)],
            [Some(0), None, None, None, Some(3), None, Some(1)]
        );
    }
}
