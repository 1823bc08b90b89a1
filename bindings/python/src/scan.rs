//! Iterators over records, which fetch pages.

use crate::detached::DetachedValue;
use crate::errors::detached;
use crate::snapshot::released;
use alluvium_handles::{Result, WalkDirection, WalkHandle, WalkRange, page};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyTuple};
use std::ops::Bound as Limit;

const AFTER_START: u32 = 1;
const THROUGH_STOP: u32 = 2;
const PREFIX: u32 = 4;
const REVERSE: u32 = 8;
const KEYS: u32 = 16;
const UNORDERED: u32 = 32;
const VALUES: u32 = 64;

/// A range of keys, as Python gives it.
pub(crate) struct ScanRange<'a> {
    pub(crate) start: Option<&'a [u8]>,
    pub(crate) stop: Option<&'a [u8]>,
    pub(crate) flags: u32,
}

impl ScanRange<'_> {
    pub(crate) fn with<T>(&self, body: impl FnOnce(&WalkRange<'_>) -> Result<T>) -> Result<T> {
        let has = |flag: u32| self.flags & flag != 0;
        let prefix_end;
        let (start, end) = if has(PREFIX) {
            let prefix = self.start.unwrap_or_default();
            prefix_end = WalkRange::end_of_prefix(prefix);
            let end = prefix_end.as_deref().map_or(Limit::Unbounded, Limit::Excluded);
            (Limit::Included(prefix), end)
        } else {
            let start = match self.start {
                None => Limit::Unbounded,
                Some(key) if has(AFTER_START) => Limit::Excluded(key),
                Some(key) => Limit::Included(key),
            };
            let end = match self.stop {
                None => Limit::Unbounded,
                Some(key) if has(THROUGH_STOP) => Limit::Included(key),
                Some(key) => Limit::Excluded(key),
            };
            (start, end)
        };
        body(&WalkRange {
            start,
            end,
            omits_values: has(KEYS),
            is_unordered: has(UNORDERED),
        })
    }
}

/// Size of the first page, and of those after it, in bytes. The first is short, because many scans
/// read few records.
const FIRST_PAGE: usize = 4 << 10;
const PAGE: usize = 64 << 10;

/// The key, the value, or both of a record. They are made while the scan is locked, for which no
/// other code of Python may run; a tuple is made later, because it may run the garbage collector.
struct ScanItem<'py> {
    key: Option<Bound<'py, PyBytes>>,
    value: Option<Bound<'py, PyBytes>>,
}

impl<'py> ScanItem<'py> {
    /// Splits the first record off a page. Returns also the length of the rest.
    fn split(py: Python<'py>, page: &[u8], flags: u32) -> Option<(ScanItem<'py>, usize)> {
        let (key, value, rest) = page::next_record(page)?;
        let item = ScanItem {
            key: (flags & VALUES == 0).then(|| PyBytes::new(py, key)),
            value: (flags & KEYS == 0).then(|| PyBytes::new(py, value)),
        };
        Some((item, rest.len()))
    }

    fn shown(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match (self.key, self.value) {
            (Some(key), Some(value)) => Ok(PyTuple::new(py, [key, value])?.into_any()),
            (Some(key), None) => Ok(key.into_any()),
            (None, Some(value)) => Ok(value.into_any()),
            (None, None) => Ok(py.None().into_bound(py)),
        }
    }
}

struct ScanState {
    /// `None` after the end of the range, or when the scan was released.
    walk: Option<WalkHandle>,
    page: Vec<u8>,
    /// The records of the page that were not returned yet.
    at: usize,
    filled: usize,
    is_over: bool,
}

/// An iterator over the records of a range. It fetches pages, and gives what it holds of the store
/// back at its end.
#[pyclass(frozen, module = "alluvium._alluvium")]
pub(crate) struct Scan {
    state: DetachedValue<Mutex<ScanState>>,
    flags: u32,
}

impl Scan {
    pub(crate) fn new(walk: WalkHandle, flags: u32) -> Scan {
        Scan {
            state: DetachedValue::new(Mutex::new(ScanState {
                walk: Some(walk),
                page: Vec::new(),
                at: 0,
                filled: 0,
                is_over: false,
            })),
            flags,
        }
    }
}

impl Scan {
    /// Fetches a page, unless the last one has records left. Returns whether there are records.
    fn fetch(&self, py: Python<'_>) -> PyResult<bool> {
        let direction = match self.flags & REVERSE {
            0 => WalkDirection::Forward,
            _ => WalkDirection::Backward,
        };
        detached(py, || {
            let mut state = self.state.lock();
            Ok(state.at < state.filled || state.fetch(direction)?)
        })
    }
}

impl ScanState {
    /// Takes the next record of the page.
    fn item<'py>(&mut self, py: Python<'py>, flags: u32) -> Option<ScanItem<'py>> {
        let (item, rest) = ScanItem::split(py, &self.page[self.at..self.filled], flags)?;
        self.at = self.filled - rest;
        Some(item)
    }

    /// Fetches the next page. Returns whether there is one.
    fn fetch(&mut self, direction: WalkDirection) -> Result<bool> {
        if self.is_over {
            return Ok(false);
        }
        let walk = self.walk.as_ref().ok_or_else(released)?;
        let size = if self.page.is_empty() { FIRST_PAGE } else { PAGE };
        self.page.resize(size.max(self.page.len()), 0);
        loop {
            let extent = walk.fill(direction, &mut self.page)?;
            if extent.records == 0 && extent.bytes > self.page.len() {
                self.page.resize(extent.bytes, 0);
                continue;
            }
            (self.at, self.filled) = (0, extent.bytes);
            if extent.records == 0 {
                self.is_over = true;
                self.walk = None;
                self.page = Vec::new();
                self.filled = 0;
            }
            return Ok(extent.records > 0);
        }
    }
}

#[pymethods]
impl Scan {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            // A page is fetched without the interpreter, and other threads wait for it there.
            let item = self
                .state
                .try_lock()
                .and_then(|mut state| state.item(py, self.flags));
            if let Some(item) = item {
                return item.shown(py).map(Some);
            }
            if !self.fetch(py)? {
                return Ok(None);
            }
        }
    }

    /// Returns the rest of the page, or the next page, as a list, or `None` at the end.
    fn _chunk<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        if !self.fetch(py)? {
            return Ok(None);
        }
        let list = PyList::empty(py);
        let Some((page, mut at, filled)) = self.state.try_lock().map(|mut state| {
            let taken = (std::mem::take(&mut state.page), state.at, state.filled);
            (state.at, state.filled) = (0, 0);
            taken
        }) else {
            return Ok(Some(list));
        };
        while let Some((item, rest)) = ScanItem::split(py, &page[at..filled], self.flags) {
            at = filled - rest;
            list.append(item.shown(py)?)?;
        }
        if let Some(mut state) = self.state.try_lock()
            && state.page.is_empty()
        {
            state.page = page;
        }
        Ok(Some(list))
    }

    /// Fills a bytearray with the next records, in the layout of a page of the C interface. Returns
    /// the number of records and of bytes. If there are no records, the number of bytes is what the
    /// next one needs, or 0 at the end.
    #[pyo3(signature = (buffer, reverse=false))]
    fn readinto(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyByteArray>,
        reverse: bool,
    ) -> PyResult<(usize, usize)> {
        let direction = if reverse {
            WalkDirection::Backward
        } else {
            WalkDirection::Forward
        };
        let mut copy = vec![0; buffer.len()];
        let extent = detached(py, || {
            let state = self.state.lock();
            if state.is_over {
                return Ok(alluvium_handles::PageExtent::default());
            }
            state
                .walk
                .as_ref()
                .ok_or_else(released)?
                .fill(direction, &mut copy)
        })?;
        if extent.records > 0 {
            if buffer.len() < extent.bytes {
                return Err(PyValueError::new_err(
                    "the bytearray was made shorter by another thread",
                ));
            }
            // SAFETY: this thread is attached, the length was compared, and no other code runs
            // until the bytes are copied.
            unsafe { buffer.as_bytes_mut()[..extent.bytes].copy_from_slice(&copy[..extent.bytes]) };
        }
        Ok((extent.records, extent.bytes))
    }

    /// Moves to the first key that is not less than `key`.
    fn seek(&self, py: Python<'_>, key: &[u8]) -> PyResult<()> {
        detached(py, || {
            let mut state = self.state.lock();
            state.walk.as_ref().ok_or_else(released)?.seek(key)?;
            (state.at, state.filled, state.is_over) = (0, 0, false);
            Ok(())
        })
    }

    /// Gives back what the scan holds of the store.
    fn release(&self, py: Python<'_>) {
        py.detach(|| {
            let mut state = self.state.lock();
            drop(state.walk.take());
            (state.at, state.filled) = (0, 0);
        });
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) {
        self.release(py);
    }
}
