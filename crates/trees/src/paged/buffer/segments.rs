//! Page allocation in a file. The file consists of segments, each a quarter longer than the one
//! before, and each with its own free list (thesis, section 5.2).

use super::format::PageFileSuperblock;
use crate::paged::error::too_many_pages;
use alluvium_storage::Result;
use std::collections::BTreeSet;
use std::ops::Range;

/// Number of pages in the first segment of a file.
pub const FIRST_SEGMENT: u64 = 64;
/// Maximum number of segments of a file, enough for more than 10¹³ pages if the first segment has
/// 64.
pub(super) const MOST_SEGMENTS: usize = 120;
const _: () = assert!(FIRST_SEGMENT >= 4, "a segment is longer than the one before");

/// The segments of a file and its free pages. This type does no I/O: the page buffer grows the file
/// to [`FileSegments::pages`] pages before it uses them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileSegments {
    first: u64,
    /// For each segment, the number of the first page after it.
    ends: Vec<u64>,
    /// For each segment, its free pages. The last page in the vector is the first on the free list.
    free: Vec<Vec<u64>>,
    /// The high-water mark: every page that was ever allocated has a lower number.
    high_water: u64,
    /// All segments with a lower index have no free pages.
    first_free: usize,
    /// Pages whose allocation failed after they had been given a number.
    returned: Vec<u64>,
    /// Number of pages that fit into the file. If the disk was nearly full, the segments have more
    /// pages than that.
    backed: u64,
    /// Free pages whose space may have been released to the file system.
    holes: BTreeSet<u64>,
}

impl FileSegments {
    /// Creates the segments of an empty file. `first` is the number of pages in the first segment.
    pub(super) fn new(first: u64) -> FileSegments {
        assert!(first >= 4, "a segment is longer than the one before");
        FileSegments {
            first,
            ends: Vec::new(),
            free: Vec::new(),
            high_water: 0,
            first_free: 0,
            returned: Vec::new(),
            backed: 0,
            holes: BTreeSet::new(),
        }
    }

    /// Creates the segments of a file from its superblock. The file has space for `backed` pages.
    /// The free lists are still empty. Returns `None` if the superblock does not match the file.
    pub(super) fn of(superblock: &PageFileSuperblock, backed: u64) -> Option<FileSegments> {
        if superblock.first_segment < 4 || superblock.first_segment > 1 << 32 {
            return None;
        }
        let mut segments = FileSegments::new(superblock.first_segment);
        for _ in 0..superblock.free.len() {
            segments.ends.push(segments.next_end()?);
            segments.free.push(Vec::new());
        }
        segments.high_water = superblock.high_water;
        segments.backed = backed.min(segments.pages());
        (superblock.high_water <= segments.backed).then_some(segments)
    }

    /// Returns the number of pages in all segments.
    pub(super) fn pages(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the high-water mark: every page that was ever allocated has a lower number.
    pub(super) fn high_water(&self) -> u64 {
        self.high_water
    }

    /// Returns the number of pages that can be allocated before more space is needed. The count may
    /// stop once it has reached `most`.
    pub(super) fn spare(&self, most: u64) -> u64 {
        assert!(self.high_water <= self.backed, "pages lie in the file");
        let free = match self.holes.is_empty() {
            true => self.free_count(),
            // Count free pages only up to the first, in allocation order, that may have no space.
            false => {
                let ready = self.free_in_order().take_while(|page| !self.holes.contains(page));
                ready.take(most as usize).count() as u64
            }
        };
        self.backed - self.high_water + free
    }

    pub(super) fn free_count(&self) -> u64 {
        self.free.iter().map(|free| free.len() as u64).sum()
    }

    /// Returns the number of pages that fit into the file.
    pub(super) fn backed(&self) -> u64 {
        self.backed
    }

    /// Sets the number of pages that fit into the file.
    pub(super) fn note_backed(&mut self, pages: u64) {
        assert!(
            self.backed <= pages && pages <= self.pages(),
            "the file grows within its segments"
        );
        self.backed = pages;
    }

    /// Returns the number of free pages whose space has not been released.
    pub(super) fn free_with_space(&self) -> usize {
        self.free_count() as usize - self.holes.len()
    }

    /// Marks free pages whose space has been released, or may have been.
    pub(super) fn note_holes(&mut self, pages: impl IntoIterator<Item = u64>) {
        for page in pages {
            assert!(page < self.high_water, "a free page was in use before");
            self.holes.insert(page);
        }
    }

    /// Returns whether the space of a page may have been released.
    pub(super) fn is_hole(&self, page: u64) -> bool {
        self.holes.contains(&page)
    }

    /// Returns the free pages in the order in which they will be allocated.
    pub(super) fn free_in_order(&self) -> impl Iterator<Item = u64> {
        self.free.iter().flat_map(|list| list.iter().rev().copied())
    }

    /// Returns up to `most` of the free pages whose space may have been released, as ranges of page
    /// numbers. The pages that will be allocated first are chosen.
    pub(super) fn first_holes(&self, most: u64) -> Vec<Range<u64>> {
        let holes = self.free_in_order().filter(|page| self.holes.contains(page));
        let mut holes: Vec<u64> = holes.take(most as usize).collect();
        holes.sort_unstable();
        let rows = holes.chunk_by(|one, next| one + 1 == *next);
        rows.filter_map(|row| Some(*row.first()?..row.last()? + 1))
            .collect()
    }

    /// Marks pages as having space again.
    pub(super) fn fill_holes(&mut self, pages: Range<u64>) {
        pages.for_each(|page| {
            self.holes.remove(&page);
        });
    }

    /// Returns the page number at which the next segment ends. Segment i has ⌈first × 1.25^i⌉
    /// pages. Returns `None` if there can be no further segment.
    pub(super) fn next_end(&self) -> Option<u64> {
        if self.ends.len() == MOST_SEGMENTS {
            return None;
        }
        let len = (self.first as f64 * 1.25f64.powi(self.ends.len() as i32)).ceil() as u64;
        self.pages().checked_add(len)
    }

    /// Returns the page number at which the segments end once the next one has been added.
    ///
    /// # Errors
    /// An error if the file already has its maximum size.
    pub(super) fn grown(&self) -> Result<u64> {
        self.next_end().ok_or_else(|| too_many_pages(self.pages()))
    }

    /// Adds a segment that ends at page number `end`. The caller must then grow the file.
    pub(super) fn add(&mut self, end: u64) {
        assert!(end > self.pages(), "segments are behind each other");
        self.ends.push(end);
        self.free.push(Vec::new());
        debug_assert!(self.backed < end, "the file grows next");
    }

    /// Allocates a free page or a page that was never used. Returns `None` if the file must grow
    /// first.
    pub(super) fn take(&mut self) -> Option<u64> {
        if let Some(page) = self.returned.pop() {
            return Some(page);
        }
        while let Some(free) = self.free.get_mut(self.first_free) {
            if let Some(&page) = free.last() {
                assert!(page < self.high_water, "a free page was in use before");
                if self.holes.contains(&page) && self.high_water < self.backed {
                    break;
                }
                free.pop();
                return Some(page);
            }
            self.first_free += 1;
        }
        let page = self.high_water;
        (page < self.backed).then(|| {
            self.high_water += 1;
            page
        })
    }

    /// Takes back an allocated page that could not get a frame. It will be the next page to be
    /// allocated, unless [`FileSegments::take_returned`] removes it for a checkpoint.
    pub(super) fn give_up(&mut self, page: u64) {
        assert!(page < self.high_water, "the page was taken");
        self.returned.push(page);
    }

    /// Removes and returns a page that was passed to [`FileSegments::give_up`], if there is one.
    pub(super) fn take_returned(&mut self) -> Option<u64> {
        self.returned.pop()
    }

    /// Adds a page to its segment's free list. Returns the next page on that list, if there is one.
    pub(super) fn give_back(&mut self, page: u64) -> Option<u64> {
        let segment = self.segment_of(page);
        let next = self.free[segment].last().copied();
        assert!(
            page < self.high_water && next != Some(page),
            "page {page} is in use (PB7)"
        );
        self.free[segment].push(page);
        self.first_free = self.first_free.min(segment);
        next
    }

    /// Sets the free list of a segment. The last page in `pages` is the first on the list.
    ///
    /// # Errors
    /// Returns a description of the error if the list is invalid.
    pub(super) fn set_free(&mut self, segment: usize, pages: Vec<u64>) -> std::result::Result<(), String> {
        assert!(segment < self.ends.len(), "the segment exists");
        if let Some(page) = pages.iter().find(|page| **page >= self.high_water) {
            return Err(format!("page {page}, which was never in use"));
        }
        if let Some(page) = pages.iter().find(|page| self.segment_of(**page) != segment) {
            return Err(format!("page {page}, which belongs to another segment"));
        }
        let mut sorted = pages.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("a page twice".to_owned());
        }
        self.free[segment] = pages;
        self.first_free = 0;
        Ok(())
    }

    /// Returns the first page and the length of each segment's free list.
    pub(super) fn heads(&self) -> Vec<(Option<u64>, u64)> {
        let heads = self
            .free
            .iter()
            .map(|free| (free.last().copied(), free.len() as u64));
        heads.collect()
    }

    /// Returns the numbers of all free pages, sorted.
    pub(super) fn free_pages(&self) -> Vec<u64> {
        let mut pages = self.free.concat();
        pages.sort_unstable();
        pages
    }

    /// Returns the number of pages in the first segment.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    fn segment_of(&self, page: u64) -> usize {
        assert!(page < self.pages(), "page {page} is in a segment");
        self.ends.partition_point(|end| *end <= page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(pages: u64) -> (FileSegments, usize) {
        let mut segments = FileSegments::new(FIRST_SEGMENT);
        let mut growths = 0;
        for expected in 0..pages {
            let page = segments.take().unwrap_or_else(|| {
                let end = segments.grown().unwrap();
                segments.add(end);
                segments.note_backed(end);
                growths += 1;
                segments.take().unwrap()
            });
            assert_eq!(page, expected, "pages never used come in order");
        }
        (segments, growths)
    }

    #[test]
    fn the_file_grows_a_logarithmic_number_of_times() {
        let (segments, growths) = grown(100_000);
        // 64 × (1.25^k − 1) / 0.25 ≥ 100,000 from k = 26.8 onwards.
        assert_eq!(growths, 27);
        assert!(segments.pages() >= 100_000 && segments.pages() < 130_000);
        assert_eq!(&segments.ends[..4], [64, 144, 244, 369]);
    }

    #[test]
    fn free_pages_come_back_before_new_ones_the_last_first() {
        let (mut segments, _) = grown(200);
        assert_eq!(segments.give_back(150), None);
        assert_eq!(
            segments.give_back(160),
            Some(150),
            "the head of the segment's list follows"
        );
        assert_eq!(segments.give_back(3), None);
        assert_eq!(segments.give_back(5), Some(3));
        assert_eq!(segments.heads(), [(Some(5), 2), (None, 0), (Some(160), 2)]);
        let taken: Vec<u64> = (0..5).filter_map(|_| segments.take()).collect();
        assert_eq!(taken, [5, 3, 160, 150, 200]);
    }

    #[test]
    #[should_panic(expected = "is in use")]
    fn a_page_is_not_given_back_twice() {
        let (mut segments, _) = grown(9);
        segments.give_back(4);
        segments.give_back(4);
    }

    #[test]
    fn free_lists_from_a_file_are_not_trusted() {
        let (mut segments, _) = grown(100);
        assert!(segments.set_free(0, vec![1, 2, 1]).unwrap_err().contains("twice"));
        assert!(
            segments
                .set_free(0, vec![70])
                .unwrap_err()
                .contains("another segment")
        );
        assert!(
            segments
                .set_free(1, vec![100])
                .unwrap_err()
                .contains("never in use")
        );
        segments.set_free(1, vec![70, 69]).unwrap();
        assert_eq!(segments.take(), Some(69));
    }

    #[test]
    fn pages_that_may_be_without_space_are_not_spare() {
        let (mut segments, _) = grown(140);
        for page in [3, 9, 10, 11, 80] {
            segments.give_back(page);
        }
        assert_eq!(segments.spare(99), 5 + 4);
        segments.note_holes([9, 10, 11]);
        // Pages 3 and 80 are allocated after pages 9 to 11, which have no space, so they are not
        // counted.
        assert!(segments.spare(99) == 4 && segments.is_hole(10) && !segments.is_hole(3));
        assert_eq!(segments.free_in_order().collect::<Vec<u64>>(), [11, 10, 9, 3, 80]);
        let two = segments.first_holes(2);
        assert!(
            two.len() == 1 && two[0] == (10..12),
            "those that are taken first: {two:?}"
        );
        segments.fill_holes(10..12);
        let left = segments.first_holes(9);
        assert!(segments.spare(99) == 2 + 4 && left.len() == 1 && left[0] == (9..10));
        segments.fill_holes(9..10);
        assert_eq!((segments.spare(99), segments.first_holes(9)), (5 + 4, vec![]));
        segments.note_holes([11]);
        let end = segments.grown().unwrap();
        segments.add(end);
        assert_eq!(segments.spare(99), 4, "the file did not grow");
        segments.note_backed(150);
        assert_eq!((segments.spare(99), segments.backed()), (4 + 6, 150));
        let taken: Vec<u64> = (0..11).filter_map(|_| segments.take()).collect();
        assert_eq!(taken, [140, 141, 142, 143, 144, 145, 146, 147, 148, 149, 11]);
    }

    #[test]
    fn there_is_a_last_segment() {
        let mut segments = FileSegments::new(FIRST_SEGMENT);
        while let Ok(end) = segments.grown() {
            segments.add(end);
        }
        assert_eq!(segments.ends.len(), MOST_SEGMENTS);
        assert!(segments.pages() > 10_000_000_000_000);
    }
}
