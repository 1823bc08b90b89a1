//! Waking a task from a thread that other tasks depend on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Wakes a task. A panic of its executor is caught here, after the panic hook has reported it.
///
/// A waker is code of the embedding program. The calling thread has other tasks to wake and may
/// already be unwinding, so the panic must not propagate.
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
    // Dropping the panic payload could panic again.
    std::mem::forget(woken.err());
}
