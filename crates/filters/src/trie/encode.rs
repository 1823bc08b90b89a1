//! Encodes the trie of the keys in a bucket.

use super::code::TrieCodes;
use super::key::bit;
use crate::bits::BitWriter;

/// The keys of a bucket, in ascending order.
#[derive(Clone, Debug, Default)]
pub(super) struct BucketKeys {
    fractions: Vec<u64>,
    /// The bytes after the first 64 bits of every key, concatenated.
    rests: Vec<u8>,
    rest_bytes: usize,
}

impl BucketKeys {
    pub(super) fn new(rest_bytes: usize) -> BucketKeys {
        BucketKeys {
            rest_bytes,
            ..BucketKeys::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.fractions.len()
    }

    pub(super) fn push(&mut self, fraction: u64, rest: &[u8]) {
        debug_assert_eq!(rest.len(), self.rest_bytes);
        self.fractions.push(fraction);
        self.rests.extend_from_slice(rest);
    }

    pub(super) fn clear(&mut self) {
        self.fractions.clear();
        self.rests.clear();
    }

    /// Returns the index of the first key in a range that goes right at `depth`. All keys before it
    /// go left.
    fn split(&self, begin: usize, end: usize, depth: u32) -> usize {
        let (mut low, mut high) = (begin, end);
        while low < high {
            let middle = low.midpoint(high);
            let rest = self.rest_bytes * middle..self.rest_bytes * (middle + 1);
            if bit(self.fractions[middle], &self.rests[rest], depth) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

#[derive(Debug)]
pub(super) struct TrieEncoder<'a> {
    pub(super) codes: &'a TrieCodes,
    pub(super) keys: &'a BucketKeys,
    pub(super) block_items: u32,
    /// Maximum depth of a trie, which is the number of bits in a key.
    pub(super) key_bits: u32,
}

impl TrieEncoder<'_> {
    /// Appends the trie of all keys. `into_block` is the offset of the first key's item in its
    /// block.
    pub(super) fn encode(&self, out: &mut BitWriter, into_block: u32) {
        self.subtrie(out, 0, self.keys.len(), 0, into_block);
    }

    /// Appends the trie of a range of keys, which share all bits above `depth`.
    fn subtrie(&self, out: &mut BitWriter, begin: usize, end: usize, depth: u32, into_block: u32) {
        let (mut begin, mut depth, mut into_block) = (begin, depth, into_block);
        while into_block + (end - begin) as u32 > self.block_items.max(1) {
            assert!(depth < self.key_bits, "T4: two keys are equal");
            let split = self.keys.split(begin, end, depth);
            let (left, keys) = ((split - begin) as u32, (end - begin) as u32);
            self.codes.encode(out, left, keys);
            depth += 1;
            if left == 0 || left == keys {
                continue;
            }
            self.subtrie(out, begin, split, depth, into_block);
            begin = split;
            into_block = (into_block + left) % self.block_items;
        }
    }
}
