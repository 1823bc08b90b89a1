//! An index in bytes: looking keys up.

use super::build::damaged;
use super::code::Codes;
use super::format::{FRAME, Header};
use super::key::KeyBits;
use super::shape::{MAX_BUCKET_KEYS, Shape};
use super::walk::{Bad, Walk};
use crate::{Error, Result};
use alluvium_base::prefetch;
use std::ops::Range;

/// An index of tries in bytes. Any number of threads may look up at once.
#[derive(Clone, Copy, Debug)]
pub struct Index<'a> {
    codes: &'a Codes,
    pub(super) header: Header,
    pub(super) bytes: &'a [u8],
    stream: &'a [u8],
}

/// What an index says of a bucket: its keys, the first one's index, and where its trie's bits
/// are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) bit: u64,
    pub(super) end: u64,
    pub(super) item: u64,
    pub(super) keys: u32,
}

impl<'a> Index<'a> {
    /// Returns up to how many keys an index's tries are Huffman-coded: which codes open it.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the bytes are no index.
    pub fn hmax_of(bytes: &[u8]) -> Result<u32> {
        Ok(Header::read(bytes)?.shape.hmax)
    }

    /// Opens an index of keys of `key_bytes` bytes: reads its header, and checks that the bytes
    /// are as many as it says. The checksum is left to [`Index::check`].
    ///
    /// # Errors
    /// [`Error::Damaged`] when the header is none, or the length or that of keys is wrong;
    /// [`Error::Shape`] when the codes are of another `hmax`.
    pub fn open(codes: &'a Codes, key_bytes: u32, bytes: &'a [u8]) -> Result<Index<'a>> {
        let header = Header::read(bytes)?;
        if header.shape.key_bytes != key_bytes {
            let (expected, found) = (key_bytes.to_string(), header.shape.key_bytes.to_string());
            return Err(FRAME.damaged(8, "bytes of a key", expected, found));
        }
        if header.shape.hmax != codes.hmax() {
            let what = format!("a trie index with codes for {} keys", codes.hmax());
            return Err(Error::shape(what, format!("codes for {}", header.shape.hmax)));
        }
        Ok(Index {
            codes,
            header,
            bytes,
            stream: header.stream(bytes),
        })
    }

    /// Returns what was chosen when it was built; the average keys of a bucket are rounded.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let average = self.header.keys / self.header.buckets;
        Shape {
            keys_per_bucket: average.try_into().unwrap_or(u32::MAX),
            ..self.header.shape
        }
    }

    /// Returns how many keys it has.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.header.keys
    }

    /// Returns how many buckets the keys are split into.
    #[must_use]
    pub fn buckets(&self) -> u64 {
        self.header.buckets
    }

    /// Returns how many bits the tries have, without the buckets' places.
    #[must_use]
    pub fn trie_bits(&self) -> u64 {
        self.header.bits
    }

    /// Returns the bucket of a key.
    ///
    /// # Panics
    /// When the key has another length than the shape says.
    #[must_use]
    pub fn bucket_of(&self, key: &[u8]) -> u64 {
        self.split(key).0
    }

    /// Returns the indexes of a bucket's items.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the index says something impossible of the bucket.
    pub fn items(&self, bucket: u64) -> Result<Range<u64>> {
        let part = self.part(bucket)?;
        Ok(part.item..part.item + u64::from(part.keys))
    }

    /// Asks the processor for what a lookup of this key reads first.
    pub fn prefetch(&self, key: &[u8]) {
        if let Some(start) = self.header.start(self.bytes, self.split(key).0) {
            prefetch(self.stream, (start.bit / 8) as usize);
        }
    }

    /// Finds where a key is if it is there: the index of its item in a dense index, the number
    /// of its block in a sparse one. Nothing when its bucket has no key. A key that is not
    /// there leads to some item or block of its bucket; the owner compares keys.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the bucket's trie is none.
    ///
    /// # Panics
    /// When the key has another length than the shape says.
    pub fn lookup(&self, key: &[u8]) -> Result<Option<u64>> {
        let (bucket, bits) = self.split(key);
        let part = self.part(bucket)?;
        if part.keys == 0 {
            return Ok(None);
        }
        let block_items = self.header.shape.block_items;
        let block = u64::from(block_items);
        let into_block = if block_items == 1 {
            0
        } else {
            (part.item % block) as u32
        };
        let rank = self.walk(&part).rank(bits, part.keys, into_block);
        let item = part.item + u64::from(rank.map_err(|bad| not_a_trie(bucket, bad))?);
        Ok(Some(if block_items == 1 { item } else { item / block }))
    }

    pub(super) fn walk(&self, part: &Part) -> Walk<'a> {
        Walk {
            codes: self.codes,
            stream: self.stream,
            at: part.bit,
            end: part.end,
            block_items: self.header.shape.block_items,
            key_bits: self.header.shape.key_bits(),
        }
    }

    pub(super) fn stream(&self) -> &'a [u8] {
        self.stream
    }

    /// What the index says of a bucket, checked to be possible.
    #[inline]
    pub(super) fn part(&self, bucket: u64) -> Result<Part> {
        let starts = (
            self.header.start(self.bytes, bucket),
            self.header.start(self.bytes, bucket.saturating_add(1)),
        );
        if let (Some(begin), Some(end)) = starts
            && begin.bit <= end.bit
            && end.bit <= self.header.bits
            && begin.item <= end.item
            && end.item - begin.item <= MAX_BUCKET_KEYS.into()
        {
            return Ok(Part {
                bit: begin.bit,
                end: end.bit,
                item: begin.item,
                keys: (end.item - begin.item) as u32,
            });
        }
        let found = format!("{starts:?}");
        Err(damaged(bucket, "places of buckets", "rising", &found))
    }

    #[inline]
    fn split<'k>(&self, key: &'k [u8]) -> (u64, KeyBits<'k>) {
        assert_eq!(key.len(), self.header.shape.key_bytes as usize, "bytes of a key");
        KeyBits::of(key, self.header.buckets)
    }
}

/// The error for bits that are no trie.
pub(super) fn not_a_trie(bucket: u64, bad: Bad) -> Error {
    let found = match bad {
        Bad::Word => "a code word that no number has, or none",
        Bad::Depth => "more levels than a key has bits",
    };
    damaged(bucket, "trie", "as many code words as its keys need", found)
}
