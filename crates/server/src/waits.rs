//! What a thread does before it waits for the store: it lets others have what it would hold up.
//!
//! A thread that serves connections says by [`on_wait`] what that is, once, and by [`begin`] when
//! it serves another. A reader asks memory first, and waits by [`wait_for`] for what is not there.
//! Where it cannot be known beforehand, as in walks, [`may_wait`] says that it may be so.

use alluvium::GatheredReads;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// What is to be done for a thread that waits.
pub(crate) trait OnWait {
    /// It will wait now.
    fn about_to_wait(&self);

    /// From now on it may wait, or not any more.
    fn may_wait(&self, may: bool);
}

thread_local! {
    static ON_WAIT: RefCell<Option<Rc<dyn OnWait>>> = const { RefCell::new(None) };
    /// Whether it was said already, so that it is not said twice of one task.
    static IS_TOLD: Cell<bool> = const { Cell::new(false) };
    /// How many ask at the moment to be watched.
    static WATCHED: Cell<u32> = const { Cell::new(0) };
    /// Wakes this thread.
    static WAKER: Waker = Waker::from(Arc::new(Unpark(std::thread::current())));
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// From now on this is done when this thread waits.
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

/// This thread begins with another task.
pub(crate) fn begin() {
    IS_TOLD.set(false);
}

/// This thread will wait now, for the device as a rule.
pub(crate) fn about_to_wait() {
    // Others that this thread has served wait for their reads meanwhile.
    GatheredReads::hand_over();
    if !IS_TOLD.replace(true) {
        tell(|on_wait| on_wait.about_to_wait());
    }
}

/// As long as it lives its thread may wait for the device.
#[derive(Debug)]
pub(crate) struct MayWait(());

/// This thread may wait for the device until the guard goes.
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

/// What comes of a future that is ready when the device has brought something.
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
    struct Seen {
        waits: Cell<u32>,
        watched: Cell<bool>,
    }

    impl OnWait for Seen {
        fn about_to_wait(&self) {
            self.waits.set(self.waits.get() + 1);
        }

        fn may_wait(&self, may: bool) {
            self.watched.set(may);
        }
    }

    #[test]
    fn a_future_that_is_ready_is_not_waited_for_and_another_is_announced_once() {
        let seen = Rc::new(Seen::default());
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
        let seen = Rc::new(Seen::default());
        on_wait(Some(Rc::clone(&seen) as Rc<dyn OnWait>));
        let outer = may_wait();
        drop(may_wait());
        assert!(seen.watched.get());
        drop(outer);
        assert!(!seen.watched.get());
    }
}
