//! Decodes a trie: finds the item of its bucket that a key leads to.

use super::code::{SMALL, TrieCodes};
use super::key::KeyBits;

/// A reader of one bucket's bits, which are not trusted.
#[derive(Debug)]
pub(super) struct TrieWalk<'a> {
    pub(super) codes: &'a TrieCodes,
    pub(super) stream: &'a [u8],
    /// Current bit, and the end of the bucket's bits.
    pub(super) at: u64,
    pub(super) end: u64,
    pub(super) block_items: u32,
    pub(super) key_bits: u32,
}

/// Why a trie is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrieFault {
    /// A code word that encodes no number of keys, or the end of the bucket's bits.
    Word,
    /// More levels than a key has bits.
    Depth,
}

impl TrieWalk<'_> {
    /// Finds the index of a key among `keys` (one or more) keys. The first key's item has offset
    /// `into_block` in its block. In a sparse index, returns the index of the first item of the
    /// key's block.
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

    /// Skips the trie of `keys` keys.
    pub(super) fn skip(&mut self, keys: u32, into_block: u32, depth: u32) -> Result<(), TrieFault> {
        let (mut keys, mut into_block, mut depth) = (keys, into_block, depth);
        while into_block + keys > self.block_items {
            let left = self.decode(keys, depth)?;
            depth += 1;
            if left != 0 {
                if into_block + left > self.block_items {
                    // The depth is bounded by the key's bits (T4).
                    self.skip(left, into_block, depth)?;
                }
                keys -= left;
                into_block = self.advance(into_block, left);
            }
        }
        Ok(())
    }

    /// Skips a trie of a dense index. Small subtries are skipped at once, without counting their
    /// levels.
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

    /// Decodes how many of two or more keys go left; 0 if all go the same way.
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
