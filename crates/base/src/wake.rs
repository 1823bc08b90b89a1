//! How a task is woken by a thread that other tasks depend on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Wakes a task. A panic of its executor ends here, after the panic hook has told it.
///
/// A waker is code of the program. The thread that wakes a task has more tasks to wake, and may be
/// unwinding already.
///
/// ```
/// use std::sync::Arc;
/// use std::task::{Wake, Waker};
/// struct Panics;
/// impl Wake for Panics {
///     fn wake(self: Arc<Self>) {
///         panic!("the executor is broken");
///     }
/// }
/// alluvium_base::wake(Waker::from(Arc::new(Panics)));
/// ```
pub fn wake(waker: Waker) {
    let woken = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    // What a panic carries may panic again when it is dropped.
    std::mem::forget(woken.err());
}
