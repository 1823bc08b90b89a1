//! Threads that drive loops, and what happens when one is held up.
//!
//! There is one loop per core, and each is driven by one thread. Before a thread serves a connection it *parks* the loop where others can
//! take it, and afterwards it takes the loop back: two uncontended locks, nothing else, as long as the store answers from memory. When
//! serving takes long, a spare thread takes the loop meanwhile and drives it on; the one that was held up hands its connection back to the
//! loop's inbox and becomes a spare. Who notices is a monitor that looks every millisecond, or, when the loop's requests have
//! lately been slow as a rule (they wait for the device), nobody needs to: the loop is offered before the request is served.
//!
//! It is the way in which Go's scheduler treats system calls. The store may block wherever it likes, and needs no second, asynchronous face.

use super::connection::{Connection, Turn};
use super::event_loop::Driver;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The most threads that may be held up at once; beyond, loops wait for theirs.
const MAX_THREADS: usize = 256;

/// How often the monitor looks while something is done, and while nothing is.
const BUSY_TICK: Duration = Duration::from_millis(1);
const IDLE_TICK: Duration = Duration::from_millis(20);

/// A spare thread that has had nothing to do for so long ends.
const SPARE_LIFE: Duration = Duration::from_secs(10);

/// A request that takes this long has probably waited for the device.
const SLOW: Duration = Duration::from_micros(40);

/// The score of a loop, and from where on it is offered beforehand. It moves by an eighth of what is missing.
const FULL_SCORE: u32 = 1024;
const OFFERED_FROM: u32 = FULL_SCORE / 3;

/// What is handed to a loop from outside.
pub(crate) enum Message {
    /// A connection that was accepted.
    New(Box<Connection>),
    /// One of its own, whose turn has ended elsewhere.
    Back(usize, Box<Connection>, Turn),
}

/// Where a loop is when nobody drives it, and how to reach it.
pub(crate) struct Seat {
    parked: Mutex<Option<Box<Driver>>>,
    inbox: Mutex<Vec<Message>>,
    has_mail: AtomicBool,
    waker: mio::Waker,
    /// Odd while the loop is parked; every parking has another number.
    epoch: AtomicU64,
    /// How often requests of this loop have been slow lately.
    score: AtomicU32,
    /// Whether it waits for a spare thread already.
    is_offered: AtomicBool,
}

impl Seat {
    pub(crate) fn new(driver: Driver, waker: mio::Waker) -> Seat {
        Seat {
            parked: Mutex::new(Some(Box::new(driver))),
            inbox: Mutex::new(Vec::new()),
            has_mail: AtomicBool::new(false),
            waker,
            epoch: AtomicU64::new(1),
            score: AtomicU32::new(0),
            is_offered: AtomicBool::new(false),
        }
    }

    pub(crate) fn send(&self, message: Message) {
        self.inbox.lock().push(message);
        self.has_mail.store(true, Ordering::Release);
        self.wake();
    }

    pub(crate) fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "a loop cannot be woken");
        }
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

    /// Notes how long a turn took.
    pub(crate) fn note(&self, took: Duration) {
        let score = self.score.load(Ordering::Relaxed);
        let aim = if took > SLOW { FULL_SCORE } else { 0 };
        let next = (score * 7 + aim) / 8;
        self.score.store(next, Ordering::Relaxed);
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.score.load(Ordering::Relaxed) >= OFFERED_FROM
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
}

impl Pool {
    pub(crate) fn new(seats: Vec<Seat>) -> Pool {
        Pool {
            seats,
            spares: Mutex::new(Spares::default()),
            offered: Condvar::new(),
            ended: Condvar::new(),
            is_stopping: AtomicBool::new(false),
            done: AtomicUsize::new(0),
            stop_at: Mutex::new(None),
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
            let pool = Arc::clone(self);
            let thread = std::thread::Builder::new().name("alluvium-serve".to_owned());
            if let Err(error) = thread.spawn(move || pool.run()) {
                tracing::error!(%error, "no thread for a connection that is held up");
                self.spares.lock().alive -= 1;
            }
        }
    }

    fn run(self: &Arc<Pool>) {
        while let Some(seat) = self.next_offer() {
            self.seats[seat].is_offered.store(false, Ordering::Release);
            if let Some(driver) = self.seats[seat].take() {
                driver.drive(self, seat);
            }
        }
        let mut spares = self.spares.lock();
        spares.alive -= 1;
        self.ended.notify_all();
    }

    fn next_offer(&self) -> Option<usize> {
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
        let mut before: Vec<u64> = vec![0; self.seats.len()];
        while !self.is_done() {
            let mut is_busy = false;
            for (index, seat) in self.seats.iter().enumerate() {
                let epoch = seat.epoch.load(Ordering::Relaxed);
                is_busy |= epoch != before[index] || epoch % 2 == 1;
                if epoch % 2 == 1 && epoch == before[index] {
                    self.offer(index);
                }
                before[index] = epoch;
            }
            std::thread::sleep(if is_busy { BUSY_TICK } else { IDLE_TICK });
        }
    }

    /// No more requests are read than have arrived; connections end when their replies are sent, or at `deadline`.
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
