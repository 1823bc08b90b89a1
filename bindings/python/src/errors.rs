//! Exceptions: each kind of error has a class in `alluvium.errors`.

use alluvium_handles::{HandleError, HandleErrorKind};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The names of all kinds.
pub(crate) fn names() -> Vec<&'static str> {
    HandleErrorKind::all().map(HandleErrorKind::name).collect()
}

/// Returns the exception of an error (P2).
pub(crate) fn exception(error: &HandleError) -> PyErr {
    Python::attach(|py| {
        let class = py.import("alluvium.errors").and_then(|errors| {
            errors
                .getattr("exception_of")?
                .call1((error.kind().name(), error.to_string()))
        });
        match class {
            Ok(exception) => PyErr::from_value(exception),
            Err(_) => PyRuntimeError::new_err(error.to_string()),
        }
    })
}

/// Runs a call of the store without the interpreter (P1).
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    body: impl FnOnce() -> alluvium_handles::Result<T> + Send,
) -> PyResult<T> {
    py.detach(body).map_err(|error| exception(&error))
}
