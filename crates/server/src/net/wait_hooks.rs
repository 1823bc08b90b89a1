//! Hooks for threads that are about to wait for the store, so that other threads can take over
//! their work.
//!
//! A serving thread registers its hook once with [`on_wait`], and calls [`begin`] for each
//! connection that it serves. Readers check memory first, and use [`wait_for`] for data that must
//! be read from the device. Code that cannot tell beforehand whether it will wait, such as a walk,
//! holds [`may_wait`].

use alluvium::GatheredReads;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// The hook of a thread that may wait for the device.
pub(crate) trait OnWait {
    /// Called before the thread waits.
    fn about_to_wait(&self);

    /// Called when the thread starts or stops being likely to wait.
    fn may_wait(&self, may: bool);
}

thread_local! {
    static ON_WAIT: RefCell<Option<Rc<dyn OnWait>>> = const { RefCell::new(None) };
    /// Whether the hook was called for the current task, so that it is called once per task.
    static IS_TOLD: Cell<bool> = const { Cell::new(false) };
    /// Number of live [`MayWait`] guards of this thread.
    static WATCHED: Cell<u32> = const { Cell::new(0) };
    /// Unparks this thread. Created once for each thread, because a waker is allocated.
    static WAKER: Waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
}

struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<ThreadWaker>) {
        self.0.unpark();
    }
}

/// Sets or removes the hook of this thread.
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

/// Begins a new task on this thread.
pub(crate) fn begin() {
    IS_TOLD.set(false);
}

/// Announces that this thread will wait now, usually for the device.
pub(crate) fn about_to_wait() {
    // Other clients served by this thread wait for the gathered reads; submit them first.
    GatheredReads::hand_over();
    if !IS_TOLD.replace(true) {
        tell(|on_wait| on_wait.about_to_wait());
    }
}

/// A guard that marks its thread as possibly waiting for the device.
#[derive(Debug)]
pub(crate) struct MayWait(());

/// Marks this thread as possibly waiting for the device until the guard is dropped.
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

/// Blocks on a future that becomes ready when the device has completed a read.
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
