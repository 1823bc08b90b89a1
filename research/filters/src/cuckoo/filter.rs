//! A filter made of a table's tags: a view of its encoded bytes.

use super::format::{self, CuckooHeader};
use super::shape::{CuckooShape, SLOTS, TaggedBucket};
use super::table::CuckooSlot;
use crate::Result;

/// An encoded filter. It answers whether a hash may be present, and in which slots.
///
/// ```
/// use research_filters::cuckoo::{CuckooFilter, CuckooShape, CuckooTable, encode};
/// use alluvium_filters::hash;
/// let mut table = CuckooTable::new(CuckooShape::xor(4, 15)?, 7);
/// table.insert(hash(0, b"apple"), 4096)?;
/// let bytes = encode(&table);
/// let filter = CuckooFilter::open(&bytes)?;
/// assert!(filter.may_hold(hash(0, b"apple")));
/// assert!(!filter.may_hold(hash(0, b"pear")));
/// let slots: Vec<_> = table.candidates(hash(0, b"apple")).map(|(slot, _)| slot).collect();
/// assert_eq!(filter.candidates(hash(0, b"apple")).collect::<Vec<_>>(), slots);
/// # Ok::<(), research_filters::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CuckooFilter<'b> {
    pub(super) header: CuckooHeader,
    pub(super) bytes: &'b [u8],
}

impl<'b> CuckooFilter<'b> {
    /// Opens a filter: reads its header and checks the length of the bytes against it. Only
    /// [`CuckooFilter::check`] verifies the checksum.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] when the header is invalid or the length is wrong.
    pub fn open(bytes: &'b [u8]) -> Result<CuckooFilter<'b>> {
        let header = CuckooHeader::read(bytes)?;
        Ok(CuckooFilter { header, bytes })
    }

    /// Returns the shape of the table that the filter was made from.
    #[must_use]
    pub fn shape(&self) -> CuckooShape {
        self.header.shape
    }

    /// Returns the number of slots in use.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.header.entries
    }

    /// Returns whether a hash may be present. There are no false negatives.
    #[inline]
    #[must_use]
    pub fn may_hold(&self, hash: u64) -> bool {
        let places = self.header.shape.places(hash);
        places.iter().any(|place| self.matching(*place).next().is_some())
    }

    /// Returns the slots whose entry may belong to a hash, in the order of
    /// [`super::CuckooTable::candidates`].
    pub fn candidates(&self, hash: u64) -> impl Iterator<Item = CuckooSlot> + use<'b> {
        let (places, filter) = (self.header.shape.places(hash), *self);
        let distinct = if places[0] == places[1] { 1 } else { 2 };
        let places = places.into_iter().take(distinct);
        places.flat_map(move |place| filter.matching(place))
    }

    #[inline]
    fn matching(&self, place: TaggedBucket) -> impl Iterator<Item = CuckooSlot> + use<'b> {
        let bits = self.header.shape.tag_bits;
        let tags = format::tags(self.bytes, &self.header.shape, place.bucket);
        let wanted = u64::from(place.tag);
        (0..SLOTS)
            .filter(move |slot| tags >> (slot * bits) & ((1 << bits) - 1) == wanted)
            .map(move |slot| CuckooSlot::at(place.bucket, slot))
    }
}
