//! The fastest portable Bloom filter: a hash selects a line of eight words, and one bit in each of
//! them (the "split block" of Putze, Sanders, Singler, "Cache-, hash- and space-efficient bloom
//! filters", 2007, and of Parquet). No branch, one line, eight bits for any size. It occupies one
//! contiguous allocation, without pages.

use alluvium_base::prefetch_line;

const WORDS: usize = 8;

/// Odd numbers from Parquet's specification. The highest bits of their products with a hash select
/// the bits.
const SALTS: [u32; WORDS] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// A line of the processor's cache.
#[derive(Clone)]
#[repr(align(64))]
struct Line([u64; WORDS]);

/// The lines of a filter.
pub(crate) struct SplitBlock {
    lines: Vec<Line>,
}

impl SplitBlock {
    /// Builds a filter of these keys with at most this false-positive rate.
    pub(crate) fn build(hashes: &[u64], rate: f64) -> SplitBlock {
        let (mut low, mut high) = (1, hashes.len().max(1));
        while low < high {
            let middle = low + (high - low) / 2;
            if false_positive_rate(hashes.len() as f64 / middle as f64) <= rate {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let mut filter = SplitBlock {
            lines: vec![Line([0; WORDS]); low],
        };
        for &hash in hashes {
            let line = filter.line_of(hash);
            for (word, shift) in filter.lines[line].0.iter_mut().zip(shifts_of(hash)) {
                *word |= 1 << shift;
            }
        }
        filter
    }

    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }

    #[inline(always)]
    pub(crate) fn contains(&self, hash: u64) -> bool {
        let line = &self.lines[self.line_of(hash)].0;
        let bits = line.iter().zip(shifts_of(hash));
        bits.fold(1, |set, (word, shift)| set & (word >> shift)) == 1
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch_line(&self.lines[self.line_of(hash)]);
    }

    #[inline(always)]
    fn line_of(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.lines.len() as u128) >> 64) as usize
    }
}

/// Returns the bit that a hash sets in each word.
#[inline(always)]
fn shifts_of(hash: u64) -> [u32; WORDS] {
    SALTS.map(|salt| (hash as u32).wrapping_mul(salt) >> (u32::BITS - u64::BITS.ilog2()))
}

/// Returns the false-positive rate: the probability that a bit is set in each word of a line,
/// averaged over a Poisson number of keys per line.
fn false_positive_rate(per_line: f64) -> f64 {
    let unset = 1.0 - 1.0 / f64::from(u64::BITS);
    let mut probability = (-per_line).exp();
    (1..600u32).fold(0.0, |rate, keys| {
        probability *= per_line / f64::from(keys);
        rate + probability * (1.0 - unset.powi(keys as i32)).powi(WORDS as i32)
    })
}
