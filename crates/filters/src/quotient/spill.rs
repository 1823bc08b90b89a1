//! Spill pages, which contain sorted records of the entries that did not fit in their main pages.
//!
//! With 4 KiB pages, about one entry in 2,000 spills at a load of 95 %, and one in 10,000 at 90 %.
//! The records of the whole filter are a sorted array across all spill pages. The header of each
//! main page tells which records belong to it.

use super::format::{FilterPageHeader, PageKind, record, records_per_page, write_record};
use super::geometry::FilterGeometry;
use super::values::FingerprintValues;
use crate::{Error, FilterEntry, Fingerprint, Result};
use std::ops::Range;

/// An entry and the number of its occurrences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedEntry {
    pub entry: FilterEntry,
    /// Number of occurrences, which is at least 1.
    pub count: u32,
}

/// View of a spill page, for example in a cache. As in a [`crate::PageView`], the bytes may be
/// invalid.
#[derive(Clone, Copy, Debug)]
pub struct SpillView<'a> {
    geometry: &'a FilterGeometry,
    page: &'a [u8],
    /// Number, within the filter, of the page's first record.
    first: u32,
}

impl FilterGeometry {
    /// Returns the numbers of the pages with the given spilled records
    /// ([`crate::PageView::spilled`]). Spill pages are numbered after the main pages.
    #[must_use]
    pub fn spill_pages(&self, (first, count): (u32, u32)) -> Range<u32> {
        let per_page = records_per_page(self);
        let page = |record: u64| self.pages.saturating_add((record / u64::from(per_page)) as u32);
        if count == 0 {
            return self.pages..self.pages;
        }
        page(first.into())..page(u64::from(first) + u64::from(count) - 1).saturating_add(1)
    }
}

impl<'a> SpillView<'a> {
    /// Creates a view of page `number` of a filter, which must be a spill page.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the bytes are not this spill page.
    pub fn new(geometry: &'a FilterGeometry, page: &'a [u8], number: u32) -> Result<SpillView<'a>> {
        if page.len() != geometry.page_bytes as usize {
            return Err(Error::corrupt(
                number,
                "length",
                geometry.page_bytes.to_string(),
                page.len().to_string(),
            ));
        }
        let header = FilterPageHeader::read(geometry, page, PageKind::Spill, number)?;
        let per_page = records_per_page(geometry);
        let first = number
            .checked_sub(geometry.pages)
            .and_then(|before| before.checked_mul(per_page));
        if first != Some(header.first_record) || header.filled > per_page {
            let expected = format!("{first:?} and at most {per_page}");
            let found = format!("{} and {}", header.first_record, header.filled);
            return Err(Error::corrupt(
                number,
                "first record and records",
                expected,
                found,
            ));
        }
        Ok(SpillView {
            geometry,
            page,
            first: header.first_record,
        })
    }

    /// Returns this page's records whose numbers within the filter are in `first..first + count`.
    pub fn records(&self, (first, count): (u32, u32)) -> impl Iterator<Item = CountedEntry> + use<'a> {
        let page = self.page;
        self.clip(first, count)
            .map_while(move |index| record(page, index).map(|(entry, count)| CountedEntry { entry, count }))
    }

    /// Returns the values of a fingerprint in this spill page. `first` and `count` are the spilled
    /// records of the fingerprint's page. The next spill page may contain more values (see
    /// [`FilterGeometry::spill_pages`]).
    #[must_use]
    pub fn lookup(&self, fingerprint: Fingerprint, (first, count): (u32, u32)) -> FingerprintValues<'a> {
        let Range { start: mut low, end } = self.clip(first, count);
        let mut high = end;
        while low < high {
            let middle = low + (high - low) / 2;
            match record(self.page, middle) {
                Some((entry, _)) if entry.fingerprint() < fingerprint => low = middle + 1,
                _ => high = middle,
            }
        }
        FingerprintValues::in_records(self.geometry, self.page, fingerprint, (low, end))
    }

    fn clip(&self, first: u32, count: u32) -> Range<u32> {
        let per_page = records_per_page(self.geometry);
        let start = first.saturating_sub(self.first).min(per_page);
        start
            ..first
                .saturating_add(count)
                .saturating_sub(self.first)
                .clamp(start, per_page)
    }
}

/// Writes sorted records to spill pages, and passes each page to `sink`. Spill pages are numbered
/// after the last main page. Returns how many there are.
pub(super) fn write_pages<E>(
    geometry: &FilterGeometry,
    records: &[CountedEntry],
    mut sink: impl FnMut(&[u8]) -> std::result::Result<(), E>,
) -> std::result::Result<u32, E> {
    let per_page = records_per_page(geometry);
    let mut pages = 0;
    for chunk in records.chunks(per_page as usize) {
        let mut page = vec![0; geometry.page_bytes as usize];
        for (index, counted) in chunk.iter().enumerate() {
            write_record(&mut page, index as u32, counted.entry, counted.count);
        }
        let header = FilterPageHeader {
            kind: PageKind::Spill,
            number: geometry.pages + pages,
            filled: chunk.len() as u32,
            first_record: pages * per_page,
            records: 0,
        };
        header.write(geometry, &mut page);
        sink(&page)?;
        pages += 1;
    }
    Ok(pages)
}
