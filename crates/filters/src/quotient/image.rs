//! A complete filter in memory, for tests and for small filters. It shows how pages and spill pages
//! belong together.

use super::format::records_per_page;
use super::geometry::FilterGeometry;
use super::lookup::{FingerprintPresence, PageLookup, PageView};
use super::scan::EntryChunk;
use super::spill::{CountedEntry, SpillView};
use super::values::FingerprintValues;
use crate::{Error, Fingerprint, Result};

/// All pages of a filter, one after another, as a [`crate::FilterBuilder`] produces them.
///
/// ```
/// use alluvium_filters::{
///     FilterEntry, FilterGeometry, FilterImage, FilterShape, QuotientMaplet, hash,
/// };
/// let geometry = FilterGeometry::for_entries(100, FilterShape::new(40, 4))?;
/// let mut maplet = QuotientMaplet::new(geometry);
/// for key in 0u32..100 {
///     maplet.insert(FilterEntry::new(
///         geometry.fingerprint(hash(0, &key.to_le_bytes())),
///         (key % 16) as u16,
///     ))?;
/// }
/// let bytes = maplet.to_bytes();
/// let image = FilterImage::new(&geometry, &bytes)?;
/// let values = image.lookup(geometry.fingerprint(hash(0, &7u32.to_le_bytes())))?;
/// assert_eq!(values.collect::<Vec<_>>(), [7]);
/// # Ok::<(), alluvium_filters::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FilterImage<'a> {
    geometry: &'a FilterGeometry,
    bytes: &'a [u8],
}

impl<'a> FilterImage<'a> {
    /// Creates a view of a complete filter.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the bytes are not a multiple of the page size, or if there are fewer
    /// pages than the geometry requires.
    pub fn new(geometry: &'a FilterGeometry, bytes: &'a [u8]) -> Result<FilterImage<'a>> {
        let whole = bytes.len().is_multiple_of(geometry.page_bytes as usize);
        if !whole || (bytes.len() as u64) < geometry.bytes() {
            let expected = format!(
                "{} pages or more of {} bytes",
                geometry.pages, geometry.page_bytes
            );
            return Err(Error::corrupt(
                0,
                "length of the filter",
                expected,
                format!("{} bytes", bytes.len()),
            ));
        }
        Ok(FilterImage { geometry, bytes })
    }

    #[must_use]
    pub fn geometry(&self) -> &'a FilterGeometry {
        self.geometry
    }

    /// Returns the number of pages, including spill pages.
    #[must_use]
    pub fn pages(&self) -> u32 {
        (self.bytes.len() / self.geometry.page_bytes as usize) as u32
    }

    /// Returns the bytes of a page.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if there is no page with this number.
    #[inline]
    pub fn page(&self, number: u32) -> Result<&'a [u8]> {
        let size = self.geometry.page_bytes as usize;
        let at = number as usize * size;
        match self.bytes.get(at..at + size) {
            Some(page) => Ok(page),
            None => Err(Error::corrupt(
                number,
                "page",
                format!("one of {}", self.pages()),
                "none",
            )),
        }
    }

    /// Returns a view of the page for a fingerprint.
    ///
    /// # Errors
    /// None if the fingerprint belongs to this geometry.
    #[inline]
    pub fn view(&self, fingerprint: Fingerprint) -> Result<PageView<'a>> {
        PageView::new(self.geometry, self.page(self.geometry.page_of(fingerprint))?)
    }

    /// Returns an iterator over the values of a fingerprint.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the page refers to spilled records that are missing.
    #[inline]
    pub fn lookup(&self, fingerprint: Fingerprint) -> Result<ImageValues<'a>> {
        let view = self.view(fingerprint)?;
        match view.lookup(fingerprint) {
            PageLookup::InPage(values) => Ok(ImageValues {
                values,
                image: *self,
                fingerprint,
                more: 0..0,
                spilled: (0, 0),
            }),
            PageLookup::Spilled => self.lookup_spilled(view, fingerprint),
        }
    }

    #[cold]
    fn lookup_spilled(&self, view: PageView<'a>, fingerprint: Fingerprint) -> Result<ImageValues<'a>> {
        let spilled = view.spilled();
        let mut more = self.geometry.spill_pages(spilled);
        let Some(number) = more.next() else {
            let page = self.geometry.page_of(fingerprint);
            return Err(Error::corrupt(page, "spilled records", "some", "none"));
        };
        let values = self.spill_page(number)?.lookup(fingerprint, spilled);
        Ok(ImageValues {
            values,
            image: *self,
            fingerprint,
            more,
            spilled,
        })
    }

    /// Returns whether a fingerprint is present.
    ///
    /// # Errors
    /// The same errors as [`FilterImage::lookup`].
    #[inline]
    pub fn contains(&self, fingerprint: Fingerprint) -> Result<bool> {
        match self.view(fingerprint)?.contains(fingerprint) {
            FingerprintPresence::Absent => Ok(false),
            FingerprintPresence::Present => Ok(true),
            FingerprintPresence::Spilled => Ok(self.lookup(fingerprint)?.next().is_some()),
        }
    }

    fn spill_page(&self, number: u32) -> Result<SpillView<'a>> {
        SpillView::new(self.geometry, self.page(number)?, number)
    }

    /// Returns the records that spilled from a page.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if some of the records are missing.
    pub fn spilled(&self, number: u32) -> Result<Vec<CountedEntry>> {
        let spilled = PageView::new(self.geometry, self.page(number)?)?.spilled();
        let mut records = Vec::new();
        for page in self.geometry.spill_pages(spilled) {
            // This fails at the first missing page, so invalid bytes cannot cause a long loop.
            records.extend(self.spill_page(page)?.records(spilled));
        }
        if records.len() != spilled.1 as usize {
            return Err(Error::corrupt(
                number,
                "spilled records",
                spilled.1.to_string(),
                records.len().to_string(),
            ));
        }
        Ok(records)
    }

    /// Fills `chunk` with all entries of a page, in ascending order.
    ///
    /// # Errors
    /// The same errors as [`PageView::read_into`].
    pub fn read_page(&self, number: u32, chunk: &mut EntryChunk) -> Result<()> {
        chunk.clear();
        let spilled = self.spilled(number)?;
        PageView::new(self.geometry, self.page(number)?)?.read_into(number, &spilled, chunk)
    }

    /// Returns a source of entries for [`crate::merge`]. Each call fills the chunk with the entries
    /// of the next page, and returns false if there are no more pages.
    pub fn source(&self) -> impl FnMut(&mut EntryChunk) -> Result<bool> + use<'a> {
        let (image, mut next) = (*self, 0);
        move |chunk: &mut EntryChunk| {
            if next == image.geometry.pages {
                return Ok(false);
            }
            image.read_page(next, chunk)?;
            next += 1;
            Ok(true)
        }
    }

    /// Returns the maximum number of records in a spill page.
    #[must_use]
    pub fn records_per_page(&self) -> u32 {
        records_per_page(self.geometry)
    }
}

/// Iterator over the values of a fingerprint, including spilled ones.
#[derive(Clone, Debug)]
pub struct ImageValues<'a> {
    values: FingerprintValues<'a>,
    image: FilterImage<'a>,
    fingerprint: Fingerprint,
    more: std::ops::Range<u32>,
    spilled: (u32, u32),
}

impl Iterator for ImageValues<'_> {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        loop {
            if let Some(value) = self.values.next() {
                return Some(value);
            }
            // If a spill page is missing, the iteration ends. `FilterImage::check` reports the
            // missing page.
            let number = self.more.next()?;
            self.values = self
                .image
                .spill_page(number)
                .ok()?
                .lookup(self.fingerprint, self.spilled);
        }
    }
}
