//! Synchronisation primitives of the lock manager, either the real ones or those of the model
//! checker.

use std::time::Instant;

#[cfg(not(alluvium_model_check))]
mod real {
    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Instant;

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock()
    }

    /// Waits until the condition variable is notified or the deadline is reached. Returns false if
    /// the deadline was reached.
    pub(crate) fn wait<'m, T>(
        condvar: &Condvar,
        mut guard: MutexGuard<'m, T>,
        deadline: Option<Instant>,
    ) -> (MutexGuard<'m, T>, bool) {
        let has_time = match deadline {
            Some(deadline) => !condvar.wait_until(&mut guard, deadline).timed_out(),
            None => {
                condvar.wait(&mut guard);
                true
            }
        };
        (guard, has_time)
    }
}

#[cfg(alluvium_model_check)]
mod checked {
    pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    use std::time::Instant;

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }

    /// The model checker has no clock, so the deadline is never reached.
    pub(crate) fn wait<'m, T>(
        condvar: &Condvar,
        guard: MutexGuard<'m, T>,
        _deadline: Option<Instant>,
    ) -> (MutexGuard<'m, T>, bool) {
        (condvar.wait(guard).unwrap(), true)
    }
}

#[cfg(alluvium_model_check)]
use checked as chosen;
#[cfg(not(alluvium_model_check))]
use real as chosen;

pub(super) use chosen::{AtomicU64, Ordering};

/// Number of condition variables. Waiters are distributed over them, so that waking one of hundreds
/// of threads does not wake all of them.
const SPREAD: usize = 64;

/// A value protected by a mutex, and threads that wait for it to change. A number identifies each
/// waiting thread.
#[derive(Debug)]
pub(super) struct Monitor<T> {
    value: chosen::Mutex<T>,
    changed: [chosen::Condvar; SPREAD],
    /// Owners that are delayed because they hold no locks wait on this condition variable.
    calm: chosen::Condvar,
}

impl<T> Monitor<T> {
    pub(super) fn new(value: T) -> Monitor<T> {
        Monitor {
            value: chosen::Mutex::new(value),
            changed: std::array::from_fn(|_| chosen::Condvar::new()),
            calm: chosen::Condvar::new(),
        }
    }

    pub(super) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        act(&mut chosen::lock(&self.value))
    }

    fn place(&self, number: u64) -> &chosen::Condvar {
        &self.changed[(number % SPREAD as u64) as usize]
    }

    /// Wakes the waiting threads with these numbers, each of which checks its condition again.
    pub(super) fn wake(&self, numbers: &[u64]) {
        for &number in numbers {
            // Notify all, because threads with other numbers may share this condition variable.
            self.place(number).notify_all();
        }
    }

    /// Wakes one owner that is delayed because it holds no locks.
    pub(super) fn wake_held_back(&self) {
        self.calm.notify_one();
    }

    /// Waits until `is_calm` returns true or the deadline is reached. Returns what `is_calm`
    /// returned last.
    pub(super) fn wait_for_calm(&self, deadline: Instant, is_calm: impl Fn(&T) -> bool) -> bool {
        let mut guard = chosen::lock(&self.value);
        let mut has_time = true;
        while has_time && !is_calm(&guard) {
            (guard, has_time) = chosen::wait(&self.calm, guard, Some(deadline));
        }
        is_calm(&guard)
    }

    /// Waits until `look` returns a result, and returns it. The thread is woken under `number`.
    /// Returns `None` if there is no result by the deadline.
    pub(super) fn wait<R>(
        &self,
        number: u64,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut T) -> Option<R>,
    ) -> Option<R> {
        let mut guard = chosen::lock(&self.value);
        loop {
            if let Some(found) = look(&mut guard) {
                return Some(found);
            }
            let (again, has_time) = chosen::wait(self.place(number), guard, deadline);
            guard = again;
            if !has_time {
                return look(&mut guard);
            }
        }
    }
}
