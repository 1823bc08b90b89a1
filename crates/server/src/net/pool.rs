//! The pool of threads that drive the event loops, and the hand-over of a loop whose thread blocks.
//!
//! By default, a server with a store has an event loop for each of three quarters of the
//! processors. One thread drives each loop. Before a thread serves a connection, it *parks* the
//! loop at a place where other threads can take it over. Afterwards it takes the loop back. As long
//! as the store answers from memory, this costs two uncontended locks. A command that reads records
//! does not block its thread while the device is busy. Instead, the connection ends its turn, and
//! gets another one when the store wakes it. All other commands may block. A thread announces that
//! it is about to block (`wait_hooks.rs`), and a spare thread then takes over the loop and drives
//! it. The blocked thread later returns its connection through the loop's inbox and becomes a spare
//! thread itself. A scan cannot announce that it will block. This case is detected by a monitor,
//! which runs every millisecond.
//!
//! Go's scheduler treats threads in system calls in the same way.

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

/// Polling interval of the monitor. `BUSY_TICK` applies while the loops are active, and `IDLE_TICK`
/// otherwise.
const BUSY_TICK: Duration = Duration::from_millis(1);
const IDLE_TICK: Duration = Duration::from_millis(20);

/// Time after which a spare thread without work ends.
const SPARE_LIFE: Duration = Duration::from_secs(10);

/// Number of monitor ticks after which a parked loop is taken over if its thread has announced that
/// it may wait for the device.
const WATCHED_TICKS: u32 = 2;

/// Number of monitor ticks after which any other parked loop is taken over. The number is high
/// because the monitor cannot distinguish a thread that waits for a processor from one that waits
/// for the device. If all processors are busy, an additional thread would make the wait longer.
const HELD_UP_TICKS: u32 = 50;

/// A message from another thread to an event loop.
pub(crate) enum LoopMessage {
    /// A newly accepted connection that has no slot in the loop yet.
    New(Box<ProtocolConnection>),
    /// A connection of this loop that another thread has served, and the outcome of its turn.
    Back(usize, Box<ProtocolConnection>, TurnOutcome),
    /// The connection in this slot can continue, because the event for which it waited has
    /// occurred.
    Woken(usize),
}

/// The shared part of an event loop: the place where the loop is stored while it is parked, and its
/// inbox.
pub(crate) struct LoopSlot {
    parked: Mutex<Option<Box<EventLoop>>>,
    inbox: Mutex<Vec<LoopMessage>>,
    has_mail: AtomicBool,
    waker: mio::Waker,
    /// Incremented whenever the loop is parked or taken. The value is odd while the loop is parked.
    epoch: AtomicU64,
    /// Whether the thread that serves a connection of this loop has announced that it may wait for
    /// the device.
    pub(super) is_watched: AtomicBool,
    /// Whether the loop is in the list of loops that spare threads can take over.
    is_offered: AtomicBool,
    /// Whether the loop must check its connections, because some were killed or memory for which
    /// they wait may be available.
    looks: AtomicBool,
    /// Whether the loop has panicked, after which no thread drives it.
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
        // If the flag was already set, the sender that set it has woken the loop or is about to do
        // so.
        if !self.has_mail.swap(true, Ordering::AcqRel) {
            self.wake();
        }
    }

    pub(crate) fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "cannot wake an event loop");
        }
    }

    /// Makes the loop close killed connections and resume those that are waiting for memory.
    pub(crate) fn request_check(&self) {
        self.looks.store(true, Ordering::Release);
        self.wake();
    }

    /// Returns whether a check of the connections was requested, and resets the request.
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

/// The wait hook of a thread that drives a loop. It lets other threads take over the loop when the
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

/// A waker that gives the connection in a slot of a loop another turn.
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
    /// Number of threads that are waiting for a loop.
    idle: usize,
    /// Number of threads that have not ended, including those that are idle or blocked.
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
    /// The memory budget of the connections, in which the threads are included.
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

    /// Offers a parked loop to spare threads. If no spare thread is idle, starts a new one.
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

    /// The main function of a serving thread: drives loops until no loop needs a thread.
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

    /// Drives a loop. Connections catch panics of their commands, so a panic that arrives here is a
    /// fault of the loop itself. The connections of the loop are then lost, and new connections are
    /// given to other loops.
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
        // An idle thread frees its reusable buffers. Many threads may be idle here, up to the
        // largest number of requests that have waited for the store at the same time.
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
    /// replies have been sent, but at the latest at `deadline`.
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

    /// Counts a loop as ended. After the last loop has ended, the spare threads end too.
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
