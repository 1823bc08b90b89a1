//! Looks up a fingerprint in one page.
//!
//! A lookup has only two data-dependent branches, and both are almost never taken: the run is
//! longer than one load, or it has spilled. The cost is therefore the same at any load, and for
//! hits and misses.

use super::bits::{BitKernel, BitOperations, PortableBits};
use super::format::{FilterPageHeader, PageKind, QuotientBlock, slots, word};
use super::geometry::{FilterGeometry, QuotientAddress};
use super::run::{PageWords, SlotRun};
use super::values::FingerprintValues;
use crate::{Error, Fingerprint, Result};
use alluvium_base::prefetch;

/// View of a page, for example in a cache, without copying its bytes. The bytes may be invalid:
/// every method returns for any bytes, with an error or a wrong answer if they are invalid.
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

/// Result of looking up a fingerprint in a page.
#[derive(Clone, Debug)]
pub enum PageLookup<'a> {
    /// The page contains all values of the fingerprint, if there are any.
    InPage(FingerprintValues<'a>),
    /// Any entries are among the records that spilled from the page ([`PageView::spilled`]).
    Spilled,
}

impl PageLookup<'_> {
    /// Returns the result without its values.
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

/// Result of a lookup that does not return values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FingerprintPresence {
    /// The fingerprint is not present.
    Absent,
    /// The fingerprint is present, although another key may have added it.
    Present,
    /// The answer depends on the records that spilled from the page.
    Spilled,
}

/// Result of comparing the slots of one load. `slots` are the loaded bits. `equal` has the highest
/// bit of each lane that is equal, or is [`UNRESOLVED`].
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneMatch {
    pub(super) slots: u64,
    pub(super) equal: u64,
}

pub(super) const ABSENT: LaneMatch = LaneMatch { slots: 0, equal: 0 };

/// Value of `equal` if one load was not enough. A slot has at least two bits, so bit 0 is never the
/// highest bit of a lane.
pub(super) const UNRESOLVED: u64 = 1;

/// Location of the run of a quotient.
pub(super) enum QuotientLocation {
    /// The quotient has no entries, and thus no run.
    Nowhere,
    /// The run occupies the slots from the first number up to but excluding the second.
    Slots(u32, u32),
    /// The run did not fit in its page, so its entries are among the spilled records.
    Spilled,
}

impl<'a> PageView<'a> {
    /// Creates a view of a page. Checks only the length, to avoid reading cache lines that the
    /// lookup does not need. A caller that reads pages from a device must verify their checksum,
    /// and must check the header with [`PageView::verify`].
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the page does not have the length that the geometry requires.
    #[inline]
    pub fn new(geometry: &'a FilterGeometry, page: &'a [u8]) -> Result<PageView<'a>> {
        if page.len() != geometry.page_bytes as usize {
            return Err(wrong_length(geometry, page));
        }
        Ok(PageView { geometry, page })
    }

    /// Checks that the header is that of page `number` of this geometry.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is the header of another page.
    pub fn verify(&self, number: u32) -> Result<()> {
        FilterPageHeader::read(self.geometry, self.page, PageKind::Page, number).map(|_| ())
    }

    #[must_use]
    pub fn geometry(&self) -> &'a FilterGeometry {
        self.geometry
    }

    /// Returns the values of a fingerprint, which must belong to this page
    /// ([`FilterGeometry::page_of`]).
    #[must_use]
    #[inline]
    pub fn lookup(&self, fingerprint: Fingerprint) -> PageLookup<'a> {
        let compared = self.compare(fingerprint);
        if compared.equal == UNRESOLVED {
            return self.lookup_slowly(fingerprint);
        }
        PageLookup::InPage(FingerprintValues::among(self.geometry, compared))
    }

    /// Returns whether a fingerprint, which must belong to this page, is present.
    #[must_use]
    #[inline]
    pub fn contains(&self, fingerprint: Fingerprint) -> FingerprintPresence {
        match self.compare(fingerprint).equal {
            0 => FingerprintPresence::Absent,
            UNRESOLVED => self.lookup_slowly(fingerprint).presence(),
            _ => FingerprintPresence::Present,
        }
    }

    /// Returns how often a fingerprint, which must belong to this page, occurs with any value.
    /// Returns `None` if its run has spilled.
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

    /// Prefetches the metadata that a lookup of the fingerprint reads. [`crate::lookup_many`] does
    /// this for many fingerprints at once.
    #[inline]
    pub fn prefetch(&self, fingerprint: Fingerprint) {
        let place = self.geometry.place(fingerprint);
        prefetch(self.page, QuotientBlock::at(place.block));
    }

    /// Returns which of the filter's records spilled from this page: the number of the first, and
    /// how many there are. The records are in the spill pages (see [`crate::SpillView`]).
    #[must_use]
    pub fn spilled(&self) -> (u32, u32) {
        FilterPageHeader::spilled(self.page)
    }

    #[inline]
    pub(super) fn compare(&self, fingerprint: Fingerprint) -> LaneMatch {
        match self.geometry.kernel {
            BitKernel::Portable => compare::<PortableBits>(self.geometry, self.page, fingerprint),
            // SAFETY: `BitKernel::detect` returns this kernel only if the processor has the
            // required features.
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

    /// Returns the location of a quotient's run, on the slow path of a lookup.
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

/// What a lookup learns from a page's metadata: which slots to load, and how many of them belong to
/// the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotTarget {
    /// Position of the run's first slot.
    pub(super) position: u32,
    /// Number of slots in the run, or 0 if the quotient has no entries. Valid only if `settled` is
    /// true.
    pub(super) len: u32,
    /// Whether one load is enough for the result.
    pub(super) settled: bool,
}

/// Computes the quotient's rank among the occupied quotients, and selects the end of its run.
#[inline(always)]
pub(super) fn aim<B: BitOperations>(
    geometry: &FilterGeometry,
    block: QuotientBlock,
    quotient: u32,
) -> SlotTarget {
    let occupied = block.head >> quotient & 1;
    let rank = B::low(block.head, quotient).count_ones();
    // `end` is the bit of the slot that ends the run. It is 1 for a quotient without entries, for
    // which the comparison has no effect, and 0 for a spilled run, which makes `below` negative.
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

/// Compares the slots of one load with a remainder. Returns the highest bit of each lane that
/// belongs to the run and is equal.
#[inline(always)]
pub(super) fn equal_lanes<B: BitOperations>(
    geometry: &FilterGeometry,
    loaded: u64,
    len: u32,
    remainder: u64,
) -> u64 {
    let differing = (loaded ^ remainder.wrapping_mul(geometry.lane_low)) & geometry.lane_remainder;
    // This addition sets the highest bit of a lane if any other bit of the lane was set (Warren,
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
