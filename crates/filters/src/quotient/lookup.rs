//! Looks up a fingerprint in one page.
//!
//! The lookup has no data-dependent branches except two that are almost never taken (the run is
//! longer than one load, or has spilled). So its cost is independent of the load and of hit or
//! miss.

use super::bits::{BitKernel, BitOperations, PortableBits};
use super::format::{FilterPageHeader, PageKind, QuotientBlock, slots, word};
use super::geometry::{FilterGeometry, QuotientAddress};
use super::run::{PageWords, SlotRun};
use super::values::FingerprintValues;
use crate::{Error, Fingerprint, Result};
use alluvium_base::prefetch;

/// A page of a filter in a cache. Its bytes are neither copied nor trusted: every call returns for
/// any bytes, and wrong bytes give an error or a wrong answer.
///
/// ```
/// use alluvium_filters::{
///     FilterEntry, FilterGeometry, FilterShape, PageLookup, PageView, QuotientMaplet,
///     hash,
/// };
/// let geometry = FilterGeometry::for_entries(1000, FilterShape::new(36, 4))?;
/// let mut maplet = QuotientMaplet::new(geometry);
/// let apple = geometry.fingerprint(hash(0, b"apple"));
/// maplet.insert(FilterEntry::new(apple, 3))?; // the key "apple" is in run 3 …
/// maplet.insert(FilterEntry::new(apple, 9))?; // … and in the newer run 9
/// let bytes = maplet.to_bytes();
///
/// let number = geometry.page_of(apple);
/// let page = &bytes[number as usize * 4096..][..4096];
/// let PageLookup::InPage(values) = PageView::new(&geometry, page)?.lookup(apple) else {
///     panic!()
/// };
/// assert_eq!(values.collect::<Vec<_>>(), [9, 3], "newest first");
/// # Ok::<(), alluvium_filters::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PageView<'a> {
    pub(super) geometry: &'a FilterGeometry,
    pub(super) page: &'a [u8],
}

/// The result of looking up a fingerprint in a page.
#[derive(Clone, Debug)]
pub enum PageLookup<'a> {
    /// The page has all values of the fingerprint, possibly none.
    InPage(FingerprintValues<'a>),
    /// Any entries are among the page's spilled records ([`PageView::spilled`]).
    Spilled,
}

impl PageLookup<'_> {
    /// Returns the result without the values.
    #[must_use]
    #[inline]
    pub fn presence(&self) -> FingerprintPresence {
        match self {
            PageLookup::Spilled => FingerprintPresence::Spilled,
            PageLookup::InPage(values) if values.is_empty() => FingerprintPresence::Absent,
            PageLookup::InPage(_) => FingerprintPresence::Present,
        }
    }
}

/// The result of a lookup without values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FingerprintPresence {
    /// The fingerprint was never added.
    Absent,
    /// The fingerprint is present (possibly added by another key).
    Present,
    /// The answer is in the page's spilled records.
    Spilled,
}

/// The result of comparing one load of slots: the load, and a mask with the highest bit of every
/// equal lane, or [`UNRESOLVED`].
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneMatch {
    pub(super) slots: u64,
    pub(super) equal: u64,
}

pub(super) const ABSENT: LaneMatch = LaneMatch { slots: 0, equal: 0 };

/// The value of `equal` if one load did not give the answer. Slots have at least two bits, so bit 0
/// is never the highest bit of a lane.
pub(super) const UNRESOLVED: u64 = 1;

/// The location of a quotient's run.
pub(super) enum QuotientLocation {
    /// The quotient has no entries.
    Nowhere,
    /// The range of slots, from the first to the end.
    Slots(u32, u32),
    /// The run did not fit in its page: its records are spilled.
    Spilled,
}

impl<'a> PageView<'a> {
    /// Creates a view of a page. Only the length is checked, so that the lookup touches no cache
    /// line that it does not need. A caller that reads pages from a device must verify the
    /// checksum, and the header with [`PageView::verify`].
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the page does not have the geometry's length.
    #[inline]
    pub fn new(geometry: &'a FilterGeometry, page: &'a [u8]) -> Result<PageView<'a>> {
        if page.len() != geometry.page_bytes as usize {
            return Err(wrong_length(geometry, page));
        }
        Ok(PageView { geometry, page })
    }

    /// Checks that the header is the one of page `number` of this geometry.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is not.
    pub fn verify(&self, number: u32) -> Result<()> {
        FilterPageHeader::read(self.geometry, self.page, PageKind::Page, number).map(|_| ())
    }

    #[must_use]
    pub fn geometry(&self) -> &'a FilterGeometry {
        self.geometry
    }

    /// Returns the values of a fingerprint that belongs to this page ([`FilterGeometry::page_of`]).
    #[must_use]
    #[inline]
    pub fn lookup(&self, fingerprint: Fingerprint) -> PageLookup<'a> {
        let compared = self.compare(fingerprint);
        if compared.equal == UNRESOLVED {
            return self.lookup_slowly(fingerprint);
        }
        PageLookup::InPage(FingerprintValues::among(self.geometry, compared))
    }

    /// Returns whether a fingerprint that belongs to this page is present.
    #[must_use]
    #[inline]
    pub fn contains(&self, fingerprint: Fingerprint) -> FingerprintPresence {
        match self.compare(fingerprint).equal {
            0 => FingerprintPresence::Absent,
            UNRESOLVED => self.lookup_slowly(fingerprint).presence(),
            _ => FingerprintPresence::Present,
        }
    }

    /// Returns the total number of occurrences of a fingerprint that belongs to this page, over all
    /// values, or `None` if it spilled.
    #[must_use]
    pub fn count(&self, fingerprint: Fingerprint) -> Option<u64> {
        let place = self.geometry.place(fingerprint);
        match self.find(place) {
            QuotientLocation::Nowhere => Some(0),
            QuotientLocation::Spilled => None,
            QuotientLocation::Slots(at, end) => {
                let here = |&(word, _): &(u64, u32)| word >> self.geometry.value_bits == place.remainder;
                Some(
                    self.run(at, end)
                        .filter(here)
                        .map(|(_, count)| u64::from(count))
                        .sum(),
                )
            }
        }
    }

    /// Prefetches the page's metadata for a fingerprint; [`crate::lookup_many`] does this for many
    /// at once.
    #[inline]
    pub fn prefetch(&self, fingerprint: Fingerprint) {
        let place = self.geometry.place(fingerprint);
        prefetch(self.page, QuotientBlock::at(place.block));
    }

    /// Returns the spilled records of this page: the number of the first within the filter, and
    /// their count. They are stored in the spill pages; see [`crate::SpillView`].
    #[must_use]
    pub fn spilled(&self) -> (u32, u32) {
        FilterPageHeader::spilled(self.page)
    }

    #[inline]
    pub(super) fn compare(&self, fingerprint: Fingerprint) -> LaneMatch {
        match self.geometry.kernel {
            BitKernel::Portable => compare::<PortableBits>(self.geometry, self.page, fingerprint),
            // SAFETY: `BitKernel::detect` chooses this kernel only when the processor has the
            // features.
            #[cfg(target_arch = "x86_64")]
            BitKernel::Bmi2 => unsafe { compare_bmi2(self.geometry, self.page, fingerprint) },
        }
    }

    pub(super) fn run(&self, at: u32, end: u32) -> SlotRun<PageWords<'a>> {
        let words = PageWords {
            geometry: self.geometry,
            page: self.page,
        };
        SlotRun::new(self.geometry, words, at, end)
    }

    /// Returns the location of a place's run; the slow path.
    pub(super) fn find(&self, place: QuotientAddress) -> QuotientLocation {
        let Some(block) = QuotientBlock::read(self.page, place.block) else {
            return QuotientLocation::Nowhere;
        };
        if block.head >> place.quotient & 1 == 0 {
            return QuotientLocation::Nowhere;
        }
        let rank = (block.occupied() & ((1 << place.quotient) - 1)).count_ones();
        let end = PortableBits::nth_one(block.ends, 1 << rank);
        if end == 0 {
            return QuotientLocation::Spilled;
        }
        let first = 64 - (block.ends & (end - 1)).leading_zeros();
        QuotientLocation::Slots(
            block.position() + first,
            block.position() + end.trailing_zeros() + 1,
        )
    }

    #[cold]
    #[inline(never)]
    pub(super) fn lookup_slowly(&self, fingerprint: Fingerprint) -> PageLookup<'a> {
        let place = self.geometry.place(fingerprint);
        let (at, end) = match self.find(place) {
            QuotientLocation::Spilled => return PageLookup::Spilled,
            QuotientLocation::Nowhere => (0, 0),
            QuotientLocation::Slots(at, end) => (at, end),
        };
        PageLookup::InPage(FingerprintValues::in_run(*self, place.remainder, at, end))
    }
}

#[cold]
fn wrong_length(geometry: &FilterGeometry, page: &[u8]) -> Error {
    Error::corrupt(
        word(page, 8),
        "length",
        format!("{} bytes", geometry.page_bytes),
        format!("{} bytes", page.len()),
    )
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
fn compare_bmi2(geometry: &FilterGeometry, page: &[u8], fingerprint: Fingerprint) -> LaneMatch {
    compare::<super::bits::Bmi2Bits>(geometry, page, fingerprint)
}

/// The part of a lookup that uses a page's metadata: the slots to load, and how many of them belong
/// to the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotTarget {
    /// First slot of the run.
    pub(super) position: u32,
    /// Number of slots of the run, valid if `settled`; 0 if the quotient is not occupied.
    pub(super) len: u32,
    /// Whether one load gives the answer.
    pub(super) settled: bool,
}

/// Computes the rank among the occupied quotients, and selects the run's end.
#[inline(always)]
pub(super) fn aim<B: BitOperations>(
    geometry: &FilterGeometry,
    block: QuotientBlock,
    quotient: u32,
) -> SlotTarget {
    let occupied = block.head >> quotient & 1;
    let rank = B::low(block.head, quotient).count_ones();
    // The slot that ends the run. 1 for an unoccupied quotient, for which the comparison is
    // executed without effect; 0 for a spilled run, which makes `below` negative.
    let end = B::nth_one(block.ends, occupied << rank) | (occupied ^ 1);
    let below = end.wrapping_sub(1);
    let zeros = (block.ends & below).leading_zeros();
    let len = end
        .trailing_zeros()
        .wrapping_add(zeros)
        .wrapping_add(occupied as u32)
        .wrapping_sub(64);
    let too_long = u64::from(geometry.lanes).wrapping_sub(u64::from(len));
    SlotTarget {
        position: block.position().wrapping_add(64 - zeros),
        len,
        settled: (too_long | below) >> 63 == 0,
    }
}

/// Compares the slots of one load with a remainder. Returns the highest bit of each equal lane of
/// the run.
#[inline(always)]
pub(super) fn equal_lanes<B: BitOperations>(
    geometry: &FilterGeometry,
    loaded: u64,
    len: u32,
    remainder: u64,
) -> u64 {
    let differing = (loaded ^ remainder.wrapping_mul(geometry.lane_low)) & geometry.lane_remainder;
    // After the addition, a lane's highest bit is set if any of its other bits was set (Warren,
    // Hacker's Delight, 6-1).
    let zero =
        !((differing & geometry.lane_rest).wrapping_add(geometry.lane_rest) | differing) & geometry.lane_high;
    B::low(zero, len.wrapping_mul(geometry.slot_bits))
}

#[inline(always)]
fn compare<B: BitOperations>(geometry: &FilterGeometry, page: &[u8], fingerprint: Fingerprint) -> LaneMatch {
    let place = geometry.place(fingerprint);
    let Some(block) = QuotientBlock::read(page, place.block) else {
        return ABSENT;
    };
    let aim = aim::<B>(geometry, block, place.quotient);
    if !aim.settled {
        return LaneMatch {
            slots: 0,
            equal: UNRESOLVED,
        };
    }
    let Some(slots) = slots(geometry, page, aim.position) else {
        return ABSENT;
    };
    let equal = equal_lanes::<B>(geometry, slots, aim.len, place.remainder);
    LaneMatch { slots, equal }
}
