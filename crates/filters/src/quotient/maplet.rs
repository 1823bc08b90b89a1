//! A mutable filter in memory, with the same bytes as a [`crate::FilterBuilder`] produces from the
//! same entries.

use super::build::FilterBuilder;
use super::format::{FilterPageHeader, QuotientBlock, move_bits, put_bits, slots_at};
use super::geometry::{BLOCK_SLOTS, FilterGeometry};
use super::image::FilterImage;
use super::lookup::{PageLookup, PageView};
use super::merge::merge;
use super::page_layout::{BlockPlacer, PagePlacer};
use super::scan::EntryChunk;
use super::spill::{CountedEntry, write_pages};
use crate::{Error, FilterEntry, Fingerprint, Result};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// A multiset of entries, which can be added and removed.
///
/// Adding an entry moves all later slots in its page, which are 2 KiB on average for a 4 KiB page.
/// To add many entries, sort them and use a [`FilterBuilder`].
///
/// ```
/// use alluvium_filters::{FilterEntry, FilterGeometry, QuotientMaplet, FilterShape, hash};
/// let geometry = FilterGeometry::for_entries(1000, FilterShape::new(40, 4))?;
/// let mut maplet = QuotientMaplet::new(geometry);
/// let pear = geometry.fingerprint(hash(0, b"pear"));
/// maplet.insert(FilterEntry::new(pear, 2))?;
/// maplet.insert(FilterEntry::new(pear, 2))?;
/// assert_eq!(maplet.count(FilterEntry::new(pear, 2)), 2);
/// assert!(maplet.remove(FilterEntry::new(pear, 2)));
/// assert_eq!(maplet.values(pear), [2]);
/// # Ok::<(), alluvium_filters::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct QuotientMaplet {
    geometry: FilterGeometry,
    /// The main pages, without spill pages. Their headers are complete except for the number of the
    /// first spilled record.
    pages: Vec<u8>,
    spilled: BTreeMap<FilterEntry, u32>,
    entries: u64,
}

impl QuotientMaplet {
    #[must_use]
    pub fn new(geometry: FilterGeometry) -> QuotientMaplet {
        let mut pages = Vec::with_capacity(geometry.bytes() as usize);
        let sink = |page: &[u8]| -> Result<()> {
            pages.extend_from_slice(page);
            Ok(())
        };
        FilterBuilder::new(geometry, sink)
            .finish()
            .expect("an empty filter has nothing that could fail");
        QuotientMaplet {
            geometry,
            pages,
            spilled: BTreeMap::new(),
            entries: 0,
        }
    }

    #[must_use]
    pub fn geometry(&self) -> &FilterGeometry {
        &self.geometry
    }

    /// Returns the number of entries, counting each occurrence.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.entries
    }

    /// Returns whether the filter is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Adds one occurrence of an entry.
    ///
    /// # Errors
    /// [`Error::Value`], [`Error::FingerprintBits`] or [`Error::Count`], in which cases the filter
    /// is unchanged.
    pub fn insert(&mut self, entry: FilterEntry) -> Result<()> {
        let (value, bits) = (entry.value(), self.geometry.value_bits);
        if u32::from(value) >> bits != 0 {
            return Err(Error::Value { value, bits });
        }
        if entry.fingerprint().0 << self.geometry.fingerprint_bits != 0 {
            let found = 64 - entry.fingerprint().0.trailing_zeros();
            return Err(Error::FingerprintBits {
                expected: self.geometry.fingerprint_bits,
                found,
            });
        }
        if !self.apply(entry, |count| count.checked_add(1)) {
            return Err(Error::Count { entry: entry.0 });
        }
        self.entries += 1;
        Ok(())
    }

    /// Removes one occurrence of an entry, or returns false if it is not present.
    pub fn remove(&mut self, entry: FilterEntry) -> bool {
        let removed = self.apply(entry, |count| count.checked_sub(1));
        self.entries -= u64::from(removed);
        removed
    }

    /// Returns how often an entry occurs.
    #[must_use]
    pub fn count(&self, entry: FilterEntry) -> u32 {
        if let Some(&count) = self.spilled.get(&entry) {
            return count;
        }
        let place = self.geometry.place(entry.fingerprint());
        let wanted = (place.quotient, self.geometry.word(place.remainder, entry.value()));
        let content = self.block_content(self.page_of(entry), place.block);
        content
            .iter()
            .find(|found| (found.0, found.1) == wanted)
            .map_or(0, |found| found.2)
    }

    /// Returns the distinct values of a fingerprint, from the newest (the greatest) to the oldest.
    #[must_use]
    pub fn values(&self, fingerprint: Fingerprint) -> Vec<u16> {
        match self.view(self.geometry.page_of(fingerprint)).lookup(fingerprint) {
            PageLookup::InPage(values) => values.collect(),
            PageLookup::Spilled => {
                let all = FilterEntry::new(fingerprint, u16::MAX)..=FilterEntry::new(fingerprint, 0);
                self.spilled.range(all).map(|(entry, _)| entry.value()).collect()
            }
        }
    }

    /// Returns the bytes of all pages, spill pages last, which are the same as a [`FilterBuilder`]
    /// produces from the same entries.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.pages.clone();
        let records: Vec<CountedEntry> = self
            .spilled
            .iter()
            .map(|(&entry, &count)| CountedEntry { entry, count })
            .collect();
        let mut first_record = 0;
        for of_page in records.chunk_by(|one, two| self.page_of(one.entry) == self.page_of(two.entry)) {
            let page = self.page_range(self.page_of(of_page[0].entry));
            FilterPageHeader::set_first_record(&mut bytes[page], first_record);
            first_record += of_page.len() as u32;
        }
        let Ok(_) = write_pages(
            &self.geometry,
            &records,
            |page| -> std::result::Result<(), std::convert::Infallible> {
                bytes.extend_from_slice(page);
                Ok(())
            },
        );
        bytes
    }

    /// Creates a filter from another one's pages.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the pages are not a valid filter.
    pub fn from_image(image: FilterImage<'_>) -> Result<QuotientMaplet> {
        let geometry = *image.geometry();
        let mut maplet = QuotientMaplet::new(geometry);
        let mut chunk = EntryChunk::new();
        for number in 0..geometry.pages {
            image.read_page(number, &mut chunk)?;
            maplet.entries += chunk.iter().map(|counted| u64::from(counted.count)).sum::<u64>();
            maplet.lay_out(number, chunk.iter());
        }
        Ok(maplet)
    }

    /// Returns a filter with the same entries and a different geometry, which may divide
    /// fingerprints differently into quotients and remainders.
    ///
    /// # Errors
    /// [`Error::FingerprintBits`] if the geometry has a different fingerprint length;
    /// [`Error::Value`] if a value is too large for the geometry.
    pub fn resize(&self, geometry: FilterGeometry) -> Result<QuotientMaplet> {
        let (expected, found) = (self.geometry.fingerprint_bits, geometry.fingerprint_bits);
        if expected != found {
            return Err(Error::FingerprintBits { expected, found });
        }
        let (old, mut new) = (self.to_bytes(), Vec::new());
        let mut builder = FilterBuilder::new(geometry, |page: &[u8]| -> Result<()> {
            new.extend_from_slice(page);
            Ok(())
        });
        let source = FilterImage::new(&self.geometry, &old)?.source();
        merge(vec![source], |_, entry| Some(entry.value()), &mut builder)?;
        builder.finish()?;
        QuotientMaplet::from_image(FilterImage::new(&geometry, &new)?)
    }

    fn page_of(&self, entry: FilterEntry) -> u32 {
        self.geometry.page_of(entry.fingerprint())
    }

    fn page_range(&self, number: u32) -> std::ops::Range<usize> {
        let size = self.geometry.page_bytes as usize;
        number as usize * size..(number as usize + 1) * size
    }

    fn view(&self, number: u32) -> PageView<'_> {
        PageView {
            geometry: &self.geometry,
            page: &self.pages[self.page_range(number)],
        }
    }

    /// Returns the range of all possible entries of a page.
    fn entries_of(&self, number: u32) -> RangeInclusive<FilterEntry> {
        let first = self.geometry.first_fingerprint(number);
        let last = match number + 1 < self.geometry.pages {
            true => FilterEntry(self.geometry.first_fingerprint(number + 1).0 - 1),
            false => FilterEntry(u64::MAX),
        };
        FilterEntry::new(first, u16::MAX)..=last
    }

    /// Returns a block's entries that are in its page, as triples of quotient, word and count.
    fn block_content(&self, number: u32, block: u32) -> Vec<(u32, u64, u32)> {
        let view = self.view(number);
        let mut content = Vec::new();
        if let Some(block) = QuotientBlock::read(view.page, block) {
            view.for_each_word(block, |quotient, word, count| {
                content.push((quotient, word, count));
            });
        }
        content
    }

    /// Changes how often an entry occurs. `change` maps the current count to the new one. If it
    /// returns `None`, nothing changes and the result is false.
    fn apply(&mut self, entry: FilterEntry, change: fn(u32) -> Option<u32>) -> bool {
        let Some(count) = change(self.count(entry)) else {
            return false;
        };
        let number = self.page_of(entry);
        let has_spilled = self.spilled.range(self.entries_of(number)).next().is_some();
        if has_spilled || !self.change_block(number, entry, count) {
            self.change_page(number, entry, count);
        }
        true
    }

    /// Changes an entry in its block and moves the later slots of the page. If an entry of the
    /// block would then spill, nothing changes and the result is false.
    fn change_block(&mut self, number: u32, entry: FilterEntry, count: u32) -> bool {
        let geometry = self.geometry;
        let place = geometry.place(entry.fingerprint());
        let mut content = self.block_content(number, place.block);
        let changed = (
            place.quotient,
            geometry.word(place.remainder, entry.value()),
            count,
        );
        let at = content.partition_point(|found| (found.0, found.1) < (changed.0, changed.1));
        let known = content
            .get(at)
            .is_some_and(|found| (found.0, found.1) == (changed.0, changed.1));
        content.splice(at..at + usize::from(known), (count > 0).then_some(changed));

        let (mut placer, mut overflow) = (BlockPlacer::new(), Vec::new());
        for entry in content {
            placer.push(&geometry, BLOCK_SLOTS, entry, &mut overflow);
        }
        let range = self.page_range(number);
        let page = &mut self.pages[range];
        let block = QuotientBlock::read(page, place.block).expect("a page has all its blocks");
        let (filled, old, new) = (
            FilterPageHeader::filled(page),
            block.slots(),
            placer.words().len() as u32,
        );
        if !overflow.is_empty() || filled - old + new > geometry.capacity {
            return false;
        }
        let bits = geometry.slot_bits;
        let bit = |position| slots_at(&geometry, position);
        let position = block.position();
        move_bits(
            page,
            bit(position + old),
            bit(position + new),
            (filled - position - old) * bits,
        );
        for free in filled - old + new..filled {
            put_bits(page, bit(free), bits, 0);
        }
        for (position, &word) in (position..).zip(placer.words()) {
            put_bits(page, bit(position), bits, word);
        }
        placer.block(position).write(page, place.block);
        for later in place.block + 1..geometry.blocks {
            let block = QuotientBlock::read(page, later).expect("a page has all its blocks");
            QuotientBlock::new(block.occupied(), block.position() - old + new, block.ends).write(page, later);
        }
        FilterPageHeader::set_filled(page, filled - old + new);
        true
    }

    /// Changes an entry by rebuilding its whole page, because some entry of the page spills or has
    /// spilled.
    fn change_page(&mut self, number: u32, entry: FilterEntry, count: u32) {
        let spilled = self.take_spilled(number);
        let mut chunk = EntryChunk::new();
        self.view(number)
            .read_into(number, &spilled, &mut chunk)
            .expect("the pages are our own");
        let mut entries: Vec<CountedEntry> = chunk.iter().filter(|counted| counted.entry != entry).collect();
        let at = entries.partition_point(|counted| counted.entry < entry);
        entries.splice(at..at, (count > 0).then_some(CountedEntry { entry, count }));
        self.lay_out(number, entries.into_iter());
    }

    fn take_spilled(&mut self, number: u32) -> Vec<CountedEntry> {
        let range = self.entries_of(number);
        self.spilled
            .extract_if(range, |_, _| true)
            .map(|(entry, count)| CountedEntry { entry, count })
            .collect()
    }

    fn lay_out(&mut self, number: u32, entries: impl Iterator<Item = CountedEntry>) {
        let geometry = self.geometry;
        let mut placer = PagePlacer::new(&geometry, number);
        for CountedEntry { entry, count } in entries {
            placer.push(
                &geometry,
                geometry.place(entry.fingerprint()),
                entry.value(),
                count,
            );
        }
        let range = self.page_range(number);
        let (page, spilled) = placer.finish(&geometry, 0);
        self.pages[range].copy_from_slice(page);
        self.spilled
            .extend(spilled.iter().map(|counted| (counted.entry, counted.count)));
    }
}
