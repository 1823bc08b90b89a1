//! Eight buckets packed into three cache lines.
//!
//! ```text
//! line 0   bucket 0: tags, offsets   bucket 1: tags, offsets   tags of 6   tags of 7
//! line 1   bucket 2: tags, offsets   bucket 3: tags, offsets   offsets of 6
//! line 2   bucket 4: tags, offsets   bucket 5: tags, offsets   offsets of 7
//! ```
//!
//! The tags of a bucket fill one 64-bit word, 16 bits per slot; its offsets fill two, 32 bits per
//! slot.

use super::shape::SLOTS;

/// Buckets in a group, which fills three cache lines.
pub(super) const BUCKETS: u32 = 8;

const WORDS: usize = 24;

/// The positions of each bucket's tag word and offset words within the group.
const TAGS: [u8; BUCKETS as usize] = [0, 3, 8, 11, 16, 19, 6, 7];
const OFFSETS: [u8; BUCKETS as usize] = [1, 4, 9, 12, 17, 20, 14, 22];

const LANES: u64 = 0x0001_0001_0001_0001;
const LOW: u64 = 0x7fff_7fff_7fff_7fff;

/// The memory of eight buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(super) struct BucketGroup([u64; WORDS]);

const _: () = assert!(size_of::<BucketGroup>() == (BUCKETS * SLOTS) as usize * (2 + 4));

impl BucketGroup {
    pub(super) const EMPTY: BucketGroup = BucketGroup([0; WORDS]);

    /// The tags of a bucket, 16 bits per slot.
    #[inline]
    pub(super) fn tags(&self, bucket: u32) -> u64 {
        self.0[usize::from(TAGS[(bucket % BUCKETS) as usize])]
    }

    /// The offset in a slot.
    #[inline]
    pub(super) fn offset(&self, bucket: u32, slot: u32) -> u32 {
        let (word, shift) = offset_at(bucket, slot);
        (self.0[word] >> shift) as u32
    }

    /// Sets the tag and the offset of a slot.
    #[inline]
    pub(super) fn set(&mut self, bucket: u32, slot: u32, tag: u16, offset: u32) {
        let tags = &mut self.0[usize::from(TAGS[(bucket % BUCKETS) as usize])];
        let shift = 16 * (slot % SLOTS);
        *tags = *tags & !(0xffff << shift) | u64::from(tag) << shift;
        let (word, shift) = offset_at(bucket, slot);
        self.0[word] = self.0[word] & !(0xffff_ffff << shift) | u64::from(offset) << shift;
    }
}

#[inline]
fn offset_at(bucket: u32, slot: u32) -> (usize, u32) {
    let word = OFFSETS[(bucket % BUCKETS) as usize] + (slot % SLOTS / 2) as u8;
    (usize::from(word), slot % 2 * 32)
}

/// Returns the tag of a slot.
#[inline]
pub(super) fn tag(tags: u64, slot: u32) -> u16 {
    (tags >> (16 * (slot % SLOTS))) as u16
}

/// Returns which slots have a tag: bit 16·s + 15 is set for slot s.
#[inline]
pub(super) fn matching(tags: u64, tag: u16) -> u64 {
    let differing = tags ^ LANES.wrapping_mul(u64::from(tag));
    // No carry leaves a lane, so the result is exact.
    !(((differing & LOW) + LOW) | differing | LOW)
}

/// Returns the first slot in a result of [`matching`].
#[inline]
pub(super) fn first(matching: u64) -> Option<u32> {
    (matching != 0).then(|| matching.trailing_zeros() / 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slots_share_no_memory_and_six_buckets_lie_in_one_line() {
        let mut group = BucketGroup::EMPTY;
        let all = || (0..BUCKETS).flat_map(|bucket| (0..SLOTS).map(move |slot| (bucket, slot)));
        let of = |bucket, slot| ((bucket * 4 + slot + 1) as u16, u32::MAX - bucket * 1000 - slot);
        for (bucket, slot) in all() {
            let (tag, offset) = of(bucket, slot);
            group.set(bucket, slot, tag, offset);
        }
        for (bucket, slot) in all() {
            let found = (tag(group.tags(bucket), slot), group.offset(bucket, slot));
            assert_eq!(found, of(bucket, slot));
        }
        assert!(
            group.0.iter().all(|word| *word != 0),
            "24 bytes a bucket, none unused"
        );
        for bucket in 0..6 {
            let (tags, offsets) = (TAGS[bucket] / 8, OFFSETS[bucket] / 8);
            assert!(tags == offsets && (OFFSETS[bucket] + 1) / 8 == tags);
        }
    }

    proptest! {
        #[test]
        fn exactly_the_equal_tags_match(tags in proptest::array::uniform4(prop_oneof![0u16..4, any::<u16>()]), wanted in 0u16..4) {
            let word = (0..).zip(tags).fold(0, |word, (slot, tag)| word | u64::from(tag) << (16 * slot));
            let mut found = matching(word, wanted);
            let mut slots = Vec::new();
            while let Some(slot) = first(found) {
                slots.push(slot);
                found &= found - 1;
            }
            let expected: Vec<u32> = (0..4).filter(|&slot| tags[slot as usize] == wanted).collect();
            prop_assert_eq!(slots, expected);
        }
    }
}
