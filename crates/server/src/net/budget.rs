//! The memory of all connections together: what they hold is charged to one budget, and what a
//! reply or a request may still take.

use super::turns::Turns;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

/// Charges change by whole steps of this length, so that connections which hold next to nothing
/// share no counter.
const STEP: usize = 4 << 10;

/// What a connection takes beside its buffers, about. It counts within the memory of the store, not
/// within the budget: `--max-clients` bounds it.
pub(crate) const PER_CONNECTION: usize = 4 << 10;

/// What a thread that serves connections takes, about: its stack, and what the allocator keeps for
/// it. There is one for each request that waits for the store.
const PER_THREAD: usize = 48 << 10;

/// A connection that holds less is never closed for the memory of others.
pub(crate) const SMALL: usize = 64 << 10;

/// An input may be one of these parts of the budget before it is charged, within bounds. Requests
/// are served by as many threads as wait for the store, so that all of them together may be long.
const UNASKED_PART: usize = 128;
const UNASKED: std::ops::RangeInclusive<usize> = (64 << 10)..=(256 << 10);

/// The least that a budget may be.
pub(crate) const LEAST: usize = 1 << 20;

/// The budget where no option sets it: a quarter of the store's memory, but not less than this.
const DEFAULT_AT_LEAST: u64 = 8 << 20;

/// Returns the budget of a store's memory where no option sets it.
pub(crate) fn share_of(memory: u64) -> usize {
    usize::try_from((memory / 4).max(DEFAULT_AT_LEAST)).unwrap_or(usize::MAX)
}

/// Whether something may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It is charged.
    Taken,
    /// Not until others have given something back.
    Later,
    /// It is more than all connections together may hold.
    Never,
}

/// The memory that all connections of a server hold, and may hold.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: AtomicUsize,
    used: AtomicUsize,
    /// Long writes that are on their way into the store, beside what connections hold.
    pub(super) writing: Mutex<Turns>,
    /// Reads of long values that no connection is charged for.
    pub(super) reading: Mutex<Turns>,
    /// Threads that serve connections.
    threads: AtomicUsize,
    /// Connections that wait for memory.
    waiting: AtomicUsize,
    /// Whether the keeper is to look at once.
    is_called: Mutex<bool>,
    called: Condvar,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Budget {
        Budget {
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

    /// What all connections may hold together.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// Changes what they may hold; who holds too much then is found by the keeper.
    pub(crate) fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes.max(LEAST), Relaxed);
        self.call();
    }

    /// What they hold.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Whether they hold more than they may: some must give back.
    pub(crate) fn is_full(&self) -> bool {
        self.used() > self.limit()
    }

    /// Whether so much is held that who owes replies is not read from.
    pub(crate) fn is_tight(&self) -> bool {
        self.used() > self.limit() / 2
    }

    /// How long an input may be before memory is taken for it.
    pub(crate) fn unasked(&self) -> usize {
        (self.limit() / UNASKED_PART).clamp(*UNASKED.start(), *UNASKED.end())
    }

    /// How long one reply may be: half of the budget or what is left of it, and little when nothing
    /// is left. Those that are longer than what is left are paid for by the slowest readers.
    pub(crate) fn reply_room(&self) -> usize {
        let (used, limit) = (self.used(), self.limit());
        if used > limit {
            SMALL
        } else {
            (limit - used).max(limit / 2)
        }
    }

    /// Takes bytes, whether they fit or not.
    pub(crate) fn take(&self, bytes: usize) {
        let before = self.used.fetch_add(bytes, Relaxed);
        let limit = self.limit();
        let step = self.lending_step();
        if before <= limit && before + bytes > limit || before / step != (before + bytes) / step {
            self.call();
        }
    }

    pub(crate) fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
        if self.waiting() > 0 {
            self.call();
        }
    }

    /// Takes bytes if they fit.
    pub(crate) fn try_take(&self, bytes: usize) -> bool {
        let limit = self.limit();
        let fits = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= limit);
        self.used.fetch_update(Relaxed, Relaxed, fits).is_ok()
    }

    /// By how much more or less must be held before the store hears of it.
    pub(crate) fn lending_step(&self) -> usize {
        self.limit() / 16
    }

    /// What a number of connections take in all: their buffers and themselves, what is on its way
    /// for them, and the threads that serve them.
    pub(crate) fn held_with(&self, connections: usize) -> usize {
        let threads = self.threads.load(Relaxed) * PER_THREAD;
        self.used() + connections * PER_CONNECTION + self.on_their_way() + threads
    }

    /// One more thread serves connections.
    pub(super) fn add_thread(&self) {
        self.threads.fetch_add(1, Relaxed);
        self.call();
    }

    /// A thread serves none any more.
    pub(super) fn remove_thread(&self) {
        self.threads.fetch_sub(1, Relaxed);
    }

    /// Returns how many connections wait for memory.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    pub(crate) fn begin_to_wait(&self) {
        self.waiting.fetch_add(1, Relaxed);
        self.call();
    }

    pub(crate) fn end_to_wait(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// Has the keeper look at once.
    pub(crate) fn call(&self) {
        let mut is_called = self.is_called.lock();
        if !std::mem::replace(&mut *is_called, true) {
            self.called.notify_one();
        }
    }

    /// Waits until the keeper is called, but not longer than this.
    pub(super) fn wait_for_call(&self, most: Duration) {
        let mut is_called = self.is_called.lock();
        if !*is_called {
            self.called.wait_for(&mut is_called, most);
        }
        *is_called = false;
    }
}

/// What a connection holds, for others to read.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// Received bytes that wait to be understood, and the buffer that they are in.
    pub(crate) received: AtomicUsize,
    pub(crate) input: AtomicUsize,
    /// Replies that were not taken, and the buffer that they are in.
    pub(crate) unread: AtomicUsize,
    pub(crate) output: AtomicUsize,
    /// Arguments of requests, and commands between MULTI and EXEC.
    pub(crate) queued: AtomicUsize,
    /// What is charged for all of it.
    pub(crate) charged: AtomicUsize,
    /// When the oldest reply was written that was not taken, in milliseconds of the connection's
    /// life, and 1 more; or 0.
    pub(crate) owing_ms: AtomicU64,
    /// When bytes came or went last, in milliseconds of the connection's life.
    pub(crate) moved_ms: AtomicU64,
    /// Since when it has not said who it is, in milliseconds of the connection's life, and 1 more;
    /// or 0 once it has.
    pub(crate) stranger_ms: AtomicU64,
    /// Whether a request has begun that has not come to its end, or a transaction.
    pub(crate) is_unfinished: AtomicBool,
    /// Whether it waits for memory.
    pub(crate) waits: AtomicBool,
    /// Whether the client has asked not to be closed for the memory of others, by CLIENT NO-EVICT.
    pub(crate) stays: AtomicBool,
}

impl Load {
    /// All that the connection takes.
    pub(crate) fn total(&self) -> usize {
        let parts = [&self.input, &self.output, &self.queued];
        parts.iter().map(|part| part.load(Relaxed)).sum::<usize>() + PER_CONNECTION
    }
}

/// What a connection holds at the end of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) received: usize,
    pub(super) input: usize,
    pub(super) unread: usize,
    pub(super) output: usize,
    pub(super) queued: usize,
}

/// The account of one connection. What is charged is given back when it is dropped.
#[derive(Debug)]
pub(super) struct Account {
    budget: Arc<Budget>,
    charged: usize,
    /// Input that was promised to a request, which has not come yet.
    promised: usize,
    held: Held,
    is_waiting: bool,
    /// Replies up to here, counted from the first byte ever sent, were written before the time in
    /// `Load::owing_ms`.
    mark: u64,
    sent: u64,
}

impl Account {
    pub(super) fn new(budget: &Arc<Budget>) -> Account {
        Account {
            budget: Arc::clone(budget),
            charged: 0,
            promised: 0,
            held: Held::default(),
            is_waiting: false,
            mark: 0,
            sent: 0,
        }
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Takes space for an input of a length, if that is more than it has.
    pub(super) fn promise(&mut self, input: usize) -> Room {
        let has = self.promised.max(self.held.input);
        if input <= has {
            return Room::Taken;
        }
        let others = self.held.output + self.held.queued;
        if input.saturating_add(others) > self.budget.limit() {
            return Room::Never;
        }
        let wanted = rounded(input + others);
        if wanted > self.charged {
            if !self.budget.try_take(wanted - self.charged) {
                return Room::Later;
            }
            self.charged = wanted;
        }
        self.promised = input;
        Room::Taken
    }

    /// What was promised is not needed any more.
    pub(super) fn release(&mut self) {
        self.promised = 0;
    }

    /// Charges what the connection holds, and shows it to others. `now_ms` tells the time in
    /// milliseconds of the connection's life; it is asked only where there is something to say.
    pub(super) fn settle(&mut self, held: Held, load: &Load, now_ms: impl Fn() -> u64) {
        let charge = rounded(held.input.max(self.promised) + held.output + held.queued);
        load.received.store(held.received, Relaxed);
        if held == self.held && charge == self.charged && held.unread == 0 {
            return;
        }
        if charge > self.charged {
            self.budget.take(charge - self.charged);
        } else if charge < self.charged {
            self.budget.give(self.charged - charge);
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
            // All that was owed at the time of the mark was taken; what is owed now is younger.
            self.mark = self.sent + held.unread as u64;
            load.owing_ms.store(now_ms() + 1, Relaxed);
        }
    }

    /// The client has taken bytes of replies.
    pub(super) fn has_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// Notes that the connection waits for memory from now on, or not any more.
    pub(super) fn waits(&mut self, waits: Waits, load: &Load) {
        let is_waiting = waits == Waits::Now;
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
pub(super) enum Waits {
    Now,
    NoMore,
}

impl Drop for Account {
    fn drop(&mut self) {
        if self.is_waiting {
            self.budget.end_to_wait();
        }
        self.budget.give(self.charged);
    }
}

/// Whole steps of what is held.
fn rounded(bytes: usize) -> usize {
    bytes / STEP * STEP
}

/// A message that is told once a second at most, and how often it was held back.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    told: Option<Instant>,
    held_back: u64,
}

impl Seldom {
    /// Whether it is to be told now; how often it was not since it was told last.
    pub(crate) fn tells(&mut self, now: Instant) -> Option<u64> {
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

    fn output(bytes: usize) -> Held {
        Held {
            output: bytes,
            unread: bytes,
            ..Held::default()
        }
    }

    #[test]
    fn what_connections_hold_is_charged_until_they_go() {
        let budget = Arc::new(Budget::new(8 << 20));
        let load = Load::default();
        let (mut one, mut two) = (Account::new(&budget), Account::new(&budget));
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
        two.settle(Held::default(), &load, || 5);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn an_input_is_promised_if_it_fits() {
        let budget = Arc::new(Budget::new(8 << 20));
        let load = Load::default();
        let (mut one, mut two) = (Account::new(&budget), Account::new(&budget));
        assert_eq!(one.promise(9 << 20), Room::Never);
        assert_eq!(one.promise(6 << 20), Room::Taken);
        assert_eq!(budget.used(), 6 << 20);
        // What has come of it is not charged twice.
        let held = Held {
            input: 3 << 20,
            ..Held::default()
        };
        one.settle(held, &load, || 0);
        assert_eq!(budget.used(), 6 << 20);
        assert_eq!(two.promise(3 << 20), Room::Later);
        one.release();
        one.settle(held, &load, || 0);
        assert_eq!(two.promise(3 << 20), Room::Taken);
        assert_eq!(budget.used(), 6 << 20);
    }

    #[test]
    fn inputs_are_long_before_they_are_charged_only_where_there_is_much() {
        let unasked = |limit: usize| Budget::new(limit).unasked();
        assert_eq!(
            [1 << 20, 8 << 20, 16 << 20, 1 << 30].map(unasked),
            [64 << 10, 64 << 10, 128 << 10, 256 << 10]
        );
    }

    #[test]
    fn who_takes_replies_owes_none_that_are_old() {
        let budget = Arc::new(Budget::new(8 << 20));
        let load = Load::default();
        let owing = || load.owing_ms.load(Relaxed);
        let mut account = Account::new(&budget);
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
        let (start, mut seldom) = (Instant::now(), Seldom::default());
        let mut at = |ms| seldom.tells(start + Duration::from_millis(ms));
        assert_eq!(
            [at(0), at(50), at(100), at(999), at(1000), at(1500), at(2100)],
            [Some(0), None, None, None, Some(3), None, Some(1)]
        );
    }
}
