//! Reads all entries of a page in order.

use super::format::{FilterPageHeader, PageKind, QuotientBlock, slot};
use super::lookup::PageView;
use super::spill::CountedEntry;
use crate::{Error, FilterEntry, Result};

/// Distinct entries in ascending order, with the counts of those that occur more than once.
///
/// Almost every entry occurs only once, so counts are stored separately and an entry takes up only
/// one word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryChunk {
    entries: Vec<FilterEntry>,
    /// Pairs of an entry's index in `entries` and its count, which is 2 or more, in ascending
    /// order.
    repeats: Vec<(u32, u32)>,
}

impl EntryChunk {
    #[must_use]
    pub fn new() -> EntryChunk {
        EntryChunk::default()
    }

    /// Removes all entries, but keeps the memory for reuse.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.repeats.clear();
    }

    /// Appends an entry that occurs `count` times.
    #[inline(always)]
    pub fn push(&mut self, entry: FilterEntry, count: u32) {
        if count != 1 {
            self.repeats.push((self.entries.len() as u32, count));
        }
        self.entries.push(entry);
    }

    /// Returns the distinct entries. Counts greater than 1 are in [`EntryChunk::repeats`].
    #[must_use]
    pub fn entries(&self) -> &[FilterEntry] {
        &self.entries
    }

    /// Returns the entries that occur more than once, as pairs of index and count.
    #[must_use]
    pub fn repeats(&self) -> &[(u32, u32)] {
        &self.repeats
    }

    /// Returns an iterator over the entries and their counts.
    pub fn iter(&self) -> impl Iterator<Item = CountedEntry> + '_ {
        let mut repeats = self.repeats.iter().peekable();
        self.entries.iter().enumerate().map(move |(index, &entry)| {
            let repeat = repeats.next_if(|repeat| repeat.0 as usize == index);
            CountedEntry {
                entry,
                count: repeat.map_or(1, |repeat| repeat.1),
            }
        })
    }
}

impl PageView<'_> {
    /// Appends the entries of page `number` to `chunk`, in ascending order. `spilled` must be the
    /// records that spilled from the page ([`PageView::spilled`]).
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the header belongs to another page, if entries are not in order, or if
    /// an entry belongs to another page. `chunk` may then contain some of the entries.
    pub fn read_into(&self, number: u32, spilled: &[CountedEntry], chunk: &mut EntryChunk) -> Result<()> {
        let geometry = self.geometry;
        let header = FilterPageHeader::read(geometry, self.page, PageKind::Page, number)?;
        if header.records as usize != spilled.len() {
            return Err(Error::corrupt(
                number,
                "spilled records",
                header.records.to_string(),
                spilled.len().to_string(),
            ));
        }
        let begin = chunk.entries.len();
        let mut spilled = spilled.iter().peekable();
        let (mut base, step) = (geometry.block_base(number, 0), geometry.block_step());
        for index in 0..geometry.blocks {
            let Some(block) = QuotientBlock::read(self.page, index) else {
                break;
            };
            self.read_block(block, base, chunk);
            if block.has_spilled() {
                let here = |record: &&CountedEntry| geometry.place(record.entry.fingerprint()).block == index;
                while let Some(record) = spilled.next_if(here) {
                    chunk.push(record.entry, record.count);
                }
            }
            base += step;
        }
        let read = &chunk.entries[begin..];
        let unordered = read
            .iter()
            .zip(read.iter().skip(1))
            .fold(false, |bad, (one, two)| bad | (one >= two));
        // The entries are sorted, so all of them belong to this page if the first and the last do.
        let strange = |entry: &FilterEntry| geometry.page_of(entry.fingerprint()) != number;
        let strangers = read.first().is_some_and(strange) || read.last().is_some_and(strange);
        if unordered || strangers || spilled.next().is_some() {
            let expected = "the page's own, rising, with all that spilled";
            return Err(Error::corrupt(number, "entries", expected, "otherwise"));
        }
        Ok(())
    }

    /// Appends the entries of a block's runs in the page.
    #[inline]
    fn read_block(&self, block: QuotientBlock, base: u128, chunk: &mut EntryChunk) {
        let geometry = self.geometry;
        self.for_each_word(block, |quotient, word, count| {
            let fingerprint = geometry.fingerprint_at(base, quotient, word >> geometry.value_bits);
            chunk.push(FilterEntry::new(fingerprint, geometry.value(word)), count);
        });
    }

    /// Calls `each` with the quotient, word and count of each of a block's entries in the page.
    #[inline(always)]
    pub(super) fn for_each_word(&self, block: QuotientBlock, mut each: impl FnMut(u32, u64, u32)) {
        let (mut occupied, mut ends) = (block.occupied(), block.ends);
        let mut at = block.position();
        while occupied != 0 && ends != 0 {
            let quotient = occupied.trailing_zeros();
            let end = block.position() + ends.trailing_zeros() + 1;
            if end - at == 1 {
                each(quotient, slot(self.geometry, self.page, at), 1);
            } else {
                self.run(at, end)
                    .for_each(|(word, count)| each(quotient, word, count));
            }
            at = end;
            occupied &= occupied - 1;
            ends &= ends - 1;
        }
    }
}
