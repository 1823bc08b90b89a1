//! Transactions.

use crate::detached::DetachedValue;
use crate::errors::detached;
use crate::keyspace::{RawKeyspace, time, value};
use crate::scan::{Scan, ScanRange};
use alluvium::Durability;
use alluvium_handles::{HandleError, TransactionHandle, TransactionRead};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A transaction.
#[pyclass(subclass, frozen, module = "alluvium._alluvium")]
pub(crate) struct RawTransaction {
    pub(crate) handle: DetachedValue<TransactionHandle>,
}

#[pymethods]
impl RawTransaction {
    /// Whether the transaction has neither been committed nor rolled back.
    #[getter]
    fn is_open(&self) -> bool {
        self.handle.is_open()
    }

    #[pyo3(signature = (keyspace, key, read="tracked"))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        keyspace: &RawKeyspace,
        key: &[u8],
        read: &str,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = detached(py, || {
            let read = match read {
                "tracked" => TransactionRead::Tracked,
                "untracked" => TransactionRead::Untracked,
                "shared" => TransactionRead::Shared,
                "update" => TransactionRead::ForUpdate,
                other => {
                    let text = format!("{other:?} is none of tracked, untracked, shared, update");
                    return Err(HandleError::argument(text));
                }
            };
            self.handle.get(&keyspace.handle, key, read)
        })?;
        Ok(value(py, found))
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
            self.handle.with(|transaction| match expires_ms {
                0 => Ok(transaction.put(keyspace, key, value)?),
                ms => Ok(transaction.put_until(keyspace, key, value, time(ms)?)?),
            })
        })
    }

    #[pyo3(signature = (keyspace, key, at_ms=0))]
    fn delete(&self, py: Python<'_>, keyspace: &RawKeyspace, key: &[u8], at_ms: u64) -> PyResult<()> {
        detached(py, || {
            let keyspace = keyspace.handle.inner()?;
            self.handle.with(|transaction| match at_ms {
                0 => Ok(transaction.delete(keyspace, key)?),
                ms => Ok(transaction.delete_at(keyspace, key, time(ms)?)?),
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
            let start = start.unwrap_or_default();
            self.handle
                .with(|transaction| Ok(transaction.delete_range(keyspace, start, stop)?))
        })
    }

    fn merge(&self, py: Python<'_>, keyspace: &RawKeyspace, key: &[u8], operand: &[u8]) -> PyResult<()> {
        detached(py, || {
            let keyspace = keyspace.handle.inner()?;
            self.handle
                .with(|transaction| Ok(transaction.merge(keyspace, key, operand)?))
        })
    }

    #[pyo3(signature = (keyspace, start=None, stop=None, flags=0))]
    fn _depend(
        &self,
        py: Python<'_>,
        keyspace: &RawKeyspace,
        start: Option<&[u8]>,
        stop: Option<&[u8]>,
        flags: u32,
    ) -> PyResult<()> {
        let range = ScanRange { start, stop, flags };
        detached(py, || {
            range.with(|range| self.handle.depend_on_range(&keyspace.handle, range))
        })
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
            range.with(|range| self.handle.walk(&keyspace.handle, range))
        })?;
        Ok(Scan::new(walk, flags))
    }

    /// Marks a place to return to. Returns its number.
    fn savepoint(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || self.handle.savepoint())
    }

    fn rollback_to(&self, py: Python<'_>, savepoint: u64) -> PyResult<()> {
        detached(py, || self.handle.rollback_to(savepoint))
    }

    fn release(&self, py: Python<'_>, savepoint: u64) -> PyResult<()> {
        detached(py, || self.handle.release(savepoint))
    }

    #[pyo3(signature = (durability=None))]
    fn commit(&self, py: Python<'_>, durability: Option<&str>) -> PyResult<()> {
        detached(py, || {
            let durability = durability.map(str::parse::<Durability>).transpose()?;
            self.handle.commit(durability)
        })
    }

    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.handle.rollback())
    }
}
