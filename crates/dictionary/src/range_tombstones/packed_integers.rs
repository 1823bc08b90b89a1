//! Bit-packed arrays of unsigned integers. Every integer in an array takes as many bits as the
//! largest one needs.

const WORD: usize = u64::BITS as usize;

/// An immutable array of bit-packed integers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PackedIntegers {
    bits: usize,
    words: Box<[u64]>,
}

impl PackedIntegers {
    pub(super) fn of(values: impl ExactSizeIterator<Item = u64> + Clone) -> PackedIntegers {
        let largest = values.clone().max().unwrap_or(0);
        let bits = WORD - largest.leading_zeros() as usize;
        assert!(bits <= WORD, "{bits} bits of a value");
        let mut words = vec![0; (values.len() * bits).div_ceil(WORD)];
        if bits > 0 {
            for (number, value) in values.enumerate() {
                let (word, shift) = (number * bits / WORD, number * bits % WORD);
                debug_assert!(value <= largest, "{value} of at most {largest}");
                words[word] |= value << shift;
                if shift + bits > WORD {
                    words[word + 1] = value >> (WORD - shift);
                }
            }
        }
        PackedIntegers {
            bits,
            words: words.into(),
        }
    }

    #[inline]
    pub(super) fn get(&self, number: usize) -> u64 {
        let bits = self.bits;
        if bits == 0 {
            return 0;
        }
        let (word, shift) = (number * bits / WORD, number * bits % WORD);
        debug_assert!(
            (number + 1) * bits <= self.words.len() * WORD,
            "number {number} is stored"
        );
        let mut value = self.words[word] >> shift;
        if shift + bits > WORD {
            value |= self.words[word + 1] << (WORD - shift);
        }
        value & (u64::MAX >> (WORD - bits))
    }

    /// Returns the memory used, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_width_come_back() {
        let mut random = fastrand::Rng::with_seed(1);
        for bits in 0..=64u32 {
            let most = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
            for count in [0, 1, 2, 63, 64, 65, 300] {
                let mut values: Vec<u64> = (0..count).map(|_| random.u64(..=most)).collect();
                values.extend((count > 0).then_some(most));
                let packed = PackedIntegers::of(values.iter().copied());
                for (number, value) in values.iter().enumerate() {
                    assert_eq!(packed.get(number), *value, "{bits} bits");
                }
                assert_eq!(
                    packed.memory_bytes(),
                    (values.len() * bits as usize).div_ceil(64) * 8
                );
            }
        }
    }
}
