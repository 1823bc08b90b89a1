//! Hooks that run before a thread waits for the store, so that other threads can take over the rest
//! of its work.
//!
//! A serving thread registers its hook once with [`on_wait`], and calls [`begin`] before it serves
//! each connection. A read looks for its data in memory first, and calls [`wait_for`] only if it
//! must read from the device. Code that cannot predict whether it will wait, such as a scan, holds
//! a guard from [`may_wait`].

use alluvium::GatheredReads;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// The hook that a thread registers to be notified before it waits for the device.
pub(crate) trait OnWait {
    /// Called before the thread starts to wait.
    fn about_to_wait(&self);

    /// Called with true when the thread enters code that may wait, and with false when it leaves
    /// that code.
    fn may_wait(&self, may: bool);
}

thread_local! {
    static ON_WAIT: RefCell<Option<Rc<dyn OnWait>>> = const { RefCell::new(None) };
    /// Whether the hook has been called for the current task. It runs at most once per task.
    static IS_TOLD: Cell<bool> = const { Cell::new(false) };
    /// Number of [`MayWait`] guards that this thread currently holds.
    static WATCHED: Cell<u32> = const { Cell::new(0) };
    /// A waker that unparks this thread. Created only once per thread, because creating a waker
    /// allocates memory.
    static WAKER: Waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
}

struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<ThreadWaker>) {
        self.0.unpark();
    }
}

/// Sets the hook of the current thread, or removes it if `what` is `None`.
pub(crate) fn on_wait(what: Option<Rc<dyn OnWait>>) {
    ON_WAIT.set(what);
}

fn tell(what: impl FnOnce(&dyn OnWait)) {
    ON_WAIT.with_borrow(|on_wait| {
        if let Some(on_wait) = on_wait {
            what(&**on_wait);
        }
    });
}

/// Marks the beginning of a new task on the current thread.
pub(crate) fn begin() {
    IS_TOLD.set(false);
}

/// Announces that the current thread is about to wait, usually for the device.
pub(crate) fn about_to_wait() {
    // Submit the gathered reads first, because other clients of this thread are waiting for them.
    GatheredReads::hand_over();
    if !IS_TOLD.replace(true) {
        tell(|on_wait| on_wait.about_to_wait());
    }
}

/// A guard that marks the current thread as possibly waiting for the device.
#[derive(Debug)]
pub(crate) struct MayWait(());

/// Marks the current thread as possibly waiting for the device until the returned guard is dropped.
pub(crate) fn may_wait() -> MayWait {
    WATCHED.set(WATCHED.get() + 1);
    if WATCHED.get() == 1 {
        tell(|on_wait| on_wait.may_wait(true));
    }
    MayWait(())
}

impl Drop for MayWait {
    fn drop(&mut self) {
        WATCHED.set(WATCHED.get() - 1);
        if WATCHED.get() == 0 {
            tell(|on_wait| on_wait.may_wait(false));
        }
    }
}

/// Blocks the current thread until a future is ready, which is when the device has completed a
/// read.
pub(crate) fn wait_for<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    WAKER.with(|waker| {
        let mut context = Context::from_waker(waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            about_to_wait();
            std::thread::park();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct WaitRecorder {
        waits: Cell<u32>,
        watched: Cell<bool>,
    }

    impl OnWait for WaitRecorder {
        fn about_to_wait(&self) {
            self.waits.set(self.waits.get() + 1);
        }

        fn may_wait(&self, may: bool) {
            self.watched.set(may);
        }
    }

    #[test]
    fn a_future_that_is_ready_is_not_waited_for_and_another_is_announced_once() {
        let seen = Rc::new(WaitRecorder::default());
        on_wait(Some(Rc::clone(&seen) as Rc<dyn OnWait>));
        assert_eq!(wait_for(std::future::ready(5)), 5);
        assert_eq!(seen.waits.get(), 0);
        let mut left = 3;
        let slow = std::future::poll_fn(|context| {
            left -= 1;
            context.waker().wake_by_ref();
            if left == 0 { Poll::Ready(7) } else { Poll::Pending }
        });
        assert_eq!(wait_for(slow), 7);
        assert_eq!(seen.waits.get(), 1);
        begin();
        about_to_wait();
        about_to_wait();
        assert_eq!(seen.waits.get(), 2);
    }

    #[test]
    fn who_is_watched_twice_is_watched_until_both_are_done() {
        let seen = Rc::new(WaitRecorder::default());
        on_wait(Some(Rc::clone(&seen) as Rc<dyn OnWait>));
        let outer = may_wait();
        drop(may_wait());
        assert!(seen.watched.get());
        drop(outer);
        assert!(!seen.watched.get());
    }
}
