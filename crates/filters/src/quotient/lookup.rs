//! Looking a fingerprint up in one page.
//!
//! Without a branch that depends on the data, but for two that are almost never taken (the run is
//! longer than one load, or spilled): that is what makes a lookup cost the same at any load, hit or
//! miss.

use super::bits::{Bits, Kernel, Portable};
use super::format::{Block, Header, Kind, slots, word};
use super::geometry::{Geometry, Place};
use super::run::{PageWords, Run};
use super::values::Values;
use crate::{Error, Fingerprint, Result};
use alluvium_base::prefetch;

/// A page of a filter, as it lies in a cache. Nothing is copied and nothing is trusted: whatever
/// the bytes are, every call returns; wrong bytes give an error or a wrong answer.
///
/// ```
/// use alluvium_filters::{Entry, Found, Geometry, Maplet, PageView, Shape, hash};
/// let geometry = Geometry::for_entries(1000, Shape::new(36, 4))?;
/// let mut maplet = Maplet::new(geometry);
/// let apple = geometry.fingerprint(hash(0, b"apple"));
/// maplet.insert(Entry::new(apple, 3))?; // the key "apple" is in run 3 …
/// maplet.insert(Entry::new(apple, 9))?; // … and in the newer run 9
/// let bytes = maplet.to_bytes();
///
/// let number = geometry.page_of(apple);
/// let page = &bytes[number as usize * 4096..][..4096];
/// let Found::Here(values) = PageView::new(&geometry, page)?.lookup(apple) else { panic!() };
/// assert_eq!(values.collect::<Vec<_>>(), [9, 3], "newest first");
/// # Ok::<(), alluvium_filters::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PageView<'a> {
    pub(super) geometry: &'a Geometry,
    pub(super) page: &'a [u8],
}

/// What a page says of a fingerprint.
#[derive(Clone, Debug)]
pub enum Found<'a> {
    /// The page knows: these are the values, perhaps none.
    Here(Values<'a>),
    /// The entries, if there are any, are among the page's spilled records ([`PageView::spilled`]).
    Spilled,
}

impl Found<'_> {
    /// The same without the values.
    #[must_use]
    #[inline]
    pub fn presence(&self) -> Presence {
        match self {
            Found::Spilled => Presence::Spilled,
            Found::Here(values) if values.is_empty() => Presence::Absent,
            Found::Here(_) => Presence::Present,
        }
    }
}

/// What a page says of a fingerprint, when values do not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It was never put in.
    Absent,
    /// It is there (or another key's equal fingerprint).
    Present,
    /// The page's spilled records know.
    Spilled,
}

/// The outcome of comparing one load of slots: the load, and the highest bit of every lane that is
/// equal; or [`ASK`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared {
    pub(super) slots: u64,
    pub(super) equal: u64,
}

/// No lane is equal.
pub(super) const ABSENT: Compared = Compared { slots: 0, equal: 0 };

/// `equal` when one load did not settle the matter. Slots have two bits or more, so no lane's
/// highest bit is bit 0.
pub(super) const ASK: u64 = 1;

/// Where a quotient's run is.
pub(super) enum Whereabouts {
    /// No entry has this quotient.
    Nowhere,
    /// From one slot to another.
    Slots(u32, u32),
    /// Among the spilled records.
    Spilled,
}

impl<'a> PageView<'a> {
    /// Creates a view of a page. Only its length is checked, so that the lookup touches no cache
    /// line that it does not need. A caller that reads pages from a device verifies their checksum,
    /// and [`PageView::verify`] the header.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the page has not the geometry's length.
    #[inline]
    pub fn new(geometry: &'a Geometry, page: &'a [u8]) -> Result<PageView<'a>> {
        if page.len() != geometry.page_bytes as usize {
            return Err(wrong_length(geometry, page));
        }
        Ok(PageView { geometry, page })
    }

    /// Checks that the header is that of page `number` of this geometry.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it is not.
    pub fn verify(&self, number: u32) -> Result<()> {
        Header::read(self.geometry, self.page, Kind::Page, number).map(|_| ())
    }

    /// Returns the geometry.
    #[must_use]
    pub fn geometry(&self) -> &'a Geometry {
        self.geometry
    }

    /// Returns the values under a fingerprint that belongs to this page ([`Geometry::page_of`]).
    #[must_use]
    #[inline]
    pub fn lookup(&self, fingerprint: Fingerprint) -> Found<'a> {
        let compared = self.compare(fingerprint);
        if compared.equal == ASK {
            return self.lookup_slowly(fingerprint);
        }
        Found::Here(Values::among(self.geometry, compared))
    }

    /// Returns whether a fingerprint that belongs to this page is in it.
    #[must_use]
    #[inline]
    pub fn contains(&self, fingerprint: Fingerprint) -> Presence {
        match self.compare(fingerprint).equal {
            0 => Presence::Absent,
            ASK => self.lookup_slowly(fingerprint).presence(),
            _ => Presence::Present,
        }
    }

    /// Returns how often a fingerprint that belongs to this page occurs in it, over all values;
    /// nothing if it spilled.
    #[must_use]
    pub fn count(&self, fingerprint: Fingerprint) -> Option<u64> {
        let place = self.geometry.place(fingerprint);
        match self.find(place) {
            Whereabouts::Nowhere => Some(0),
            Whereabouts::Spilled => None,
            Whereabouts::Slots(at, end) => {
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

    /// Hints that the page's metadata for a fingerprint will be read soon; [`crate::lookup_many`]
    /// does this for many at once.
    #[inline]
    pub fn prefetch(&self, fingerprint: Fingerprint) {
        let place = self.geometry.place(fingerprint);
        prefetch(self.page, Block::at(place.block));
    }

    /// Returns the spilled records of this page: the number of the first within the filter, and how
    /// many there are. They lie in the spill pages, see [`crate::SpillView`].
    #[must_use]
    pub fn spilled(&self) -> (u32, u32) {
        Header::spilled(self.page)
    }

    #[inline]
    pub(super) fn compare(&self, fingerprint: Fingerprint) -> Compared {
        match self.geometry.kernel {
            Kernel::Portable => compare::<Portable>(self.geometry, self.page, fingerprint),
            // SAFETY: `Kernel::detect` chooses this kernel only when the processor has the
            // features.
            #[cfg(target_arch = "x86_64")]
            Kernel::Bmi2 => unsafe { compare_bmi2(self.geometry, self.page, fingerprint) },
        }
    }

    pub(super) fn run(&self, at: u32, end: u32) -> Run<PageWords<'a>> {
        let words = PageWords {
            geometry: self.geometry,
            page: self.page,
        };
        Run::new(self.geometry, words, at, end)
    }

    /// Returns where the run of a place is, found without haste.
    pub(super) fn find(&self, place: Place) -> Whereabouts {
        let Some(block) = Block::read(self.page, place.block) else {
            return Whereabouts::Nowhere;
        };
        if block.head >> place.quotient & 1 == 0 {
            return Whereabouts::Nowhere;
        }
        let rank = (block.occupied() & ((1 << place.quotient) - 1)).count_ones();
        let end = Portable::nth_one(block.ends, 1 << rank);
        if end == 0 {
            return Whereabouts::Spilled;
        }
        let first = 64 - (block.ends & (end - 1)).leading_zeros();
        Whereabouts::Slots(
            block.position() + first,
            block.position() + end.trailing_zeros() + 1,
        )
    }

    #[cold]
    #[inline(never)]
    pub(super) fn lookup_slowly(&self, fingerprint: Fingerprint) -> Found<'a> {
        let place = self.geometry.place(fingerprint);
        let (at, end) = match self.find(place) {
            Whereabouts::Spilled => return Found::Spilled,
            Whereabouts::Nowhere => (0, 0),
            Whereabouts::Slots(at, end) => (at, end),
        };
        Found::Here(Values::in_run(*self, place.remainder, at, end))
    }
}

#[cold]
fn wrong_length(geometry: &Geometry, page: &[u8]) -> Error {
    Error::corrupt(
        word(page, 8),
        "length",
        format!("{} bytes", geometry.page_bytes),
        format!("{} bytes", page.len()),
    )
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
fn compare_bmi2(geometry: &Geometry, page: &[u8], fingerprint: Fingerprint) -> Compared {
    compare::<super::bits::Bmi2>(geometry, page, fingerprint)
}

/// The part of a lookup that needs a page's metadata: which slots to load, and how many of them are
/// the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    /// The run's first slot.
    pub(super) position: u32,
    /// How many slots the run has, if `settled`: none when the quotient is not occupied.
    pub(super) len: u32,
    /// Whether one load will settle the matter.
    pub(super) settled: bool,
}

/// Rank among the occupied quotients, select among the ends of runs.
#[inline(always)]
pub(super) fn aim<B: Bits>(geometry: &Geometry, block: Block, quotient: u32) -> Aim {
    let occupied = block.head >> quotient & 1;
    let rank = B::low(block.head, quotient).count_ones();
    // The slot that ends the run. 1 for a quotient that is not occupied: the comparison then goes
    // through the motions. 0 for a run that spilled, which makes `below` negative.
    let end = B::nth_one(block.ends, occupied << rank) | (occupied ^ 1);
    let below = end.wrapping_sub(1);
    let zeros = (block.ends & below).leading_zeros();
    let len = end
        .trailing_zeros()
        .wrapping_add(zeros)
        .wrapping_add(occupied as u32)
        .wrapping_sub(64);
    let too_long = u64::from(geometry.lanes).wrapping_sub(u64::from(len));
    Aim {
        position: block.position().wrapping_add(64 - zeros),
        len,
        settled: (too_long | below) >> 63 == 0,
    }
}

/// Compares the slots of one load with a remainder: the highest bit of each lane of the run that is
/// equal.
#[inline(always)]
pub(super) fn equal_lanes<B: Bits>(geometry: &Geometry, loaded: u64, len: u32, remainder: u64) -> u64 {
    let differing = (loaded ^ remainder.wrapping_mul(geometry.lane_low)) & geometry.lane_remainder;
    // A lane's highest bit after the addition says whether any of its other bits was set (Warren,
    // Hacker's Delight, 6-1).
    let zero =
        !((differing & geometry.lane_rest).wrapping_add(geometry.lane_rest) | differing) & geometry.lane_high;
    B::low(zero, len.wrapping_mul(geometry.slot_bits))
}

#[inline(always)]
fn compare<B: Bits>(geometry: &Geometry, page: &[u8], fingerprint: Fingerprint) -> Compared {
    let place = geometry.place(fingerprint);
    let Some(block) = Block::read(page, place.block) else {
        return ABSENT;
    };
    let aim = aim::<B>(geometry, block, place.quotient);
    if !aim.settled {
        return Compared { slots: 0, equal: ASK };
    }
    let Some(slots) = slots(geometry, page, aim.position) else {
        return ABSENT;
    };
    let equal = equal_lanes::<B>(geometry, slots, aim.len, place.remainder);
    Compared { slots, equal }
}
