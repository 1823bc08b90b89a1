//! Waking tasks from a thread on which other tasks depend.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Wakes a task. If the executor of the task panics, the panic is caught here, after the panic hook
/// has reported it.
///
/// A waker contains code of the embedding program. The calling thread must also wake other tasks,
/// and may already be unwinding from a panic. A panic of the waker must therefore not propagate.
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
    // Forget the payload of the panic instead of dropping it, since dropping it could panic again.
    std::mem::forget(woken.err());
}
