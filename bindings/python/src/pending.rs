//! Reads and writes that a coroutine waits for.

use crate::detached::DetachedValue;
use crate::errors::exception;
use crate::keyspace::value;
use alluvium::{GetFuture, WriteFuture};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

enum PendingCall {
    Read(Box<GetFuture>),
    Write(WriteFuture),
    Done,
}

/// A read or a write that may not be done yet.
#[pyclass(frozen, module = "alluvium._alluvium")]
pub(crate) struct Pending {
    call: DetachedValue<Mutex<PendingCall>>,
}

/// Calls a Python function when the store has made progress.
struct PythonWaker {
    wake: Mutex<Option<Py<PyAny>>>,
}

impl Wake for PythonWaker {
    fn wake(self: Arc<Self>) {
        let Some(wake) = self.wake.lock().take() else {
            return;
        };
        // At the end of the interpreter, no coroutine waits any more.
        let _ = Python::try_attach(|py| {
            if let Err(error) = wake.call0(py) {
                error.write_unraisable(py, None);
            }
        });
    }
}

impl Pending {
    pub(crate) fn read(future: GetFuture) -> Pending {
        Pending {
            call: DetachedValue::new(Mutex::new(PendingCall::Read(Box::new(future)))),
        }
    }

    pub(crate) fn write(future: WriteFuture) -> Pending {
        Pending {
            call: DetachedValue::new(Mutex::new(PendingCall::Write(future))),
        }
    }
}

#[pymethods]
impl Pending {
    /// Returns whether the call is done, and its result. Otherwise `wake` is called later, once, in
    /// another thread.
    fn poll(&self, py: Python<'_>, wake: Py<PyAny>) -> PyResult<(bool, Py<PyAny>)> {
        let waker = Waker::from(Arc::new(PythonWaker {
            wake: Mutex::new(Some(wake)),
        }));
        let polled = py.detach(|| {
            let mut context = Context::from_waker(&waker);
            let mut call = self.call.lock();
            let polled = match &mut *call {
                PendingCall::Read(future) => Pin::new(future).poll(&mut context),
                PendingCall::Write(future) => Pin::new(future)
                    .poll(&mut context)
                    .map(|done| done.map(|()| None)),
                PendingCall::Done => Poll::Ready(Ok(None)),
            };
            if polled.is_ready() {
                *call = PendingCall::Done;
            }
            polled
        });
        match polled {
            Poll::Pending => Ok((false, py.None())),
            Poll::Ready(Ok(found)) => {
                let found = value(py, found).map_or_else(|| py.None(), |bytes| bytes.into_any().unbind());
                Ok((true, found))
            }
            Poll::Ready(Err(error)) => Err(exception(&error.into())),
        }
    }
}
