//! Builds a filter in one pass over sorted entries. Pages are produced in order, so that the caller
//! can write them sequentially.

use super::geometry::FilterGeometry;
use super::page_layout::PagePlacer;
use super::spill::{CountedEntry, write_pages};
use crate::{Error, FilterEntry};

/// Statistics of a filter built by a [`FilterBuilder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildStats {
    /// Number of entries, in which each occurrence of an entry counts.
    pub entries: u64,
    pub distinct: u64,
    /// Total number of pages, including spill pages.
    pub pages: u32,
    /// Number of records that did not fit in their pages.
    pub spilled: u32,
}

/// Builds the pages of a filter from sorted entries: first the [`FilterGeometry::pages`] main
/// pages, and then the spill pages. It needs memory for one page and for the spilled records.
///
/// ```
/// use alluvium_filters::{FilterBuilder, FilterEntry, Error, FilterGeometry, FilterShape, hash};
/// let geometry = FilterGeometry::for_entries(1000, FilterShape::new(36, 4))?;
/// let mut entries: Vec<FilterEntry> = (0u32..1000)
///     .map(|key| FilterEntry::new(geometry.fingerprint(hash(0, &key.to_le_bytes())), 3))
///     .collect();
/// alluvium_filters::sort(&mut entries);
///
/// let mut file = Vec::new();
/// let mut builder = FilterBuilder::new(geometry, |page: &[u8]| -> Result<(), Error> {
///     file.extend_from_slice(page);
///     Ok(())
/// });
/// for entry in entries {
///     builder.push(entry, 1)?;
/// }
/// let built = builder.finish()?;
/// assert_eq!(built.entries, 1000);
/// assert_eq!(file.len(), built.pages as usize * 4096);
/// # Ok::<(), alluvium_filters::Error>(())
/// ```
#[derive(Debug)]
pub struct FilterBuilder<S> {
    geometry: FilterGeometry,
    sink: S,
    placer: PagePlacer,
    /// The most recently pushed entry, which is not in the page yet because it may occur again.
    held: Option<CountedEntry>,
    spilled: Vec<CountedEntry>,
    entries: u64,
    distinct: u64,
}

impl<S> FilterBuilder<S> {
    /// Creates a filter builder, which passes each completed page to `sink`.
    pub fn new<E>(geometry: FilterGeometry, sink: S) -> FilterBuilder<S>
    where
        S: FnMut(&[u8]) -> Result<(), E>,
        E: From<Error>,
    {
        FilterBuilder {
            geometry,
            sink,
            placer: PagePlacer::new(&geometry, 0),
            held: None,
            spilled: Vec::new(),
            entries: 0,
            distinct: 0,
        }
    }

    /// Returns the geometry of the filter being built.
    #[must_use]
    pub fn geometry(&self) -> &FilterGeometry {
        &self.geometry
    }

    /// Appends an entry that occurs `count` times. Entries must be pushed in ascending order. If an
    /// entry equals the previous one, their counts are added.
    ///
    /// # Errors
    /// [`Error::Order`], [`Error::Value`] or [`Error::Count`] if the entry is invalid; errors from
    /// the sink.
    #[inline]
    pub fn push<E>(&mut self, entry: FilterEntry, count: u32) -> Result<(), E>
    where
        S: FnMut(&[u8]) -> Result<(), E>,
        E: From<Error>,
    {
        if let Some(held) = &mut self.held {
            if held.entry >= entry || count == 0 {
                return held.add(entry, count).map_err(E::from);
            }
            let held = *held;
            self.place(held)?;
        }
        if count > 0 {
            self.held = Some(CountedEntry { entry, count });
        }
        Ok(())
    }

    #[inline(always)]
    fn place<E>(&mut self, counted: CountedEntry) -> Result<(), E>
    where
        S: FnMut(&[u8]) -> Result<(), E>,
        E: From<Error>,
    {
        let (fingerprint, value) = (counted.entry.fingerprint(), counted.entry.value());
        let bits = self.geometry.value_bits;
        if u32::from(value) >> bits != 0 {
            return Err(Error::Value { value, bits }.into());
        }
        let bits = self.geometry.fingerprint_bits;
        if fingerprint.0 << bits != 0 {
            let found = 64 - fingerprint.0.trailing_zeros();
            return Err(Error::FingerprintBits {
                expected: bits,
                found,
            }
            .into());
        }
        let page = self.geometry.page_of(fingerprint);
        while self.placer.number() < page {
            self.finish_page()?;
        }
        let place = self.geometry.place(fingerprint);
        self.placer.push(&self.geometry, place, value, counted.count);
        self.entries += u64::from(counted.count);
        self.distinct += 1;
        Ok(())
    }

    fn finish_page<E>(&mut self) -> Result<(), E>
    where
        S: FnMut(&[u8]) -> Result<(), E>,
    {
        let (page, spilled) = self.placer.finish(&self.geometry, self.spilled.len() as u32);
        (self.sink)(page)?;
        self.spilled.extend_from_slice(spilled);
        self.placer.restart(&self.geometry, self.placer.number() + 1);
        Ok(())
    }

    /// Passes the remaining pages to the sink and returns the statistics.
    ///
    /// # Errors
    /// Errors from the sink.
    pub fn finish<E>(mut self) -> Result<BuildStats, E>
    where
        S: FnMut(&[u8]) -> Result<(), E>,
        E: From<Error>,
    {
        if let Some(held) = self.held.take() {
            self.place(held)?;
        }
        while self.placer.number() < self.geometry.pages {
            self.finish_page()?;
        }
        let spill_pages = write_pages(&self.geometry, &self.spilled, &mut self.sink)?;
        Ok(BuildStats {
            entries: self.entries,
            distinct: self.distinct,
            pages: self.geometry.pages + spill_pages,
            spilled: self.spilled.len() as u32,
        })
    }
}

impl CountedEntry {
    /// Adds `count` to the count of this entry, which must equal `entry`.
    #[cold]
    fn add(&mut self, entry: FilterEntry, count: u32) -> crate::Result<()> {
        if entry < self.entry {
            return Err(Error::Order {
                entry: entry.0,
                last: self.entry.0,
            });
        }
        if entry == self.entry {
            self.count = self
                .count
                .checked_add(count)
                .ok_or(Error::Count { entry: entry.0 })?;
        }
        Ok(())
    }
}
