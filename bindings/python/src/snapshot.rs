//! Snapshots.

use crate::detached::DetachedValue;
use crate::errors::detached;
use crate::keyspace::{RawKeyspace, value};
use crate::scan::{Scan, ScanRange};
use alluvium_handles::{HandleError, HandleErrorKind, Result, SnapshotHandle};
use parking_lot::RwLock;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The store as of one moment.
#[pyclass(subclass, frozen, module = "alluvium._alluvium")]
pub(crate) struct RawSnapshot {
    handle: DetachedValue<RwLock<Option<SnapshotHandle>>>,
}

impl RawSnapshot {
    pub(crate) fn new(handle: SnapshotHandle) -> RawSnapshot {
        RawSnapshot {
            handle: DetachedValue::new(RwLock::new(Some(handle))),
        }
    }

    fn with<T>(&self, body: impl FnOnce(&SnapshotHandle) -> Result<T>) -> Result<T> {
        body(self.handle.read().as_ref().ok_or_else(released)?)
    }
}

/// Returns the error for an object that was released.
pub(crate) fn released() -> HandleError {
    let kind = HandleErrorKind::Store(alluvium::ErrorKind::Closed);
    HandleError::new(kind, "the object was released: create another one")
}

#[pymethods]
impl RawSnapshot {
    /// Releases the snapshot. Its scans read on.
    fn release(&self, py: Python<'_>) {
        py.detach(|| drop(self.handle.write().take()));
    }

    #[getter]
    fn sequence(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || self.with(|snapshot| Ok(snapshot.sequence())))
    }

    fn _get<'py>(
        &self,
        py: Python<'py>,
        keyspace: &RawKeyspace,
        key: &[u8],
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = detached(py, || self.with(|snapshot| snapshot.get(&keyspace.handle, key)))?;
        Ok(value(py, found))
    }

    #[pyo3(signature = (keyspace, start=None, stop=None, flags=0))]
    fn _scan(
        &self,
        py: Python<'_>,
        keyspace: &RawKeyspace,
        start: Option<&[u8]>,
        stop: Option<&[u8]>,
        flags: u32,
    ) -> PyResult<Scan> {
        let range = ScanRange { start, stop, flags };
        let walk = detached(py, || {
            self.with(|snapshot| range.with(|range| keyspace.handle.walk(Some(snapshot), range)))
        })?;
        Ok(Scan::new(walk, flags))
    }
}
