//! Wakes a task in such a way that a panic in its waker does not stop the thread that wakes it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Wakes a task. If its executor panics, the panic hook reports the panic, and this function
/// catches it.
///
/// A waker runs code of the embedding program. The calling thread has other tasks to wake, and may
/// already be unwinding from a panic, so a panic in the waker must not propagate.
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
    // Dropping the panic payload could panic again, so forget it.
    std::mem::forget(woken.err());
}
