//! Elias–Fano code of an ascending sequence of numbers.
//!
//! Each number is split into an upper part and lower bits. Upper parts are written in unary: for
//! each value of the upper part, starting at 0, there is a one for every number with this value,
//! followed by a zero. The lower bits of all numbers are written one after another.

use crate::bits::{BitWriter, peek, take};

/// Number of zeros between two samples.
pub(super) const SAMPLED: u64 = 512;

/// Number of bits returned by one load.
const LOAD: u32 = 57;

/// Encoder that writes the two streams and the samples of an [`EliasFanoSequence`].
#[derive(Debug)]
pub(super) struct SequenceWriter {
    pub(super) upper: BitWriter,
    pub(super) lower: BitWriter,
    /// Bit offsets in the upper stream where the numbers with upper parts 0, [`SAMPLED`], 2 ·
    /// [`SAMPLED`], and so on start.
    pub(super) samples: Vec<u64>,
    lower_bits: u32,
    /// Upper part of the numbers being written.
    at: u64,
}

impl SequenceWriter {
    pub(super) fn new(lower_bits: u32) -> SequenceWriter {
        SequenceWriter {
            upper: BitWriter::new(),
            lower: BitWriter::new(),
            samples: vec![0],
            lower_bits,
            at: 0,
        }
    }

    /// Appends a number, which must not be less than the previous one.
    pub(super) fn push(&mut self, number: u64) {
        self.advance(number >> self.lower_bits);
        self.upper.push(1, 1);
        self.lower
            .push(number & ((1 << self.lower_bits) - 1), self.lower_bits);
    }

    /// Advances to the numbers with upper part `upper`.
    pub(super) fn advance(&mut self, upper: u64) {
        assert!(upper >= self.at, "B2: numbers rise");
        while self.at < upper {
            self.upper.push(0, 1);
            self.at += 1;
            if self.at.is_multiple_of(SAMPLED) {
                self.samples.push(self.upper.len());
            }
        }
    }
}

/// Decoder of a sequence, whose bytes may be invalid.
#[derive(Clone, Copy, Debug)]
pub(super) struct EliasFanoSequence<'b> {
    pub(super) upper: &'b [u8],
    pub(super) lower: &'b [u8],
    pub(super) lower_bits: u32,
    pub(super) len: u64,
}

impl EliasFanoSequence<'_> {
    /// Returns how many elements are less than `number`, and how many are at most `number`.
    /// `sample` is the bit offset of the numbers whose upper part is the nearest multiple of
    /// [`SAMPLED`] at or below that of `number`. Returns `None` if the bytes are not a valid
    /// sequence.
    #[inline]
    pub(super) fn rank(&self, number: u64, sample: u64) -> Option<(u64, u64)> {
        let (upper, lower) = (number >> self.lower_bits, number & ((1 << self.lower_bits) - 1));
        let begin = self.skip_zeros(sample, (upper % SAMPLED) as u32)?;
        let before = begin.checked_sub(upper)?;
        let run = self.run(begin);
        if before.checked_add(run)? > self.len {
            return None;
        }
        let less = self.first(before, run, |found| found >= lower);
        let not_greater = self.first(before, run, |found| found > lower);
        Some((before + less, before + not_greater))
    }

    /// Returns the bit offset after the next `zeros` zeros, starting at offset `bit`.
    #[inline]
    fn skip_zeros(&self, bit: u64, mut zeros: u32) -> Option<u64> {
        let mut at = bit;
        if at > self.upper.len() as u64 * 8 {
            return None;
        }
        while zeros > 0 {
            let unset = !peek(self.upper, at) & ((1 << LOAD) - 1);
            let here = unset.count_ones();
            if here >= zeros {
                return Some(at + u64::from(select(unset, zeros - 1)) + 1);
            }
            zeros -= here;
            at += u64::from(LOAD);
        }
        Some(at)
    }

    /// Returns the number of consecutive ones starting at offset `bit`.
    #[inline]
    fn run(&self, bit: u64) -> u64 {
        let mut at = bit;
        loop {
            let ones = (peek(self.upper, at) | !0 << LOAD).trailing_ones();
            if ones < LOAD {
                return at - bit + u64::from(ones);
            }
            at += u64::from(LOAD);
        }
    }

    /// Returns the index of the first element in a run whose lower bits satisfy the predicate,
    /// which all later elements of the run must satisfy, too.
    #[inline]
    fn first(&self, begin: u64, run: u64, is_so: impl Fn(u64) -> bool) -> u64 {
        let (mut low, mut high) = (0, run);
        while low < high {
            let middle = low.midpoint(high);
            if is_so(self.lower(begin + middle)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    fn lower(&self, index: u64) -> u64 {
        take(
            self.lower,
            index.wrapping_mul(self.lower_bits.into()),
            self.lower_bits,
        )
    }

    /// Returns all elements, of which there are as many as ones in the upper stream.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> {
        let bits = self.upper.len() as u64 * 8;
        let set = (0..bits).filter(|&bit| take(self.upper, bit, 1) == 1);
        (0..)
            .zip(set)
            .map(|(index, bit)| (bit - index) << self.lower_bits | self.lower(index))
    }
}

/// Returns the position of the set bit with index `number`, where the lowest set bit has index 0.
/// The word must have more than `number` set bits.
#[inline]
fn select(mut word: u64, number: u32) -> u32 {
    for _ in 0..number {
        word &= word - 1;
    }
    word.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranks_are_those_of_the_sorted_numbers(
            mut numbers in proptest::collection::vec(prop_oneof![3 => 0u64..12_000, 1 => Just(5000u64)], 0..900),
            asked in proptest::collection::vec(0u64..12_000, 60), lower_bits in 0u32..12,
        ) {
            numbers.sort_unstable();
            let mut writer = SequenceWriter::new(lower_bits);
            numbers.iter().for_each(|&number| writer.push(number));
            writer.advance((12_000 >> lower_bits) + 1);
            let (upper, lower, samples) = (writer.upper.finish(), writer.lower.finish(), writer.samples);
            let sequence = EliasFanoSequence { upper: &upper, lower: &lower, lower_bits, len: numbers.len() as u64 };
            prop_assert!(sequence.numbers().eq(numbers.iter().copied()));
            for number in asked {
                let sample = samples[((number >> lower_bits) / SAMPLED) as usize];
                let less = numbers.partition_point(|&other| other < number) as u64;
                let not_greater = numbers.partition_point(|&other| other <= number) as u64;
                prop_assert_eq!(sequence.rank(number, sample), Some((less, not_greater)));
            }
        }
    }
}
