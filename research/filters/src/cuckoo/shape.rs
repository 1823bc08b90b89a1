//! Maps a hash to its two buckets and tags.

use crate::{Error, Result};

/// Slots in a bucket, whose tags fit in one 64-bit word.
pub const SLOTS: u32 = 4;

/// The maximum number of bits in a tag: four tags and half a byte fill one 64-bit load.
pub const MAX_TAG_BITS: u32 = 15;

/// The maximum number of bits in a bucket number: slot numbers have 32 bits.
pub const MAX_BUCKET_BITS: u32 = 28;

/// The number of hash bits from which a bucket or a tag is derived.
const SLICE_BITS: u32 = 24;

const _: () = assert!(MAX_TAG_BITS * SLOTS + 4 <= u64::BITS);
const _: () = assert!(1u64 << MAX_BUCKET_BITS <= u32::MAX as u64 / SLOTS as u64);

/// How the alternative bucket of an entry is derived without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CuckooVariant {
    /// The tag is the number of the alternative bucket, and changes when the entry moves.
    Alternate = 1,
    /// The alternative bucket is the exclusive or of the bucket and a mix of the tag.
    Xor = 2,
}

/// The size and the variant of a table.
///
/// ```
/// use research_filters::cuckoo::{CuckooShape, CuckooVariant};
/// let shape = CuckooShape::alternate(15)?;
/// assert_eq!((shape.variant(), shape.slots()), (CuckooVariant::Alternate, 4 * 32_767));
/// assert_eq!(CuckooShape::xor(12, 15)?.slots(), 16_384);
/// assert!(CuckooShape::xor(12, 16).is_err());
/// # Ok::<(), research_filters::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuckooShape {
    pub(super) variant: CuckooVariant,
    pub(super) buckets: u32,
    pub(super) tag_bits: u32,
}

/// A bucket, and the tag of an entry in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaggedBucket {
    pub(super) bucket: u32,
    pub(super) tag: u16,
}

impl CuckooShape {
    /// Creates the shape of variant [`CuckooVariant::Alternate`], with 2^`tag_bits` - 1 buckets.
    ///
    /// # Errors
    /// [`Error::Shape`] when `tag_bits` is 0 or greater than [`MAX_TAG_BITS`].
    pub fn alternate(tag_bits: u32) -> Result<CuckooShape> {
        tags(tag_bits)?;
        Ok(CuckooShape {
            variant: CuckooVariant::Alternate,
            buckets: (1 << tag_bits) - 1,
            tag_bits,
        })
    }

    /// Creates the shape of variant [`CuckooVariant::Xor`], with 2^`bucket_bits` buckets.
    ///
    /// # Errors
    /// [`Error::Shape`] when `tag_bits` is 0 or greater than [`MAX_TAG_BITS`], or
    /// `bucket_bits` is greater than [`MAX_BUCKET_BITS`].
    pub fn xor(bucket_bits: u32, tag_bits: u32) -> Result<CuckooShape> {
        tags(tag_bits)?;
        if bucket_bits > MAX_BUCKET_BITS {
            let what = format!("2^{bucket_bits} buckets of a cuckoo table");
            return Err(Error::shape(what, format!("2^{MAX_BUCKET_BITS} or fewer")));
        }
        Ok(CuckooShape {
            variant: CuckooVariant::Xor,
            buckets: 1 << bucket_bits,
            tag_bits,
        })
    }

    #[must_use]
    pub fn variant(&self) -> CuckooVariant {
        self.variant
    }

    /// Returns the number of buckets.
    #[must_use]
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.buckets * SLOTS
    }

    /// Returns the number of bits in a tag.
    #[must_use]
    pub fn tag_bits(&self) -> u32 {
        self.tag_bits
    }

    /// Returns the expected number of tag matches in a lookup of an absent key, at a load between
    /// 0 and 1: a lookup examines eight slots, each with one of 2^`tag_bits` - 1 tags.
    #[must_use]
    pub fn false_positive_rate(&self, load: f64) -> f64 {
        f64::from(2 * SLOTS) * load / f64::from((1 << self.tag_bits) - 1)
    }

    /// Returns the two places of a hash, which are equal for a few hashes. Only the lowest 56
    /// bits matter, so the highest bits may select a partition.
    #[inline]
    pub(super) fn places(&self, hash: u64) -> [TaggedBucket; 2] {
        match self.variant {
            CuckooVariant::Alternate => {
                let (a, b) = (
                    reduce(hash, self.buckets),
                    reduce(hash >> SLICE_BITS, self.buckets),
                );
                [(a, b), (b, a)].map(|(bucket, other)| TaggedBucket {
                    bucket,
                    tag: other as u16 + 1,
                })
            }
            CuckooVariant::Xor => {
                let tags = (1 << self.tag_bits) - 1;
                let first = TaggedBucket {
                    bucket: hash as u32 & (self.buckets - 1),
                    tag: reduce(hash >> 32, tags) as u16 + 1,
                };
                [first, self.other(first)]
            }
        }
    }

    /// Returns the other place of an entry, derived from the entry alone.
    #[inline]
    pub(super) fn other(&self, place: TaggedBucket) -> TaggedBucket {
        debug_assert!(place.tag != 0 && place.bucket < self.buckets, "C1");
        match self.variant {
            CuckooVariant::Alternate => TaggedBucket {
                bucket: u32::from(place.tag) - 1,
                tag: place.bucket as u16 + 1,
            },
            CuckooVariant::Xor => TaggedBucket {
                bucket: place.bucket ^ (mix(place.tag) & (self.buckets - 1)),
                tag: place.tag,
            },
        }
    }
}

fn tags(bits: u32) -> Result<()> {
    if !(1..=MAX_TAG_BITS).contains(&bits) {
        let what = format!("tags of {bits} bits in a cuckoo table");
        return Err(Error::shape(what, format!("1 to {MAX_TAG_BITS}")));
    }
    Ok(())
}

/// Maps the lowest [`SLICE_BITS`] bits of a hash uniformly to the range `0..end`.
#[inline]
fn reduce(hash: u64, end: u32) -> u32 {
    (((hash & ((1 << SLICE_BITS) - 1)) * u64::from(end)) >> SLICE_BITS) as u32
}

/// Spreads a tag over 32 bits. Changing this function requires a new version of the filter
/// format.
#[inline]
fn mix(tag: u16) -> u32 {
    (u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shapes() -> impl Strategy<Value = CuckooShape> {
        (1u32..=15, 0u32..=20, any::<bool>()).prop_map(|(tag_bits, bucket_bits, xor)| {
            let shape = if xor {
                CuckooShape::xor(bucket_bits, tag_bits)
            } else {
                CuckooShape::alternate(tag_bits)
            };
            shape.unwrap()
        })
    }

    proptest! {
        #[test]
        fn the_two_places_of_a_hash_lead_to_each_other(shape in shapes(), hash: u64) {
            let [first, second] = shape.places(hash);
            prop_assert_eq!((shape.other(first), shape.other(second)), (second, first));
            for place in [first, second] {
                prop_assert!(place.bucket < shape.buckets && place.tag != 0);
                prop_assert!(u32::from(place.tag) < 1 << shape.tag_bits);
            }
        }
    }

    #[test]
    fn hashes_spread_evenly_over_buckets_and_tags() {
        for shape in [
            CuckooShape::alternate(6).unwrap(),
            CuckooShape::xor(6, 6).unwrap(),
        ] {
            let (mut buckets, mut tags) = (vec![0u32; 64], vec![0u32; 64]);
            let mut random = fastrand::Rng::with_seed(1);
            for _ in 0..64_000 {
                for place in shape.places(random.u64(..)) {
                    buckets[place.bucket as usize] += 1;
                    tags[usize::from(place.tag)] += 1;
                }
            }
            let even = |counts: &[u32]| counts.iter().all(|count| (1700..2350).contains(count));
            assert!(even(&buckets[..shape.buckets as usize]), "{buckets:?}");
            assert!(tags[0] == 0 && even(&tags[1..]), "{tags:?}");
        }
    }

    #[test]
    fn shapes_that_do_not_exist_are_refused() {
        assert!(CuckooShape::alternate(0).is_err() && CuckooShape::alternate(16).is_err());
        assert!(CuckooShape::xor(29, 15).is_err() && CuckooShape::xor(4, 0).is_err());
        assert!(CuckooShape::xor(28, 15).is_ok());
    }
}
