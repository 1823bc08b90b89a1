//! The clock that schedules delayed answers to wrong passwords. The server receives it as a
//! parameter, so that tests can control the time.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A clock that wakes tasks at given times. Tests use one whose time they advance themselves.
pub trait WakeupClock: fmt::Debug + Send + Sync {
    /// Returns the time since an arbitrary origin. Never decreases.
    fn now(&self) -> Duration;

    /// Calls `waker` as soon as [`now`](WakeupClock::now) returns at least `at`.
    fn wake_at(&self, at: Duration, waker: &Waker);
}

/// Returns a future that becomes ready when the clock reaches `time`.
pub(crate) fn at(clock: Arc<dyn WakeupClock>, time: Duration) -> impl Future<Output = ()> + Send {
    let mut is_told = false;
    poll_fn(move |context| {
        if clock.now() >= time {
            return Poll::Ready(());
        }
        if !std::mem::replace(&mut is_told, true) {
            clock.wake_at(time, context.waker());
        }
        Poll::Pending
    })
}

/// Registered wakers, ordered by due time. A counter in the key distinguishes wakers with equal
/// times.
#[derive(Debug, Default)]
struct WakerQueue {
    wakers: BTreeMap<(Duration, u64), Waker>,
    next: u64,
    is_over: bool,
}

/// The operating system's clock. A background thread calls the wakers when they are due.
#[derive(Debug)]
pub(crate) struct SystemClock {
    since: Instant,
    shared: Arc<(Mutex<WakerQueue>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl SystemClock {
    /// Starts the background thread that calls due wakers, and that ends when the clock is dropped.
    pub(crate) fn start() -> io::Result<SystemClock> {
        let since = Instant::now();
        let shared = Arc::<(Mutex<WakerQueue>, Condvar)>::default();
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("alluvium-clock".to_owned())
            .spawn(move || run(since, &own))?;
        Ok(SystemClock {
            since,
            shared,
            thread: Some(thread),
        })
    }
}

fn run(since: Instant, (waiting, changed): &(Mutex<WakerQueue>, Condvar)) {
    let mut waiting = waiting.lock();
    while !waiting.is_over {
        let now = since.elapsed();
        match waiting.wakers.first_entry() {
            None => changed.wait(&mut waiting),
            Some(first) if first.key().0 <= now => first.remove().wake(),
            Some(first) => {
                let left = first.key().0 - now;
                changed.wait_for(&mut waiting, left);
            }
        }
    }
}

impl WakeupClock for SystemClock {
    fn now(&self) -> Duration {
        self.since.elapsed()
    }

    fn wake_at(&self, at: Duration, waker: &Waker) {
        let mut waiting = self.shared.0.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.wakers.insert((at, number), waker.clone());
        self.shared.1.notify_one();
    }
}

impl Drop for SystemClock {
    fn drop(&mut self) {
        self.shared.0.lock().is_over = true;
        self.shared.1.notify_one();
        // A waker can drop the last reference to the clock. The current thread is then the clock's
        // own thread and must not join itself.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the clock thread has panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::task::Wake;

    struct WakeRecorder(u32, mpsc::Sender<u32>);

    impl Wake for WakeRecorder {
        fn wake(self: Arc<WakeRecorder>) {
            self.1.send(self.0).expect("the test listens");
        }
    }

    #[test]
    fn those_who_wait_are_woken_in_the_order_of_their_times_and_never_early() {
        let clock = SystemClock::start().unwrap();
        let (tell, told) = mpsc::channel();
        let now = clock.now();
        for (name, ms) in [(2, 60), (1, 30), (0, 0)] {
            let waker = Waker::from(Arc::new(WakeRecorder(name, tell.clone())));
            clock.wake_at(now + Duration::from_millis(ms), &waker);
        }
        for (name, ms) in [(0, 0), (1, 30), (2, 60)] {
            assert_eq!(told.recv(), Ok(name));
            assert!(clock.now() >= now + Duration::from_millis(ms));
        }
    }
}
