//! Values that are dropped without the interpreter.

use pyo3::prelude::*;
use std::ops::Deref;

/// A value whose drop may wait for a thread of the store, such as the last handle of a store. That
/// thread may wait for the interpreter, to wake a coroutine, so the drop must not have it (P1).
pub(crate) struct DetachedValue<T: Send>(Option<T>);

impl<T: Send> DetachedValue<T> {
    pub(crate) fn new(value: T) -> DetachedValue<T> {
        DetachedValue(Some(value))
    }
}

impl<T: Send> Deref for DetachedValue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<T: Send> Drop for DetachedValue<T> {
    fn drop(&mut self) {
        let mut value = self.0.take();
        let attached = Python::try_attach(|py| py.detach(|| drop(value.take())));
        if attached.is_none() {
            drop(value);
        }
    }
}
