//! Stores.

use crate::batch::RawBatch;
use crate::detached::DetachedValue;
use crate::errors::detached;
use crate::pending::Pending;
use crate::snapshot::RawSnapshot;
use crate::transaction::RawTransaction;
use alluvium::{Options, TransactionOptions};
use alluvium_handles::{ClosePolicy, StoreHandle, check_json, keyspaces_json, repair_json, stats_json};
use pyo3::prelude::*;
use std::path::PathBuf;

/// An open store.
#[pyclass(subclass, frozen, module = "alluvium._alluvium")]
pub(crate) struct RawStore {
    pub(crate) handle: DetachedValue<StoreHandle>,
}

#[pymethods]
impl RawStore {
    #[new]
    #[pyo3(signature = (path=None, options=""))]
    fn new(py: Python<'_>, path: Option<PathBuf>, options: &str) -> PyResult<RawStore> {
        let handle = detached(py, || {
            let options: Options = options.parse()?;
            StoreHandle::open(path.as_deref(), &options)
        })?;
        Ok(RawStore {
            handle: DetachedValue::new(handle),
        })
    }

    /// Closes the store.
    #[pyo3(signature = (force=false))]
    fn close(&self, py: Python<'_>, force: bool) -> PyResult<()> {
        let policy = if force {
            ClosePolicy::Force
        } else {
            ClosePolicy::WhenUnused
        };
        detached(py, || self.handle.close(policy))
    }

    /// Whether the store was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.handle.db().is_err()
    }

    /// The number of live scans, snapshots, transactions and ingests.
    #[getter]
    fn live(&self) -> usize {
        self.handle.live()
    }

    fn drop_keyspace(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        detached(py, || Ok(self.handle.db()?.drop_keyspace(name)?))
    }

    fn rename_keyspace(&self, py: Python<'_>, old: &str, new: &str) -> PyResult<()> {
        detached(py, || Ok(self.handle.db()?.rename_keyspace(old, new)?))
    }

    fn _keyspaces(&self, py: Python<'_>) -> PyResult<String> {
        detached(py, || Ok(keyspaces_json(self.handle.db()?)))
    }

    fn _stats(&self, py: Python<'_>) -> PyResult<String> {
        detached(py, || Ok(stats_json(&self.handle.db()?.stats())))
    }

    fn _check(&self, py: Python<'_>) -> PyResult<String> {
        detached(py, || Ok(check_json(&self.handle.db()?.check_report(|_| ())?)))
    }

    fn write(&self, py: Python<'_>, batch: &RawBatch) -> PyResult<()> {
        detached(py, || batch.with(|batch| self.handle.write(batch)))
    }

    fn _start_write(&self, py: Python<'_>, batch: &RawBatch) -> PyResult<Pending> {
        detached(py, || {
            batch.with(|batch| Ok(Pending::write(self.handle.db()?.write_async(batch.clone()))))
        })
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || Ok(self.handle.db()?.sync()?))
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || Ok(self.handle.db()?.checkpoint()?))
    }

    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || Ok(self.handle.db()?.compact()?))
    }

    fn backup(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        detached(py, || {
            self.handle.db()?.checkpoint_to(&path)?;
            Ok(())
        })
    }

    #[pyo3(signature = (name=None))]
    fn _snapshot(&self, py: Python<'_>, name: Option<&str>) -> PyResult<RawSnapshot> {
        let handle = detached(py, || match name {
            None => self.handle.snapshot(),
            Some(name) => self.handle.create_snapshot(name),
        })?;
        Ok(RawSnapshot::new(handle))
    }

    fn _open_snapshot(&self, py: Python<'_>, name: &str) -> PyResult<RawSnapshot> {
        Ok(RawSnapshot::new(detached(py, || {
            self.handle.open_snapshot(name)
        })?))
    }

    fn remove_snapshot(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        detached(py, || Ok(self.handle.db()?.remove_snapshot(name)?))
    }

    #[pyo3(signature = (options=""))]
    fn _begin(&self, py: Python<'_>, options: &str) -> PyResult<RawTransaction> {
        let handle = detached(py, || {
            let options: TransactionOptions = options.parse()?;
            self.handle.begin(&options)
        })?;
        Ok(RawTransaction {
            handle: DetachedValue::new(handle),
        })
    }
}

/// Creates a store from a backup.
#[pyfunction]
pub(crate) fn restore(py: Python<'_>, source: PathBuf, target: PathBuf) -> PyResult<()> {
    detached(py, || Ok(alluvium::restore(&source, &target)?))
}

/// Repairs a damaged store that is not open. Returns a report as JSON.
#[pyfunction]
pub(crate) fn repair(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    detached(py, || Ok(repair_json(&alluvium::repair(&path)?)))
}
