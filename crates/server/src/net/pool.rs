//! The thread pool that drives the event loops and hands over a loop when its thread blocks.
//!
//! By default, a server with a store has as many event loops as three quarters of its processors.
//! One thread drives each loop. Before a thread serves a connection, it *parks* the loop where
//! other threads can take it over. Afterwards it takes the loop back. As long as the store answers
//! from memory, this costs two uncontended locks. A command that reads records does not block its
//! thread while the device is busy: the connection ends its turn, and gets another one when the
//! store wakes it. All other commands may block. A thread announces that it is about to block
//! (`wait_hooks.rs`), and a spare thread then takes over the loop. The blocked thread later returns
//! its connection through the loop's inbox and becomes a spare thread itself. A scan cannot
//! announce that it will block, so a monitor, which runs every millisecond, detects this case.
//!
//! Go's scheduler treats threads in system calls the same way.

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

/// Maximum number of serving threads. If all of them are blocked, event loops wait for a thread.
const MAX_THREADS: usize = 256;

/// Polling interval of the monitor: `BUSY_TICK` while the loops are active, otherwise `IDLE_TICK`.
const BUSY_TICK: Duration = Duration::from_millis(1);
const IDLE_TICK: Duration = Duration::from_millis(20);

/// Time after which a spare thread without work ends.
const SPARE_LIFE: Duration = Duration::from_secs(10);

/// Number of monitor ticks after which a spare thread takes over a parked loop whose thread has
/// announced that it may wait for the device.
const WATCHED_TICKS: u32 = 2;

/// Number of monitor ticks after which a spare thread takes over any other parked loop. The number
/// is high because the monitor cannot distinguish a thread that waits for a processor from one that
/// waits for the device. If all processors are busy, another thread would prolong the wait.
const HELD_UP_TICKS: u32 = 50;

/// A message from another thread to an event loop.
pub(crate) enum LoopMessage {
    /// A newly accepted connection, which has no slot in the loop yet.
    New(Box<ProtocolConnection>),
    /// A connection of this loop that another thread has served, and the outcome of its turn.
    Back(usize, Box<ProtocolConnection>, TurnOutcome),
    /// The connection in this slot can continue, because the event that it awaited has occurred.
    Woken(usize),
}

/// The shared part of an event loop: its inbox, and the loop itself while it is parked.
pub(crate) struct LoopSlot {
    parked: Mutex<Option<Box<EventLoop>>>,
    inbox: Mutex<Vec<LoopMessage>>,
    has_mail: AtomicBool,
    waker: mio::Waker,
    /// Incremented whenever the loop is parked or taken; odd while it is parked.
    epoch: AtomicU64,
    /// Whether the thread that serves a connection of this loop has announced that it may wait for
    /// the device.
    pub(super) is_watched: AtomicBool,
    /// Whether the loop is in the list of loops that spare threads can take over.
    is_offered: AtomicBool,
    /// Whether the loop must check its connections, because some were killed or memory that they
    /// await may be available.
    looks: AtomicBool,
    /// Whether the loop has panicked. No thread drives it after that.
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
        // If the flag was already set, its setter has woken the loop or is about to do so.
        if !self.has_mail.swap(true, Ordering::AcqRel) {
            self.wake();
        }
    }

    pub(crate) fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "cannot wake an event loop");
        }
    }

    /// Makes the loop close killed connections and resume those that wait for memory.
    pub(crate) fn request_check(&self) {
        self.looks.store(true, Ordering::Release);
        self.wake();
    }

    /// Returns whether a connection check was requested, and clears the request.
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

/// The wait hook of a thread that drives a loop. It hands the loop over to other threads when the
/// thread blocks.
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

/// A waker that gives the connection in one of a loop's slots another turn.
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
    /// Indices of the loops that need a thread.
    offers: Vec<usize>,
    /// Number of threads that wait for a loop.
    idle: usize,
    /// Number of living threads, including idle and blocked ones.
    alive: usize,
}

/// The event loops and the threads that drive them.
pub(crate) struct LoopPool {
    pub(crate) seats: Vec<LoopSlot>,
    spares: Mutex<SpareThreads>,
    offered: Condvar,
    ended: Condvar,
    pub(crate) is_stopping: AtomicBool,
    /// Number of loops that have ended during shutdown.
    pub(crate) done: AtomicUsize,
    stop_at: Mutex<Option<Instant>>,
    /// The connections' memory budget, which also covers the threads.
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

    /// Starts one thread for each loop, and the monitor thread.
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

    /// Returns a waker that gives the connection in slot `slot` of loop `seat` another turn.
    pub(super) fn waker(self: &Arc<LoopPool>, seat: usize, slot: usize) -> Waker {
        Waker::from(Arc::new(ConnectionWaker {
            pool: Arc::downgrade(self),
            seat,
            slot,
        }))
    }

    /// Offers a parked loop to spare threads. Starts a new thread if none is idle.
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

    /// The main function of a serving thread, which drives loops until no loop needs a thread.
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

    /// Drives a loop. Connections catch the panics of their commands, so a panic that arrives here
    /// is a bug in the loop itself. The loop's connections are then lost, and other loops get its
    /// new connections.
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
        // An idle thread frees its reusable buffers. There may be as many idle threads as requests
        // have ever waited for the store at the same time.
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

    /// Begins the shutdown. No further requests are read. Each connection is closed once its
    /// replies have been sent, or at `deadline` at the latest.
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

    /// Counts a loop as ended. After the last one, the spare threads end, too.
    pub(crate) fn loop_ended(&self) {
        self.done.fetch_add(1, Ordering::AcqRel);
        let _spares = self.spares.lock();
        self.offered.notify_all();
    }

    /// Waits until all serving threads have ended.
    pub(crate) fn join(&self) {
        let mut spares = self.spares.lock();
        while spares.alive > 0 {
            self.ended.wait(&mut spares);
        }
    }
}
