//! Splits a hashed key into its bucket and the bits that tell it apart from the bucket's other
//! keys.

use super::format::head;

/// The bits of a key at which a trie branches.
///
/// The bucket of a key is the integer part of `first 64 bits · buckets / 2^64`, for any number of
/// buckets. The first bits at which a trie branches are the 64 bits of the fractional part,
/// followed by the key's remaining bytes. In a bucket, a greater key never has a smaller fraction,
/// and two keys with the same fraction have the same first 64 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyBits<'k> {
    pub(super) fraction: u64,
    pub(super) rest: &'k [u8],
}

impl<'k> KeyBits<'k> {
    /// Splits a key into the number of its bucket and the bits at which the trie branches.
    #[inline]
    pub(super) fn of(key: &'k [u8], buckets: u64) -> (u64, KeyBits<'k>) {
        let (head, rest) = head(key);
        let product = u128::from(head) * u128::from(buckets);
        let fraction = product as u64;
        ((product >> 64) as u64, KeyBits { fraction, rest })
    }

    /// Returns whether the key goes right at a node of this depth, because its bit is set. Bits
    /// past the end of the key are zero.
    #[inline]
    pub(super) fn goes_right(self, depth: u32) -> bool {
        bit(self.fraction, self.rest, depth)
    }
}

/// Returns the bit at a depth, where the key's remaining bytes follow the fraction.
#[inline]
pub(super) fn bit(fraction: u64, rest: &[u8], depth: u32) -> bool {
    if depth < 64 {
        return fraction >> (63 - depth) & 1 == 1;
    }
    let at = depth - 64;
    rest.get((at / 8) as usize)
        .is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_rise_with_the_key_within_a_bucket(mut keys in proptest::collection::vec(any::<[u8; 10]>(), 2..40), buckets in 1u64..1 << 33, near: bool) {
            if near {
                keys.iter_mut().for_each(|key| key[..7].fill(0xfe));
            }
            keys.sort_unstable();
            keys.dedup();
            let split: Vec<_> = keys.iter().map(|key| KeyBits::of(key, buckets)).collect();
            for pair in split.windows(2) {
                let bits = |key: KeyBits<'_>| (0..80).map(|depth| key.goes_right(depth)).collect::<Vec<_>>();
                prop_assert!((pair[0].0, bits(pair[0].1)) < (pair[1].0, bits(pair[1].1)));
                prop_assert!(pair[1].0 < buckets);
            }
        }
    }
}
