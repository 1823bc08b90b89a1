//! Decodes the trie of a bucket to find the item of a key.

use super::code::{SMALL, TrieCodes};
use super::key::KeyBits;

/// Reader of a bucket's bits, which may be invalid.
#[derive(Debug)]
pub(super) struct TrieWalk<'a> {
    pub(super) codes: &'a TrieCodes,
    pub(super) stream: &'a [u8],
    /// `at` is the current bit offset, and `end` is where the bucket's bits end.
    pub(super) at: u64,
    pub(super) end: u64,
    pub(super) block_items: u32,
    pub(super) key_bits: u32,
}

/// Why a trie is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrieFault {
    /// There is no valid code word before the end of the bucket's bits.
    Word,
    /// The trie has more levels than a key has bits.
    Depth,
}

impl TrieWalk<'_> {
    /// Returns the index of a key in a trie of `keys` keys, of which there must be at least one.
    /// `into_block` is the offset of the first key's item in its block. In a sparse index, the
    /// result is the index of the first item in the key's block.
    #[inline]
    pub(super) fn rank(&mut self, key: KeyBits<'_>, keys: u32, into_block: u32) -> Result<u32, TrieFault> {
        let (mut keys, mut into_block, mut index) = (keys, into_block, 0);
        let mut depth = 0;
        while into_block + keys > self.block_items {
            let left = self.decode(keys, depth)?;
            if left != 0 {
                if key.goes_right(depth) {
                    if self.block_items == 1 {
                        self.skip_dense(left, depth + 1)?;
                    } else {
                        self.skip(left, into_block, depth + 1)?;
                    }
                    index += left;
                    keys -= left;
                    into_block = self.advance(into_block, left);
                } else {
                    keys = left;
                }
            }
            depth += 1;
        }
        Ok(index)
    }

    /// Skips the bits of the trie of `keys` keys.
    pub(super) fn skip(&mut self, keys: u32, into_block: u32, depth: u32) -> Result<(), TrieFault> {
        let (mut keys, mut into_block, mut depth) = (keys, into_block, depth);
        while into_block + keys > self.block_items {
            let left = self.decode(keys, depth)?;
            depth += 1;
            if left != 0 {
                if into_block + left > self.block_items {
                    // The number of bits in a key limits the depth of the recursion (T4).
                    self.skip(left, into_block, depth)?;
                }
                keys -= left;
                into_block = self.advance(into_block, left);
            }
        }
        Ok(())
    }

    /// Skips the bits of a trie in a dense index. Small subtries are skipped with a table lookup,
    /// without counting their levels.
    fn skip_dense(&mut self, keys: u32, depth: u32) -> Result<(), TrieFault> {
        let (mut keys, mut depth) = (keys, depth);
        while keys > 1 {
            if keys <= SMALL {
                let bits = self.codes.small_trie(self.stream, self.at, keys);
                if bits != 0 {
                    return self.pass(bits);
                }
            }
            let left = self.decode(keys, depth)?;
            depth += 1;
            if left > 1 {
                self.skip_dense(left, depth)?;
            }
            keys -= left;
        }
        Ok(())
    }

    #[inline]
    fn pass(&mut self, bits: u32) -> Result<(), TrieFault> {
        self.at += u64::from(bits);
        if self.at > self.end {
            Err(TrieFault::Word)
        } else {
            Ok(())
        }
    }

    #[inline]
    fn advance(&self, into_block: u32, items: u32) -> u32 {
        let into_block = into_block + items;
        if self.block_items == 1 {
            0
        } else if into_block < self.block_items {
            into_block
        } else {
            into_block % self.block_items
        }
    }

    /// Decodes how many keys go left at a node with at least two keys. Returns 0 if all keys go to
    /// the same side.
    #[inline]
    fn decode(&mut self, keys: u32, depth: u32) -> Result<u32, TrieFault> {
        if depth >= self.key_bits {
            return Err(TrieFault::Depth);
        }
        let (left, bits) = self
            .codes
            .decode(self.stream, self.at, keys)
            .ok_or(TrieFault::Word)?;
        self.pass(bits)?;
        Ok(left)
    }
}
