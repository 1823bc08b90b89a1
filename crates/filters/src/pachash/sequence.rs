//! A rising sequence of numbers after Elias and Fano.
//!
//! The numbers' upper parts are written in unary: for each upper part in turn a set bit for
//! every number that has it, then a zero. Their lower bits are written side by side.

use crate::bits::{BitWriter, peek, take};

/// Zeros from one sample to the next.
pub(super) const SAMPLED: u64 = 512;

/// Bits of a load.
const LOAD: u32 = 57;

/// Writes a sequence.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) upper: BitWriter,
    pub(super) lower: BitWriter,
    /// Where the numbers begin whose upper part is 0, [`SAMPLED`], twice that, …
    pub(super) samples: Vec<u64>,
    lower_bits: u32,
    /// The upper part whose numbers are being written.
    at: u64,
}

impl Writer {
    pub(super) fn new(lower_bits: u32) -> Writer {
        Writer {
            upper: BitWriter::new(),
            lower: BitWriter::new(),
            samples: vec![0],
            lower_bits,
            at: 0,
        }
    }

    /// Appends a number that is not less than the one before.
    pub(super) fn push(&mut self, number: u64) {
        self.advance(number >> self.lower_bits);
        self.upper.push(1, 1);
        self.lower
            .push(number & ((1 << self.lower_bits) - 1), self.lower_bits);
    }

    /// Goes on to the numbers with an upper part.
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

/// A sequence in bytes that are not trusted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence<'b> {
    pub(super) upper: &'b [u8],
    pub(super) lower: &'b [u8],
    pub(super) lower_bits: u32,
    /// How many numbers there are.
    pub(super) len: u64,
}

impl Sequence<'_> {
    /// Returns how many of the numbers are less than one, and how many not greater. `sample` is
    /// where the numbers begin whose upper part is the multiple of [`SAMPLED`] before the
    /// number's. Nothing when the bytes are no sequence.
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

    /// Returns the bit behind some zeros.
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

    /// Returns how many set bits follow each other from a bit on.
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

    /// Returns the first of a run's numbers whose lower bits are so, all behind it being so
    /// too.
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

    /// Returns all numbers, as many as the upper bits have.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> {
        let bits = self.upper.len() as u64 * 8;
        let set = (0..bits).filter(|&bit| take(self.upper, bit, 1) == 1);
        (0..)
            .zip(set)
            .map(|(index, bit)| (bit - index) << self.lower_bits | self.lower(index))
    }
}

/// Returns the place of a word's set bit with a number; the first is 0. It has as many.
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
            let mut writer = Writer::new(lower_bits);
            numbers.iter().for_each(|&number| writer.push(number));
            writer.advance((12_000 >> lower_bits) + 1);
            let (upper, lower, samples) = (writer.upper.finish(), writer.lower.finish(), writer.samples);
            let sequence = Sequence { upper: &upper, lower: &lower, lower_bits, len: numbers.len() as u64 };
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
