//! Computes the expected number of bits per key without building an index.

use super::code::TrieCodes;
use super::format::MAX_GROUP_LOG;

impl TrieCodes {
    /// Returns the expected length of a trie in bits, for each number of keys from 0 to `most`.
    ///
    /// A trie of n keys has an expected length of `E[n] = Σ p(s) · (bits(s, n) + E[s] + E[n - s])`
    /// bits. The sum is over the number `s` of keys that go left, which has a binomial
    /// distribution. `E[n]` itself occurs in two terms of the sum, so the equation is solved for
    /// `E[n]`.
    ///
    /// ```
    /// use alluvium_filters::trie::TrieCodes;
    /// let bits = TrieCodes::new(64).expected_trie_bits(256);
    /// assert!((bits[256] / 256.0 - 2.379).abs() < 0.001);
    /// ```
    #[must_use]
    pub fn expected_trie_bits(&self, most: u32) -> Vec<f64> {
        self.expected_sparse_bits(most, 1).swap_remove(0)
    }

    /// Returns the expected length of a trie in a sparse index, in bits. The result has a list for
    /// each offset of the first item in its block, and each list has an element for each number of
    /// keys from 0 to `most`.
    #[must_use]
    pub fn expected_sparse_bits(&self, most: u32, block_items: u32) -> Vec<Vec<f64>> {
        let blocks = block_items as usize;
        let mut bits = vec![vec![0.0; most as usize + 1]; blocks];
        // `row` holds the probability of each number of keys that go left.
        let mut row = vec![1.0f64];
        for keys in 1..=most {
            row.push(0.0);
            for left in (1..row.len()).rev() {
                row[left] = f64::midpoint(row[left], row[left - 1]);
            }
            row[0] /= 2.0;
            for into_block in 0..blocks {
                if into_block + keys as usize > blocks {
                    bits[into_block][keys as usize] = self.expected(&bits, &row, into_block);
                }
            }
        }
        bits
    }

    /// Returns the expected length of a trie in bits, given the expected lengths of all smaller
    /// ones.
    fn expected(&self, bits: &[Vec<f64>], row: &[f64], into_block: usize) -> f64 {
        let keys = row.len() - 1;
        let mut sum = 0.0;
        for (left, probability) in row.iter().enumerate() {
            sum += probability * f64::from(self.bits(left as u32, keys as u32));
            if left != 0 && left != keys {
                let right = (into_block + left) % bits.len();
                sum += probability * (bits[into_block][left] + bits[right][keys - left]);
            }
        }
        sum / (1.0 - row[0] - row[keys])
    }

    /// Returns the expected number of bits per key in a dense index, including bucket positions,
    /// for a Poisson-distributed number of keys per bucket with mean `keys_per_bucket`.
    #[must_use]
    pub fn expected_bits_per_key(&self, keys_per_bucket: u32) -> f64 {
        let mean = f64::from(keys_per_bucket);
        let most = (mean + 12.0 * mean.sqrt() + 24.0) as u32;
        let bits = self.expected_trie_bits(most);
        let mut logarithm = -mean;
        let mut trie = 0.0;
        for (keys, bits) in bits.iter().enumerate().skip(1) {
            logarithm += mean.ln() - (keys as f64).ln();
            trie += logarithm.exp() * bits;
        }
        let largest = trie.max(mean);
        let fits = |log: &u32| f64::from(1u32 << log) * largest <= f64::from(u16::MAX);
        let log = (0..=MAX_GROUP_LOG).rev().find(fits).unwrap_or(0);
        (trie + 32.0 + 128.0 / f64::from(1u32 << log)) / mean
    }
}
