//! Lookups in a static data index.

use super::build::verify_key;
use super::error::{Error, Result};
use super::format::{IndexFileHeader, hash_of, head_of, open_block};
use super::install::{data_name, read_header};
use super::options::{FixedRecordLayout, StaticIndexKind, StaticIndexOptions};
use alluvium_base::Purpose;
use alluvium_device::{Device, Directory, FileOptions};
use alluvium_filters::trie::TrieCodes;
use alluvium_filters::{pachash, trie};
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of times to retry opening the files when an update replaces them concurrently.
const TRIES: u32 = 10;

/// An open static data index. Any number of threads may use it concurrently.
#[derive(Debug)]
pub struct StaticIndex {
    pub(super) header: IndexFileHeader,
    pub(super) codes: TrieCodes,
    pub(super) bytes: Vec<u8>,
    pub(super) device: Arc<dyn Device>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StaticIndexStats {
    pub kind: StaticIndexKind,
    /// Lengths of records and blocks.
    pub shape: FixedRecordLayout,
    /// Hash seed for keys.
    pub seed: u64,
    pub records: u64,
    pub blocks: u64,
    /// Size of the data file, in bytes.
    pub data_bytes: u64,
    /// Size of the tries or block index in memory, in bytes.
    pub index_bytes: u64,
    /// Size of the index in bits per key.
    pub bits_per_key: f64,
}

impl StaticIndex {
    /// Opens an index. Loads its tries or block index into memory, and opens its data file.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::NewerFormat`], and I/O errors.
    pub fn open(directory: &dyn Directory, name: &str) -> Result<StaticIndex> {
        let mut tries = 0;
        loop {
            let (header, bytes) = read_header(directory, name)?;
            let file = data_name(name, header.data);
            match directory.open(&file, FileOptions::DIRECT.read_only()) {
                Ok(device) => return StaticIndex::with(name, header, bytes, device),
                // An update has just replaced both files, so read the new index file.
                Err(alluvium_device::Error::NotFound { .. }) if tries < TRIES => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn with(
        name: &str,
        header: IndexFileHeader,
        bytes: Vec<u8>,
        device: Arc<dyn Device>,
    ) -> Result<StaticIndex> {
        let blocks = header.shape.blocks(header.records);
        let whole = blocks.checked_mul(header.shape.block_bytes.into());
        if whole != Some(device.len()) {
            return Err(Error::Damaged {
                file: device.name().to_owned(),
                offset: 0,
                expected: format!("{blocks} blocks of {} bytes", header.shape.block_bytes),
                found: format!("{} bytes", device.len()),
            });
        }
        let damaged = |expected: String, found: String| Error::Damaged {
            file: name.to_owned(),
            offset: super::format::HEADER_BYTES as u64,
            expected,
            found,
        };
        let found = match header.kind {
            StaticIndexKind::Blocks => pachash::BlockIndex::open(&bytes)?.objects(),
            StaticIndexKind::Dense | StaticIndexKind::Sparse => {
                let hmax = trie::TrieIndex::hmax_of(&bytes)?;
                if hmax != header.hmax {
                    return Err(damaged(format!("codes of {}", header.hmax), hmax.to_string()));
                }
                let codes = TrieCodes::new(header.hmax);
                trie::TrieIndex::open(&codes, super::format::HASH_BYTES as u32, &bytes)?.keys()
            }
        };
        if found != header.records {
            return Err(damaged(format!("{} records", header.records), found.to_string()));
        }
        Ok(StaticIndex {
            codes: TrieCodes::new(header.hmax.max(1)),
            header,
            bytes,
            device,
        })
    }

    /// Returns the options that the index was built with.
    #[must_use]
    pub fn options(&self) -> StaticIndexOptions {
        let shape = self.header.shape;
        StaticIndexOptions {
            shape,
            kind: self.header.kind,
            seed: self.header.seed,
            keys_per_bucket: self.header.keys_per_bucket,
            hmax: self.header.hmax,
            ..StaticIndexOptions::new(shape.key_bytes, shape.value_bytes)
        }
    }

    #[must_use]
    pub fn stat(&self) -> StaticIndexStats {
        let (header, index_bytes) = (&self.header, self.bytes.len() as u64);
        StaticIndexStats {
            kind: header.kind,
            shape: header.shape,
            seed: header.seed,
            records: header.records,
            blocks: header.shape.blocks(header.records),
            data_bytes: self.device.len(),
            index_bytes,
            bits_per_key: index_bytes as f64 * 8.0 / header.records.max(1) as f64,
        }
    }

    /// Returns the value of a key, or `None` if the index does not contain it.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Damaged`], and I/O errors.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (blocks, record) = self.locate(key)?;
        for block in blocks {
            let bytes = self.read(block)?;
            let found = match record {
                Some(record) => self.value_at(&bytes, record, key),
                None => (0..self.records_of(block)).find_map(|record| self.value_at(&bytes, record, key)),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Returns where the record of a key must be if the key is present, without reading records: a
    /// range of blocks and, if it is known, the record's index in its block.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::Filter`] if the tries or the block index are damaged.
    pub fn locate(&self, key: &[u8]) -> Result<(Range<u64>, Option<usize>)> {
        verify_key(&self.options(), key)?;
        let hash = hash_of(self.header.seed, key);
        let per_block = self.header.shape.block_records();
        let (blocks, record) = match self.header.kind {
            StaticIndexKind::Blocks => (
                pachash::BlockIndex::open(&self.bytes)?.blocks(head_of(&hash))?,
                None,
            ),
            kind => {
                let index = trie::TrieIndex::open(&self.codes, hash.len() as u32, &self.bytes)?;
                match (index.lookup(&hash)?, kind) {
                    (None, _) => (0..0, None),
                    (Some(block), StaticIndexKind::Sparse) => (block..block.saturating_add(1), None),
                    (Some(item), _) => {
                        let block = item / per_block;
                        (block..block + 1, Some((item % per_block) as usize))
                    }
                }
            }
        };
        let all = self.header.shape.blocks(self.header.records);
        if blocks.end > all {
            return Err(Error::Damaged {
                file: self.device.name().to_owned(),
                offset: 0,
                expected: format!("a block below {all}"),
                found: format!("{blocks:?}"),
            });
        }
        Ok((blocks, record))
    }

    /// Returns the value of a key by a binary search of the blocks, without the tries or the block
    /// index.
    ///
    /// # Errors
    /// The same errors as [`StaticIndex::get`].
    pub fn search(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        verify_key(&self.options(), key)?;
        let hash = hash_of(self.header.seed, key);
        let (mut low, mut high) = (0, self.header.shape.blocks(self.header.records));
        while low < high {
            let middle = low.midpoint(high);
            let bytes = self.read(middle)?;
            let hash_at = |record| hash_of(self.header.seed, self.record_at(&bytes, record).0);
            let records = self.records_of(middle);
            if hash < hash_at(0) {
                high = middle;
            } else if hash > hash_at(records - 1) {
                low = middle + 1;
            } else {
                return Ok((0..records).find_map(|record| self.value_at(&bytes, record, key)));
            }
        }
        Ok(None)
    }

    /// Returns the number of records in a block. An empty block counts as having one record.
    pub(super) fn records_of(&self, block: u64) -> usize {
        let per_block = self.header.shape.block_records();
        let left = self.header.records - (block * per_block).min(self.header.records);
        left.clamp(1, per_block) as usize
    }

    /// Splits record number `record` of a block into its key and value.
    fn record_at<'b>(&self, block: &'b [u8], record: usize) -> (&'b [u8], &'b [u8]) {
        let bytes = self.header.shape.record_bytes();
        block[record * bytes..(record + 1) * bytes].split_at(self.header.shape.key_bytes as usize)
    }

    fn value_at(&self, block: &[u8], record: usize, key: &[u8]) -> Option<Vec<u8>> {
        let (found, value) = self.record_at(block, record);
        (found == key).then(|| value.to_vec())
    }

    /// Reads a block and verifies its checksum.
    fn read(&self, block: u64) -> Result<alluvium_device::AlignedBuffer> {
        let size = self.header.shape.block_bytes;
        let offset = block * u64::from(size);
        let bytes = self.device.read_at(offset, size as usize, Purpose::Lookup)?;
        match open_block(block, &bytes, 0) {
            Ok(_) => Ok(bytes),
            Err((expected, found)) => Err(Error::Damaged {
                file: self.device.name().to_owned(),
                offset,
                expected,
                found,
            }),
        }
    }
}
