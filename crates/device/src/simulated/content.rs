//! A version of a file's bytes, in pages of 4 KiB that versions share until one of them changes
//! (copy on write).
//!
//! A clone costs one reference count, no matter how large the file is. A change copies the page
//! that it modifies and the path to it. Every page stores a sum of its bytes, so the sum of a
//! version is known without reading it.

use alluvium_base::checksum;
use std::ops::Range;
use std::sync::Arc;

/// Size of a page in bytes.
pub(super) const PAGE: u64 = 4096;
/// Size in bytes of a sector, which a crash keeps or loses as a whole.
pub(super) const SECTOR: usize = crate::BLOCK as usize;
/// Number of sectors in a page, each of which is one bit of a mask.
pub(super) const SECTORS: usize = PAGE as usize / SECTOR;
/// Mask of all sectors of a page.
pub(super) const WHOLE: u8 = u8::MAX;
/// Number of pages in a leaf of the tree, each of which is one bit of the leaf's word.
const LEAF: usize = 64;

const _: () = assert!(SECTORS == u8::BITS as usize && LEAF == u64::BITS as usize);

static ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];

/// Folds a value and its place into a term of a sum. Zero, for absent pages and for all zeros,
/// stays zero.
pub(super) fn term(value: u64, place: u64) -> u64 {
    if value == 0 {
        return 0;
    }
    let product = u128::from(value ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        * u128::from(place.wrapping_add(0xd6e8_feb8_6659_fd93) | 1);
    (product >> 64) as u64 ^ product as u64
}

/// 4 KiB of a file, with sums of each sector and of the page.
#[derive(Clone)]
pub(super) struct SimPage {
    bytes: [u8; PAGE as usize],
    sectors: [u64; SECTORS],
    sum: u64,
}

impl SimPage {
    /// Returns a page of zeros.
    pub(super) fn zeroed() -> SimPage {
        SimPage {
            bytes: ZEROS,
            sectors: [0; SECTORS],
            sum: 0,
        }
    }

    pub(super) fn bytes(&self) -> &[u8; PAGE as usize] {
        &self.bytes
    }

    pub(super) fn sum(&self) -> u64 {
        self.sum
    }

    /// Overwrites `at..at + bytes.len()`, and returns the mask of the modified sectors.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) -> u8 {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        let mask = sectors_of(at..at + bytes.len());
        self.refresh(mask);
        mask
    }

    /// Copies the sectors of `mask` from another page.
    fn take(&mut self, mask: u8, from: &SimPage) {
        for sector in 0..SECTORS {
            if mask & 1 << sector != 0 {
                let range = sector * SECTOR..(sector + 1) * SECTOR;
                self.bytes[range.clone()].copy_from_slice(&from.bytes[range]);
                self.sectors[sector] = from.sectors[sector];
            }
        }
        self.total();
    }

    fn refresh(&mut self, mask: u8) {
        for sector in 0..SECTORS {
            if mask & 1 << sector != 0 {
                let bytes = &self.bytes[sector * SECTOR..(sector + 1) * SECTOR];
                let zero = *bytes == ZEROS[..SECTOR];
                // A sum of zero means all zeros, so that a hole equals an allocated page of zeros.
                self.sectors[sector] = if zero { 0 } else { checksum(bytes) | 1 };
            }
        }
        self.total();
    }

    fn total(&mut self) {
        self.sum = (0..SECTORS).fold(0, |sum: u64, sector| {
            sum.wrapping_add(term(self.sectors[sector], sector as u64))
        });
    }
}

/// Returns the mask of the sectors that overlap a range within a page.
pub(super) fn sectors_of(range: Range<usize>) -> u8 {
    if range.is_empty() {
        return 0;
    }
    let (first, last) = (range.start / SECTOR, (range.end - 1) / SECTOR);
    (WHOLE >> (SECTORS - 1 - (last - first))) << first
}

/// Some sectors of a page, as a write left them.
#[derive(Clone)]
pub(super) struct PagePatch {
    pub(super) page: u64,
    pub(super) mask: u8,
    pub(super) data: Arc<SimPage>,
}

/// One change of a file, as the device sees it.
pub(super) enum FileChange {
    /// Sectors were written, by a request or through a mapping.
    Write(Vec<PagePatch>),
    /// The file was extended, and space was allocated for the new range.
    Grow(Range<u64>),
    /// Space was allocated inside the file.
    Allocate(Range<u64>),
    /// The file was shortened to this length.
    Truncate(u64),
    /// The range was deallocated and reads as zeros.
    Punch(Range<u64>),
}

#[derive(Clone)]
struct ContentLeaf {
    allocated: u64,
    pages: [Option<Arc<SimPage>>; LEAF],
}

impl Default for ContentLeaf {
    fn default() -> ContentLeaf {
        ContentLeaf {
            allocated: 0,
            pages: [const { None }; LEAF],
        }
    }
}

/// A version of a file.
#[derive(Clone, Default)]
pub(super) struct FileContent {
    len: u64,
    sum: u64,
    allocated: u64,
    leaves: Arc<Vec<Option<Arc<ContentLeaf>>>>,
}

/// Splits a byte range at page boundaries. Returns each page's number and the range within it.
pub(super) fn pages_of(range: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> {
    let last = if range.is_empty() {
        0
    } else {
        range.end.div_ceil(PAGE)
    };
    (range.start / PAGE..last).map(move |page| {
        let start = range.start.max(page * PAGE) - page * PAGE;
        let end = range.end.min((page + 1) * PAGE) - page * PAGE;
        (page, start as usize..end as usize)
    })
}

impl FileContent {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the allocated space in bytes.
    pub(super) fn allocated(&self) -> u64 {
        self.allocated * PAGE
    }

    /// Returns a sum of the length and of every byte. Equal contents have equal sums.
    pub(super) fn sum(&self) -> u64 {
        self.sum.wrapping_add(term(!self.len, 0x1e57))
    }

    pub(super) fn page(&self, page: u64) -> Option<&Arc<SimPage>> {
        let leaf = self.leaves.get(page as usize / LEAF)?.as_ref()?;
        leaf.pages[page as usize % LEAF].as_ref()
    }

    pub(super) fn read(&self, offset: u64, out: &mut [u8]) {
        for (page, within) in pages_of(offset..offset + out.len() as u64) {
            let to = (page * PAGE + within.start as u64 - offset) as usize;
            let to = &mut out[to..to + within.len()];
            match self.page(page) {
                Some(data) => to.copy_from_slice(&data.bytes[within]),
                None => to.fill(0),
            }
        }
    }

    /// Returns how many bytes a write or an allocation of `range` would have to allocate.
    pub(super) fn missing(&self, range: Range<u64>) -> u64 {
        pages_of(range)
            .filter(|&(page, _)| !self.is_allocated(page))
            .count() as u64
            * PAGE
    }

    fn is_allocated(&self, page: u64) -> bool {
        let leaf = self.leaves.get(page as usize / LEAF).and_then(Option::as_ref);
        leaf.is_some_and(|leaf| leaf.allocated & 1 << (page % LEAF as u64) != 0)
    }

    fn leaf(&mut self, page: u64) -> &mut ContentLeaf {
        let index = page as usize / LEAF;
        let leaves = Arc::make_mut(&mut self.leaves);
        if leaves.len() <= index {
            leaves.resize(index + 1, None);
        }
        Arc::make_mut(leaves[index].get_or_insert_default())
    }

    /// Replaces a page, and updates the sum and the allocation.
    fn swap(&mut self, page: u64, new: Option<Arc<SimPage>>) {
        let added = new.as_ref().map_or(0, |data| term(data.sum, page));
        let bit = 1 << (page % LEAF as u64);
        let leaf = self.leaf(page);
        let fresh = new.is_some() && leaf.allocated & bit == 0;
        if fresh {
            leaf.allocated |= bit;
        }
        let old = std::mem::replace(&mut leaf.pages[page as usize % LEAF], new);
        let removed = old.map_or(0, |data| term(data.sum, page));
        self.sum = self.sum.wrapping_add(added).wrapping_sub(removed);
        self.allocated += u64::from(fresh);
    }

    /// Overwrites the sectors of `mask`.
    pub(super) fn put(&mut self, page: u64, mask: u8, data: &Arc<SimPage>) {
        match mask {
            0 => {}
            WHOLE => self.swap(page, Some(Arc::clone(data))),
            _ => self.edit(page, |own| own.take(mask, data)),
        }
    }

    /// Changes one page with `change`, which must keep the page's sums correct.
    pub(super) fn edit(&mut self, page: u64, change: impl FnOnce(&mut SimPage)) {
        let leaf = self.leaf(page);
        // Take the page out of its slot, so that a page without other owners is changed in place.
        let slot = leaf.pages[page as usize % LEAF].take();
        let before = slot.as_ref().map_or(0, |data| term(data.sum, page));
        let mut data = slot.unwrap_or_else(|| Arc::new(SimPage::zeroed()));
        change(Arc::make_mut(&mut data));
        self.sum = self.sum.wrapping_sub(before);
        self.swap(page, Some(data));
    }

    /// Zeroes a range of bytes. With [`SpaceRelease::Space`], pages entirely inside lose their
    /// space.
    fn zero(&mut self, range: Range<u64>, release: SpaceRelease) {
        let leaf_bytes = LEAF as u64 * PAGE;
        let mut at = range.start;
        while at < range.end {
            let index = (at / leaf_bytes) as usize;
            if index >= self.leaves.len() {
                return;
            }
            let end = range.end.min((index as u64 + 1) * leaf_bytes);
            if self.leaves[index].is_some() {
                for (page, within) in pages_of(at..end) {
                    self.zero_in_page(page, within, release);
                }
            }
            at = end;
        }
    }

    fn zero_in_page(&mut self, page: u64, within: Range<usize>, release: SpaceRelease) {
        if within.len() < PAGE as usize {
            if self.page(page).is_some_and(|data| data.sum != 0) {
                self.edit(page, |data| {
                    data.write(within.start, &ZEROS[within.clone()]);
                });
            }
            return;
        }
        if self.page(page).is_some() {
            self.swap(page, None);
        }
        if release == SpaceRelease::Space && self.is_allocated(page) {
            self.leaf(page).allocated &= !(1 << (page % LEAF as u64));
            self.allocated -= 1;
        }
    }

    fn allocate(&mut self, range: Range<u64>) {
        for (page, _) in pages_of(range) {
            if !self.is_allocated(page) {
                self.leaf(page).allocated |= 1 << (page % LEAF as u64);
                self.allocated += 1;
            }
        }
    }

    /// Sets the length, discarding contents and space beyond the new end.
    pub(super) fn set_len(&mut self, len: u64) {
        self.len = len;
        let end = self.leaves.len() as u64 * LEAF as u64 * PAGE;
        let kept = len.next_multiple_of(PAGE);
        self.zero(len..kept.min(end), SpaceRelease::Nothing);
        self.zero(kept..end, SpaceRelease::Space);
        let leaves = kept.div_ceil(LEAF as u64 * PAGE) as usize;
        if leaves < self.leaves.len() {
            Arc::make_mut(&mut self.leaves).truncate(leaves);
        }
    }

    pub(super) fn apply(&mut self, change: &FileChange) {
        match change {
            FileChange::Write(patches) => {
                for patch in patches {
                    self.put(patch.page, patch.mask, &patch.data);
                }
            }
            FileChange::Grow(range) => {
                self.len = self.len.max(range.end);
                self.allocate(range.clone());
            }
            FileChange::Allocate(range) => self.allocate(range.clone()),
            FileChange::Truncate(len) => self.set_len(*len),
            FileChange::Punch(range) => self.zero(range.clone(), SpaceRelease::Space),
        }
    }

    /// Discards contents beyond the end that were left by a lost change of length.
    pub(super) fn trim(&mut self) {
        let end = self.leaves.len() as u64 * LEAF as u64 * PAGE;
        if end > self.len {
            self.set_len(self.len);
        }
    }

    /// Saves the sectors of `now` that `patch` is about to overwrite in this history of a file.
    pub(super) fn remember(&mut self, now: &FileContent, patch: &PagePatch) {
        match now.page(patch.page) {
            Some(old) => self.put(patch.page, patch.mask, old),
            None if self.page(patch.page).is_none() => {}
            None => self.put(patch.page, patch.mask, &Arc::new(SimPage::zeroed())),
        }
    }
}

/// Whether zeroed pages release their space.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SpaceRelease {
    Space,
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(byte: u8) -> Arc<SimPage> {
        let mut page = SimPage::zeroed();
        page.write(0, &[byte; PAGE as usize]);
        Arc::new(page)
    }

    fn bytes_of(content: &FileContent) -> Vec<u8> {
        let mut bytes = vec![1; content.len() as usize];
        content.read(0, &mut bytes);
        bytes
    }

    #[test]
    fn a_clone_is_another_version_with_its_own_sum() {
        let mut first = FileContent::default();
        first.apply(&FileChange::Grow(0..3 * PAGE));
        first.put(1, WHOLE, &page_of(7));
        let mut second = first.clone();
        assert_eq!(first.sum(), second.sum());
        second.put(1, 0b10, &page_of(9));
        assert_ne!(first.sum(), second.sum());
        assert_eq!(bytes_of(&first)[PAGE as usize..][..1024], [7; 1024]);
        assert_eq!(bytes_of(&second)[PAGE as usize + 512..][..512], [9; 512]);
        second.put(1, 0b10, &page_of(7));
        assert_eq!(first.sum(), second.sum());
    }

    #[test]
    fn a_hole_sums_like_zeros_and_gives_its_space_back() {
        let mut content = FileContent::default();
        content.apply(&FileChange::Grow(0..4 * PAGE));
        let empty = content.sum();
        content.put(2, WHOLE, &page_of(1));
        assert_ne!(content.sum(), empty);
        assert_eq!(content.allocated(), 4 * PAGE);
        content.apply(&FileChange::Punch(2 * PAGE..3 * PAGE));
        assert_eq!((content.sum(), content.allocated()), (empty, 3 * PAGE));
        assert_eq!(content.missing(0..4 * PAGE), PAGE);
    }

    #[test]
    fn a_shorter_file_forgets_its_tail_even_within_a_page() {
        let mut content = FileContent::default();
        content.apply(&FileChange::Grow(0..100 * PAGE));
        content.put(0, WHOLE, &page_of(3));
        content.put(99, WHOLE, &page_of(4));
        content.apply(&FileChange::Truncate(100));
        content.apply(&FileChange::Grow(100..100 * PAGE));
        let bytes = bytes_of(&content);
        assert_eq!(bytes[..100], [3; 100]);
        assert!(bytes[100..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn the_mask_of_a_range_has_a_bit_for_every_sector_it_touches() {
        assert_eq!(sectors_of(0..4096), WHOLE);
        assert_eq!(sectors_of(511..513), 0b11);
        assert_eq!(sectors_of(3584..4096), 0b1000_0000);
        assert_eq!(sectors_of(5..5), 0);
    }
}
