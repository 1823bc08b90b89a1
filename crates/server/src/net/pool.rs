//! The threads that drive the loops, and what happens when one of them blocks.
//!
//! There is one loop per core less a quarter of the cores, and one thread drives each. Before a
//! thread serves a connection it *parks* the loop where other threads can take it, and afterwards
//! it takes the loop back. As long as the store answers from memory, this costs two uncontended
//! locks. Commands that read records do not block a thread on the device: the connection ends its
//! turn and gets another one when the store wakes it. All other commands may block. The thread
//! announces this (`wait_hooks.rs`), and a spare thread takes over the loop and drives it. The
//! blocked thread later returns its connection to the loop's inbox and becomes a spare. A walk
//! cannot announce that it will block; a monitor that runs every millisecond detects this case.
//!
//! Go's scheduler treats system calls in the same way.

use super::budget::ConnectionBudget;
use super::connection::{self, ProtocolConnection, TurnOutcome, panic_text};
use super::event_loop::EventLoop;
use super::input;
use super::wait_hooks::{self, OnWait};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

/// Largest number of threads. When all of them are blocked, loops wait for a thread.
const MAX_THREADS: usize = 256;

/// Intervals of the monitor: while there is activity, and while there is none.
const BUSY_TICK: Duration = Duration::from_millis(1);
const IDLE_TICK: Duration = Duration::from_millis(20);

/// Time after which an idle spare thread ends.
const SPARE_LIFE: Duration = Duration::from_secs(10);

/// Monitor ticks after which a loop is taken over if its thread has announced that it may wait for
/// the device.
const WATCHED_TICKS: u32 = 2;

/// Monitor ticks after which any other loop is taken over. The number is high because a thread that
/// waits for a processor looks like one that waits for the device, and with more threads than
/// processors one more thread would make the wait longer.
const HELD_UP_TICKS: u32 = 50;

/// A message to a loop from another thread.
pub(crate) enum LoopMessage {
    /// A newly accepted connection, which has no slot yet.
    New(Box<ProtocolConnection>),
    /// A connection of the loop, whose turn has ended on another thread.
    Back(usize, Box<ProtocolConnection>, TurnOutcome),
    /// The event that the connection in this slot waits for has occurred.
    Woken(usize),
}

/// The place of a loop while it is parked, and its inbox.
pub(crate) struct LoopSlot {
    parked: Mutex<Option<Box<EventLoop>>>,
    inbox: Mutex<Vec<LoopMessage>>,
    has_mail: AtomicBool,
    waker: mio::Waker,
    /// Odd while the loop is parked. Every change increments it.
    epoch: AtomicU64,
    /// Whether the thread that serves one of its connections may wait for the device.
    pub(super) is_watched: AtomicBool,
    /// Whether the loop is already offered to spare threads.
    is_offered: AtomicBool,
    /// Whether connections were killed, or memory that they wait for may be available.
    looks: AtomicBool,
    /// Whether the loop has panicked and is no longer driven.
    pub(super) is_over: AtomicBool,
}

impl LoopSlot {
    pub(crate) fn new(driver: EventLoop, waker: mio::Waker) -> LoopSlot {
        LoopSlot {
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

    pub(crate) fn send(&self, message: LoopMessage) {
        self.inbox.lock().push(message);
        // The sender that found the mark set before has woken the loop or is about to.
        if !self.has_mail.swap(true, Ordering::AcqRel) {
            self.wake();
        }
    }

    pub(crate) fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "cannot wake an event loop");
        }
    }

    /// Makes the loop check for killed connections and resume those that wait for memory.
    pub(crate) fn request_check(&self) {
        self.looks.store(true, Ordering::Release);
        self.wake();
    }

    /// Returns whether such a check was requested, and clears the request.
    pub(super) fn takes_look(&self) -> bool {
        self.looks.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn take_messages(&self) -> Vec<LoopMessage> {
        if !self.has_mail.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *self.inbox.lock())
    }

    pub(crate) fn park(&self, driver: Box<EventLoop>) {
        let mut parked = self.parked.lock();
        self.epoch.fetch_add(1, Ordering::Relaxed);
        *parked = Some(driver);
    }

    pub(crate) fn take(&self) -> Option<Box<EventLoop>> {
        let mut parked = self.parked.lock();
        let driver = parked.take()?;
        self.epoch.fetch_add(1, Ordering::Relaxed);
        Some(driver)
    }
}

/// The loop that a thread drives. Other threads take it over when the thread blocks.
pub(super) struct LoopHandoff {
    pub(super) pool: Arc<LoopPool>,
    pub(super) seat: usize,
}

impl OnWait for LoopHandoff {
    fn about_to_wait(&self) {
        self.pool.offer(self.seat);
    }

    fn may_wait(&self, may: bool) {
        self.pool.seats[self.seat]
            .is_watched
            .store(may, Ordering::Relaxed);
    }
}

/// A waker that gives the connection in a slot another turn.
struct ConnectionWaker {
    pool: Weak<LoopPool>,
    seat: usize,
    slot: usize,
}

impl Wake for ConnectionWaker {
    fn wake(self: Arc<ConnectionWaker>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<ConnectionWaker>) {
        if let Some(pool) = self.pool.upgrade() {
            pool.seats[self.seat].send(LoopMessage::Woken(self.slot));
        }
    }
}

#[derive(Default)]
struct SpareThreads {
    /// Loops that need a thread.
    offers: Vec<usize>,
    /// Threads that wait for a loop.
    idle: usize,
    /// Threads that have not ended, including idle and blocked ones.
    alive: usize,
}

/// The loops and the threads that drive them.
pub(crate) struct LoopPool {
    pub(crate) seats: Vec<LoopSlot>,
    spares: Mutex<SpareThreads>,
    offered: Condvar,
    ended: Condvar,
    pub(crate) is_stopping: AtomicBool,
    /// Loops without connections, during shutdown.
    pub(crate) done: AtomicUsize,
    stop_at: Mutex<Option<Instant>>,
    /// The memory budget of connections, which includes the threads.
    budget: Arc<ConnectionBudget>,
}

impl LoopPool {
    pub(crate) fn new(seats: Vec<LoopSlot>, budget: &Arc<ConnectionBudget>) -> LoopPool {
        LoopPool {
            seats,
            spares: Mutex::new(SpareThreads::default()),
            offered: Condvar::new(),
            ended: Condvar::new(),
            is_stopping: AtomicBool::new(false),
            done: AtomicUsize::new(0),
            stop_at: Mutex::new(None),
            budget: Arc::clone(budget),
        }
    }

    /// Starts a thread for each loop, and the monitor.
    pub(crate) fn start(self: &Arc<LoopPool>) {
        for seat in 0..self.seats.len() {
            self.offer(seat);
        }
        let pool = Arc::clone(self);
        std::thread::Builder::new()
            .name("alluvium-monitor".to_owned())
            .spawn(move || pool.monitor())
            .expect("the system has a thread for the server");
    }

    /// Returns a waker that gives the connection in a slot another turn.
    pub(super) fn waker(self: &Arc<LoopPool>, seat: usize, slot: usize) -> Waker {
        Waker::from(Arc::new(ConnectionWaker {
            pool: Arc::downgrade(self),
            seat,
            slot,
        }))
    }

    /// Offers a parked loop to spare threads.
    pub(crate) fn offer(self: &Arc<LoopPool>, seat: usize) {
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
                tracing::error!(%error, "cannot start a thread for an event loop; its connections wait for \
                                         another thread");
                self.budget.remove_thread();
                self.spares.lock().alive -= 1;
            }
        }
    }

    /// Drives loops until none needs a thread.
    fn run(self: &Arc<LoopPool>) {
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

    /// Drives a loop. Connections catch the panics of their commands, so a panic here is a fault of
    /// the loop itself: its connections are lost, and new ones go to the other loops.
    fn drive(self: &Arc<LoopPool>, driver: Box<EventLoop>, seat: usize) {
        let driven = catch_unwind(AssertUnwindSafe(|| driver.drive(self, seat)));
        let Err(panic) = driven else { return };
        let why = panic_text(&*panic);
        tracing::error!(why, "an event loop panicked; its connections were closed");
        wait_hooks::on_wait(None);
        self.seats[seat].is_over.store(true, Ordering::Release);
        self.seats[seat].inbox.lock().clear();
        self.loop_ended();
    }

    fn next_offer(&self) -> Option<usize> {
        // Many threads may be idle here: as many as requests ever waited at once.
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

    fn monitor(self: &Arc<LoopPool>) {
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

    /// Begins the shutdown: no further requests are read, and connections are closed when their
    /// replies are sent, or at `deadline`.
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

    /// Counts a loop as ended. After the last one, spare threads end too.
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
