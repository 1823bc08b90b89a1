//! The tags of a table as a filter: a view of its bytes.

use super::format::{self, Header};
use super::shape::{Place, SLOTS, Shape};
use super::table::Slot;
use crate::Result;

/// A filter in bytes: whether a hash may be there, and in which slots.
///
/// ```
/// use research_filters::cuckoo::{Filter, Shape, Table, encode};
/// use alluvium_filters::hash;
/// let mut table = Table::new(Shape::xor(4, 15)?, 7);
/// table.insert(hash(0, b"apple"), 4096)?;
/// let bytes = encode(&table);
/// let filter = Filter::open(&bytes)?;
/// assert!(filter.may_hold(hash(0, b"apple")));
/// assert!(!filter.may_hold(hash(0, b"pear")));
/// let slots: Vec<_> = table.candidates(hash(0, b"apple")).map(|(slot, _)| slot).collect();
/// assert_eq!(filter.candidates(hash(0, b"apple")).collect::<Vec<_>>(), slots);
/// # Ok::<(), research_filters::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Filter<'b> {
    pub(super) header: Header,
    pub(super) bytes: &'b [u8],
}

impl<'b> Filter<'b> {
    /// Opens a filter: reads its header, and checks that the bytes are as many as it says. The
    /// checksum is left to [`Filter::check`].
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] when the header is none or the length is wrong.
    pub fn open(bytes: &'b [u8]) -> Result<Filter<'b>> {
        let header = Header::read(bytes)?;
        Ok(Filter { header, bytes })
    }

    /// Returns the shape of the table it was made of.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.header.shape
    }

    /// Returns how many slots are in use.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.header.entries
    }

    /// Returns whether a hash may be there. One that was put in is.
    #[inline]
    #[must_use]
    pub fn may_hold(&self, hash: u64) -> bool {
        let places = self.header.shape.places(hash);
        places.iter().any(|place| self.matching(*place).next().is_some())
    }

    /// Returns the slots whose entry may be a hash's, in the order of
    /// [`super::Table::candidates`].
    pub fn candidates(&self, hash: u64) -> impl Iterator<Item = Slot> + use<'b> {
        let (places, filter) = (self.header.shape.places(hash), *self);
        let distinct = if places[0] == places[1] { 1 } else { 2 };
        let places = places.into_iter().take(distinct);
        places.flat_map(move |place| filter.matching(place))
    }

    #[inline]
    fn matching(&self, place: Place) -> impl Iterator<Item = Slot> + use<'b> {
        let bits = self.header.shape.tag_bits;
        let tags = format::tags(self.bytes, &self.header.shape, place.bucket);
        let wanted = u64::from(place.tag);
        (0..SLOTS)
            .filter(move |slot| tags >> (slot * bits) & ((1 << bits) - 1) == wanted)
            .map(move |slot| Slot::at(place.bucket, slot))
    }
}
