//! Batches of writes, and ingests.

use crate::detached::DetachedValue;
use crate::errors::{detached, exception};
use crate::keyspace::{RawKeyspace, time};
use crate::snapshot::released;
use alluvium::WriteBatch;
use alluvium_handles::{IngestHandle, Result};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyIterator;

/// Writes that take effect together.
#[pyclass(subclass, frozen, module = "alluvium._alluvium")]
pub(crate) struct RawBatch {
    batch: Mutex<WriteBatch>,
}

impl RawBatch {
    pub(crate) fn with<T>(&self, body: impl FnOnce(&mut WriteBatch) -> Result<T>) -> Result<T> {
        body(&mut self.batch.lock())
    }
}

#[pymethods]
impl RawBatch {
    #[new]
    #[pyo3(signature = (durability=None))]
    fn new(durability: Option<&str>) -> PyResult<RawBatch> {
        let batch = match durability {
            None => WriteBatch::new(),
            Some(text) => {
                let durability = text
                    .parse()
                    .map_err(|error: alluvium::Error| exception(&error.into()))?;
                WriteBatch::new().durability(durability)
            }
        };
        Ok(RawBatch {
            batch: Mutex::new(batch),
        })
    }

    #[pyo3(signature = (keyspace, key, value, expires_ms=0))]
    fn put(
        &self,
        py: Python<'_>,
        keyspace: &RawKeyspace,
        key: &[u8],
        value: &[u8],
        expires_ms: u64,
    ) -> PyResult<()> {
        detached(py, || {
            let keyspace = keyspace.handle.inner()?;
            self.with(|batch| {
                match expires_ms {
                    0 => batch.put(keyspace, key, value)?,
                    ms => batch.put_until(keyspace, key, value, time(ms)?)?,
                };
                Ok(())
            })
        })
    }

    #[pyo3(signature = (keyspace, key, at_ms=0))]
    fn delete(&self, py: Python<'_>, keyspace: &RawKeyspace, key: &[u8], at_ms: u64) -> PyResult<()> {
        detached(py, || {
            let keyspace = keyspace.handle.inner()?;
            self.with(|batch| {
                match at_ms {
                    0 => batch.delete(keyspace, key)?,
                    ms => batch.delete_at(keyspace, key, time(ms)?)?,
                };
                Ok(())
            })
        })
    }

    #[pyo3(signature = (keyspace, start=None, stop=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        keyspace: &RawKeyspace,
        start: Option<&[u8]>,
        stop: Option<&[u8]>,
    ) -> PyResult<()> {
        detached(py, || {
            let keyspace = keyspace.handle.inner()?;
            self.with(|batch| {
                batch.delete_range(keyspace, start.unwrap_or_default(), stop)?;
                Ok(())
            })
        })
    }

    fn merge(&self, py: Python<'_>, keyspace: &RawKeyspace, key: &[u8], operand: &[u8]) -> PyResult<()> {
        detached(py, || {
            let keyspace = keyspace.handle.inner()?;
            self.with(|batch| {
                batch.merge(keyspace, key, operand)?;
                Ok(())
            })
        })
    }

    fn __len__(&self) -> usize {
        self.batch.lock().len()
    }

    fn clear(&self) {
        self.batch.lock().clear();
    }
}

/// A load of records in the order of their keys.
#[pyclass(frozen, name = "Ingest", module = "alluvium._alluvium")]
pub(crate) struct RawIngest {
    handle: DetachedValue<Mutex<Option<IngestHandle>>>,
}

impl RawIngest {
    pub(crate) fn new(handle: IngestHandle) -> RawIngest {
        RawIngest {
            handle: DetachedValue::new(Mutex::new(Some(handle))),
        }
    }

    fn with<T>(&self, body: impl FnOnce(&IngestHandle) -> Result<T>) -> Result<T> {
        body(self.handle.lock().as_ref().ok_or_else(released)?)
    }
}

#[pymethods]
impl RawIngest {
    fn put(&self, py: Python<'_>, key: &[u8], value: &[u8]) -> PyResult<()> {
        detached(py, || self.with(|ingest| ingest.put(key, value)))
    }

    /// Adds all pairs of an iterable.
    fn put_many(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<()> {
        for pair in PyIterator::from_object(pairs)? {
            let (key, value): (PyBackedBytes, PyBackedBytes) = pair?.extract()?;
            detached(py, || self.with(|ingest| ingest.put(&key, &value)))?;
        }
        Ok(())
    }

    /// Makes all records visible. Returns their number.
    fn finish(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || self.with(IngestHandle::finish))
    }

    /// Ends the ingest. What was not finished is not written.
    fn release(&self, py: Python<'_>) {
        py.detach(|| drop(self.handle.lock().take()));
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (kind=None, _error=None, _trace=None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<Bound<'_, PyAny>>,
        _error: Option<Bound<'_, PyAny>>,
        _trace: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let finished = if kind.is_none() {
            self.finish(py).map(drop)
        } else {
            Ok(())
        };
        self.release(py);
        finished
    }
}
