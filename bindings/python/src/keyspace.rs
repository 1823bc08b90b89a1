//! Keyspaces, and reads and writes of single keys.

use crate::batch::RawIngest;
use crate::detached::DetachedValue;
use crate::errors::{detached, exception};
use crate::pending::Pending;
use crate::scan::{Scan, ScanRange};
use crate::store::RawStore;
use alluvium::{KeyspaceOptions, Value, WriteBatch};
use alluvium_handles::{HandleError, KeyspaceHandle, Result, WalkDirection, WalkRange};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyIterator};
use std::time::{Duration, SystemTime};

/// A keyspace, with bytes as keys and values.
#[pyclass(subclass, frozen, module = "alluvium._alluvium")]
pub(crate) struct RawKeyspace {
    pub(crate) handle: DetachedValue<KeyspaceHandle>,
}

/// Returns a value as bytes.
pub(crate) fn value(py: Python<'_>, found: Option<Value>) -> Option<Bound<'_, PyBytes>> {
    found.map(|value| PyBytes::new(py, &value))
}

/// Converts milliseconds since 1970.
pub(crate) fn time(ms: u64) -> Result<SystemTime> {
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms));
    time.ok_or_else(|| HandleError::argument(format!("{ms} ms since 1970 is out of range")))
}

/// Number of records and of bytes that a bulk put writes at once.
const BULK_RECORDS: usize = 4096;
const BULK_BYTES: usize = 1 << 20;

/// Bytes of the records of a page that are counted.
const COUNTED_PAGE: usize = 64 << 10;

#[pymethods]
impl RawKeyspace {
    #[new]
    #[pyo3(signature = (store, name, options=None, existing=false))]
    fn new(
        py: Python<'_>,
        store: &RawStore,
        name: &str,
        options: Option<&str>,
        existing: bool,
    ) -> PyResult<RawKeyspace> {
        let handle = detached(py, || match existing {
            true => store.handle.existing_keyspace(name),
            false => {
                let options = options.map(str::parse::<KeyspaceOptions>).transpose()?;
                store.handle.keyspace(name, options.as_ref())
            }
        })?;
        Ok(RawKeyspace {
            handle: DetachedValue::new(handle),
        })
    }

    /// The name of the keyspace.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        detached(py, || Ok(self.handle.inner()?.name()))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let found = detached(py, || Ok(self.handle.inner()?.get(key)?))?;
        value(py, found).ok_or_else(|| PyKeyError::new_err(PyBytes::new(py, key).unbind()))
    }

    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = detached(py, || Ok(self.handle.inner()?.get(key)?))?;
        Ok(value(py, found).map(Bound::into_any).or(default))
    }

    fn __contains__(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        detached(py, || Ok(self.handle.inner()?.contains(key)?))
    }

    fn __setitem__(&self, py: Python<'_>, key: &[u8], value: &[u8]) -> PyResult<()> {
        detached(py, || Ok(self.handle.inner()?.put(key, value)?))
    }

    #[pyo3(signature = (key, value, expires_ms=0))]
    fn put(&self, py: Python<'_>, key: &[u8], value: &[u8], expires_ms: u64) -> PyResult<()> {
        detached(py, || {
            let keyspace = self.handle.inner()?;
            match expires_ms {
                0 => Ok(keyspace.put(key, value)?),
                ms => Ok(keyspace.put_until(key, value, time(ms)?)?),
            }
        })
    }

    fn __delitem__(&self, py: Python<'_>, key: &[u8]) -> PyResult<()> {
        let found = detached(py, || Ok(self.handle.inner()?.take(key)?))?;
        found
            .map(drop)
            .ok_or_else(|| PyKeyError::new_err(PyBytes::new(py, key).unbind()))
    }

    #[pyo3(signature = (key, at_ms=0))]
    fn delete(&self, py: Python<'_>, key: &[u8], at_ms: u64) -> PyResult<()> {
        detached(py, || {
            let keyspace = self.handle.inner()?;
            match at_ms {
                0 => Ok(keyspace.delete(key)?),
                ms => Ok(keyspace.delete_at(key, time(ms)?)?),
            }
        })
    }

    fn take<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = detached(py, || Ok(self.handle.inner()?.take(key)?))?;
        Ok(value(py, found))
    }

    #[pyo3(signature = (start=None, stop=None))]
    fn delete_range(&self, py: Python<'_>, start: Option<&[u8]>, stop: Option<&[u8]>) -> PyResult<()> {
        detached(py, || {
            Ok(self
                .handle
                .inner()?
                .delete_range(start.unwrap_or_default(), stop)?)
        })
    }

    fn merge(&self, py: Python<'_>, key: &[u8], operand: &[u8]) -> PyResult<()> {
        detached(py, || Ok(self.handle.inner()?.merge(key, operand)?))
    }

    #[pyo3(signature = (key, expected, new))]
    fn compare_and_set(
        &self,
        py: Python<'_>,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> PyResult<bool> {
        detached(py, || {
            Ok(self.handle.inner()?.compare_and_set(key, expected, new)?)
        })
    }

    fn multi_get<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<PyBackedBytes>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let found = detached(py, || Ok(self.handle.inner()?.multi_get(&keys)?))?;
        Ok(found.into_iter().map(|found| value(py, found)).collect())
    }

    /// Puts all pairs of an iterable, in batches that take effect one after the other. Returns
    /// their number.
    #[pyo3(signature = (pairs, durability=None))]
    fn put_many(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>, durability: Option<&str>) -> PyResult<u64> {
        let empty = match durability {
            None => WriteBatch::new(),
            Some(text) => {
                let durability = text
                    .parse()
                    .map_err(|error: alluvium::Error| exception(&error.into()))?;
                WriteBatch::new().durability(durability)
            }
        };
        let keyspace = self.handle.inner().map_err(|error| exception(&error))?;
        let store = self.handle.store();
        let (mut batch, mut bytes, mut count) = (empty, 0, 0);
        let write = |batch: &mut WriteBatch| -> PyResult<()> {
            detached(py, || store.write(batch))?;
            batch.clear();
            Ok(())
        };
        for pair in PyIterator::from_object(pairs)? {
            let (key, value): (PyBackedBytes, PyBackedBytes) = pair?.extract()?;
            bytes += key.len() + value.len();
            count += 1;
            batch
                .put(keyspace, &key, &value)
                .map_err(|error| exception(&error.into()))?;
            if batch.len() >= BULK_RECORDS || bytes >= BULK_BYTES {
                write(&mut batch)?;
                bytes = 0;
            }
        }
        write(&mut batch)?;
        Ok(count)
    }

    /// Puts records of a fixed length that stand one after the other in two buffers.
    fn put_fixed(
        &self,
        py: Python<'_>,
        keys: PyBackedBytes,
        key_size: usize,
        values: PyBackedBytes,
        value_size: usize,
    ) -> PyResult<u64> {
        detached(py, || {
            if key_size == 0 || !keys.len().is_multiple_of(key_size) {
                let text = format!(
                    "{} bytes are no keys of {key_size} bytes: correct the size",
                    keys.len()
                );
                return Err(HandleError::argument(text));
            }
            let count = keys.len() / key_size;
            if Some(values.len()) != value_size.checked_mul(count) {
                let text = format!(
                    "{} bytes are not {count} values of {value_size} bytes: correct the size",
                    values.len()
                );
                return Err(HandleError::argument(text));
            }
            let (keyspace, store) = (self.handle.inner()?, self.handle.store());
            let mut batch = WriteBatch::new();
            for (index, key) in keys.chunks_exact(key_size).enumerate() {
                batch.put(
                    keyspace,
                    key,
                    &values[index * value_size..(index + 1) * value_size],
                )?;
                if batch.len() >= BULK_RECORDS {
                    store.write(&batch)?;
                    batch.clear();
                }
            }
            store.write(&batch)?;
            Ok(count as u64)
        })
    }

    /// Counts the keys, by reading all of them.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        detached(py, || {
            let range = WalkRange {
                omits_values: true,
                is_unordered: true,
                ..WalkRange::default()
            };
            let walk = self.handle.walk(None, &range)?;
            let mut page = vec![0; COUNTED_PAGE + alluvium::MAX_KEY];
            let mut count = 0;
            loop {
                match walk.fill(WalkDirection::Forward, &mut page)?.records {
                    0 => return Ok(count),
                    records => count += records,
                }
            }
        })
    }

    /// Estimates the number of keys, without reading them.
    fn approximate_len(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || Ok(self.handle.inner()?.approximate_len()?))
    }

    #[pyo3(signature = (start=None, stop=None, flags=0))]
    fn _scan(&self, py: Python<'_>, start: Option<&[u8]>, stop: Option<&[u8]>, flags: u32) -> PyResult<Scan> {
        let range = ScanRange { start, stop, flags };
        let walk = detached(py, || range.with(|range| self.handle.walk(None, range)))?;
        Ok(Scan::new(walk, flags))
    }

    /// Begins to load records in the order of their keys.
    fn ingest(&self, py: Python<'_>) -> PyResult<RawIngest> {
        Ok(RawIngest::new(detached(py, || self.handle.ingest())?))
    }

    fn _start_get(&self, py: Python<'_>, key: &[u8]) -> PyResult<Pending> {
        detached(py, || Ok(Pending::read(self.handle.inner()?.get_async(key))))
    }

    fn _start_put(&self, py: Python<'_>, key: &[u8], value: &[u8]) -> PyResult<Pending> {
        detached(py, || {
            Ok(Pending::write(self.handle.inner()?.put_async(key, value)))
        })
    }

    fn _start_delete(&self, py: Python<'_>, key: &[u8]) -> PyResult<Pending> {
        detached(py, || Ok(Pending::write(self.handle.inner()?.delete_async(key))))
    }
}
