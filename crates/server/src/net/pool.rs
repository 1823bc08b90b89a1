//! Threads that drive loops, and what happens when one is held up.
//!
//! There is one loop per core but a quarter of them, and each is driven by one thread. Before a
//! thread serves a connection it *parks* the loop where others can take it, and afterwards it takes
//! the loop back: two uncontended locks, nothing else, as long as the store answers from memory.
//! What is read from the device for commands that read records holds no thread up: the connection
//! gives its turn back, and has another one when the store wakes it. Everything else may wait where
//! it is: the thread says so beforehand (`waits.rs`), and a spare thread takes the loop and drives
//! it on; the one that was held up hands its connection back to the loop's inbox and becomes a
//! spare. A walk cannot say so beforehand; there a monitor notices that looks every millisecond.
//!
//! It is the way in which Go's scheduler treats system calls.

use super::budget::Budget;
use super::connection::{self, Connection, Turn, panic_text};
use super::event_loop::Driver;
use super::input;
use crate::waits::{self, OnWait};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

/// The most threads that may be held up at once; beyond, loops wait for theirs.
const MAX_THREADS: usize = 256;

/// How often the monitor looks while something is done, and while nothing is.
const BUSY_TICK: Duration = Duration::from_millis(1);
const IDLE_TICK: Duration = Duration::from_millis(20);

/// A spare thread that has had nothing to do for so long ends.
const SPARE_LIFE: Duration = Duration::from_secs(10);

/// A loop whose thread may wait for the device is taken over when it is held up for this number of
/// ticks.
const WATCHED_TICKS: u32 = 2;

/// Any other loop is, after this number. It is not less: where there are more threads than
/// processors, a thread that waits for a processor only looks like one that waits for the device,
/// and one more thread would make that worse.
const HELD_UP_TICKS: u32 = 50;

/// What is handed to a loop from outside.
pub(crate) enum Message {
    /// A connection that was accepted.
    New(Box<Connection>),
    /// One of its own, whose turn has ended elsewhere.
    Back(usize, Box<Connection>, Turn),
    /// What the connection of a slot has waited for is there.
    Woken(usize),
}

/// Where a loop is while no thread drives it, and how to reach it.
pub(crate) struct Seat {
    parked: Mutex<Option<Box<Driver>>>,
    inbox: Mutex<Vec<Message>>,
    has_mail: AtomicBool,
    waker: mio::Waker,
    /// Odd while the loop is parked; every parking has another number.
    epoch: AtomicU64,
    /// Whether the thread that serves one of its connections may wait for the device.
    pub(super) is_watched: AtomicBool,
    /// Whether it waits for a spare thread already.
    is_offered: AtomicBool,
    /// Whether connections were killed, or may have the memory that they wait for.
    looks: AtomicBool,
    /// Whether the loop has panicked and drives nothing any more.
    pub(super) is_over: AtomicBool,
}

impl Seat {
    pub(crate) fn new(driver: Driver, waker: mio::Waker) -> Seat {
        Seat {
            parked: Mutex::new(Some(Box::new(driver))),
            inbox: Mutex::new(Vec::new()),
            has_mail: AtomicBool::new(false),
            waker,
            epoch: AtomicU64::new(1),
            is_watched: AtomicBool::new(false),
            is_offered: AtomicBool::new(false),
            looks: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    pub(crate) fn send(&self, message: Message) {
        self.inbox.lock().push(message);
        // Who has found the inbox with mail has woken the loop, or is about to.
        if !self.has_mail.swap(true, Ordering::AcqRel) {
            self.wake();
        }
    }

    pub(crate) fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "a loop cannot be woken");
        }
    }

    /// Has the loop look for connections that were killed, and let those go on that wait for
    /// memory.
    pub(crate) fn look(&self) {
        self.looks.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether it was asked to look, once.
    pub(super) fn takes_look(&self) -> bool {
        self.looks.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn mail(&self) -> Vec<Message> {
        if !self.has_mail.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *self.inbox.lock())
    }

    pub(crate) fn park(&self, driver: Box<Driver>) {
        let mut parked = self.parked.lock();
        self.epoch.fetch_add(1, Ordering::Relaxed);
        *parked = Some(driver);
    }

    pub(crate) fn take(&self) -> Option<Box<Driver>> {
        let mut parked = self.parked.lock();
        let driver = parked.take()?;
        self.epoch.fetch_add(1, Ordering::Relaxed);
        Some(driver)
    }
}

/// The loop that a thread drives: others take it when the thread must wait.
pub(super) struct Driven {
    pub(super) pool: Arc<Pool>,
    pub(super) seat: usize,
}

impl OnWait for Driven {
    fn about_to_wait(&self) {
        self.pool.offer(self.seat);
    }

    fn may_wait(&self, may: bool) {
        self.pool.seats[self.seat]
            .is_watched
            .store(may, Ordering::Relaxed);
    }
}

/// Gives the connection of a slot another turn.
struct Wakening {
    pool: Weak<Pool>,
    seat: usize,
    slot: usize,
}

impl Wake for Wakening {
    fn wake(self: Arc<Wakening>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Wakening>) {
        if let Some(pool) = self.pool.upgrade() {
            pool.seats[self.seat].send(Message::Woken(self.slot));
        }
    }
}

#[derive(Default)]
struct Spares {
    /// Loops that want a thread.
    offers: Vec<usize>,
    /// Threads that wait for one.
    idle: usize,
    /// All threads that live.
    alive: usize,
}

/// The loops and the threads that drive them.
pub(crate) struct Pool {
    pub(crate) seats: Vec<Seat>,
    spares: Mutex<Spares>,
    offered: Condvar,
    ended: Condvar,
    pub(crate) is_stopping: AtomicBool,
    /// Loops that have no connection any more, while stopping.
    pub(crate) done: AtomicUsize,
    stop_at: Mutex<Option<Instant>>,
    /// The memory of connections, which threads count to.
    budget: Arc<Budget>,
}

impl Pool {
    pub(crate) fn new(seats: Vec<Seat>, budget: &Arc<Budget>) -> Pool {
        Pool {
            seats,
            spares: Mutex::new(Spares::default()),
            offered: Condvar::new(),
            ended: Condvar::new(),
            is_stopping: AtomicBool::new(false),
            done: AtomicUsize::new(0),
            stop_at: Mutex::new(None),
            budget: Arc::clone(budget),
        }
    }

    /// Starts a thread for each loop, and the monitor.
    pub(crate) fn start(self: &Arc<Pool>) {
        for seat in 0..self.seats.len() {
            self.offer(seat);
        }
        let pool = Arc::clone(self);
        std::thread::Builder::new()
            .name("alluvium-monitor".to_owned())
            .spawn(move || pool.monitor())
            .expect("the system has a thread for the server");
    }

    /// Gives the connection of a slot another turn when what it waits for is there.
    pub(super) fn waker(self: &Arc<Pool>, seat: usize, slot: usize) -> Waker {
        Waker::from(Arc::new(Wakening {
            pool: Arc::downgrade(self),
            seat,
            slot,
        }))
    }

    /// Lets a spare thread take a loop that is parked.
    pub(crate) fn offer(self: &Arc<Pool>, seat: usize) {
        if self.seats[seat].is_offered.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut spares = self.spares.lock();
        spares.offers.push(seat);
        if spares.idle >= spares.offers.len() {
            self.offered.notify_one();
        } else if spares.alive < MAX_THREADS {
            spares.alive += 1;
            drop(spares);
            self.budget.add_thread();
            let pool = Arc::clone(self);
            let thread = std::thread::Builder::new().name("alluvium-serve".to_owned());
            if let Err(error) = thread.spawn(move || pool.run()) {
                tracing::error!(%error, "no thread for a connection that is held up");
                self.budget.remove_thread();
                self.spares.lock().alive -= 1;
            }
        }
    }

    /// Drives loops until no loop wants a thread.
    fn run(self: &Arc<Pool>) {
        while let Some(seat) = self.next_offer() {
            self.seats[seat].is_offered.store(false, Ordering::Release);
            if let Some(driver) = self.seats[seat].take() {
                self.drive(driver, seat);
            }
        }
        self.budget.remove_thread();
        let mut spares = self.spares.lock();
        spares.alive -= 1;
        self.ended.notify_all();
    }

    /// Drives a loop. Connections catch the panics of their commands, so that a panic here is one
    /// of the loop's own: its connections are lost, and new ones go to the other loops.
    fn drive(self: &Arc<Pool>, driver: Box<Driver>, seat: usize) {
        let driven = catch_unwind(AssertUnwindSafe(|| driver.drive(self, seat)));
        let Err(panic) = driven else { return };
        let why = panic_text(&*panic);
        tracing::error!(why, "a loop panicked: its connections are closed");
        waits::on_wait(None);
        self.seats[seat].is_over.store(true, Ordering::Release);
        self.seats[seat].inbox.lock().clear();
        self.loop_ended();
    }

    fn next_offer(&self) -> Option<usize> {
        // As many threads as there ever were requests that waited may be idle for a while.
        input::forget_spare();
        connection::forget_spare();
        let mut spares = self.spares.lock();
        loop {
            if let Some(seat) = spares.offers.pop() {
                return Some(seat);
            }
            if self.is_done() {
                return None;
            }
            spares.idle += 1;
            let timed_out = self.offered.wait_for(&mut spares, SPARE_LIFE).timed_out();
            spares.idle -= 1;
            if timed_out && spares.offers.is_empty() {
                return None;
            }
        }
    }

    fn is_done(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire) && self.done.load(Ordering::Acquire) == self.seats.len()
    }

    fn monitor(self: &Arc<Pool>) {
        let mut before: Vec<(u64, u32)> = vec![(0, 0); self.seats.len()];
        while !self.is_done() {
            let mut is_busy = false;
            for (index, seat) in self.seats.iter().enumerate() {
                let epoch = seat.epoch.load(Ordering::Relaxed);
                let (last, ticks) = &mut before[index];
                is_busy |= epoch != *last || epoch % 2 == 1;
                *ticks = if epoch == *last { *ticks + 1 } else { 0 };
                *last = epoch;
                let most = if seat.is_watched.load(Ordering::Relaxed) {
                    WATCHED_TICKS
                } else {
                    HELD_UP_TICKS
                };
                if epoch % 2 == 1 && *ticks >= most {
                    self.offer(index);
                }
            }
            std::thread::sleep(if is_busy { BUSY_TICK } else { IDLE_TICK });
        }
    }

    /// No more requests are read than have arrived; connections end when their replies are sent, or
    /// at `deadline`.
    pub(crate) fn stop(&self, deadline: Instant) {
        *self.stop_at.lock() = Some(deadline);
        self.is_stopping.store(true, Ordering::Release);
        for seat in &self.seats {
            seat.wake();
        }
    }

    pub(crate) fn is_late(&self) -> bool {
        self.stop_at.lock().is_some_and(|at| Instant::now() >= at)
    }

    /// A loop has ended; when it is the last one, spare threads end too.
    pub(crate) fn loop_ended(&self) {
        self.done.fetch_add(1, Ordering::AcqRel);
        let _spares = self.spares.lock();
        self.offered.notify_all();
    }

    /// Waits until all threads have ended.
    pub(crate) fn join(&self) {
        let mut spares = self.spares.lock();
        while spares.alive > 0 {
            self.ended.wait(&mut spares);
        }
    }
}
