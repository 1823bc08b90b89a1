//! Builds the tries or the block index from records in hash order.

use super::data::DataReader;
use super::error::Result;
use super::format::{HASH_BYTES, hash_of, head_of};
use super::options::{StaticIndexKind, StaticIndexOptions};
use alluvium_device::Device;
use alluvium_filters::trie::TrieCodes;
use alluvium_filters::{pachash, trie};

/// Builds an index while its records are being written. The number of records must be given in
/// advance. If it turns out to be wrong and the index depends on it, the index is rebuilt from the
/// data file.
#[derive(Debug)]
pub(super) struct Indexer<'c> {
    options: StaticIndexOptions,
    expected: u64,
    pushed: u64,
    building: IndexerState<'c>,
}

#[derive(Debug)]
enum IndexerState<'c> {
    Trie(Box<trie::TrieIndexBuilder<'c>>),
    Blocks(Box<pachash::BlockIndexBuilder>),
    /// More records arrived than expected, so the index was discarded.
    Over,
}

/// Returns the shape of the tries in an index with these options.
pub(super) fn trie_shape(options: &StaticIndexOptions) -> trie::TrieShape {
    trie::TrieShape {
        hmax: options.hmax,
        block_items: match options.kind {
            StaticIndexKind::Sparse => options.shape.block_records() as u32,
            StaticIndexKind::Dense | StaticIndexKind::Blocks => 1,
        },
        keys_per_bucket: options.keys_per_bucket,
        ..trie::TrieShape::new(HASH_BYTES as u32)
    }
}

/// Returns the shape of the block index. It is computed from the record bytes alone, without
/// padding and checksums, so that blocks count as full.
fn pachash_shape(options: &StaticIndexOptions, records: u64) -> Result<pachash::BlockIndexShape> {
    let record = options.shape.record_bytes() as u64;
    let block = record * options.shape.block_records();
    Ok(pachash::BlockIndexShape::new(
        records.saturating_mul(record),
        block as u32,
    )?)
}

impl<'c> Indexer<'c> {
    /// Starts an index for `expected` records.
    pub(super) fn new(
        codes: &'c TrieCodes,
        options: StaticIndexOptions,
        expected: u64,
    ) -> Result<Indexer<'c>> {
        let building = match options.kind {
            StaticIndexKind::Dense | StaticIndexKind::Sparse => {
                let shape = trie_shape(&options);
                let builder = trie::TrieIndexBuilder::new(codes, shape, shape.buckets(expected))?;
                IndexerState::Trie(Box::new(builder))
            }
            StaticIndexKind::Blocks => IndexerState::Blocks(Box::new(pachash::BlockIndexBuilder::new(
                pachash_shape(&options, expected)?,
            ))),
        };
        Ok(Indexer {
            options,
            expected,
            pushed: 0,
            building,
        })
    }

    /// Adds the hash of the next record.
    pub(super) fn push(&mut self, hash: &[u8; HASH_BYTES]) -> Result<()> {
        self.pushed += 1;
        if self.pushed > self.expected {
            self.building = IndexerState::Over;
        }
        match &mut self.building {
            IndexerState::Trie(builder) => builder.push(hash)?,
            IndexerState::Blocks(builder) => {
                builder.push(head_of(hash), self.options.shape.record_bytes() as u64)?;
            }
            IndexerState::Over => {}
        }
        Ok(())
    }

    /// Returns the encoded index, or `None` if its shape depends on the number of records and this
    /// number was not as expected.
    fn finish(self) -> Result<Option<Vec<u8>>> {
        Ok(match self.building {
            IndexerState::Trie(builder) => {
                let shape = trie_shape(&self.options);
                let is_alike = shape.buckets(self.pushed) == shape.buckets(self.expected);
                is_alike.then(|| builder.finish())
            }
            IndexerState::Blocks(builder) if self.pushed == self.expected => Some(builder.finish()?),
            IndexerState::Blocks(_) | IndexerState::Over => None,
        })
    }

    /// Returns the encoded index of the records that were pushed. If necessary, builds it from the
    /// data file `device`, which must contain them.
    pub(super) fn finish_for(self, device: &dyn Device, codes: &TrieCodes) -> Result<Vec<u8>> {
        let (options, records) = (self.options, self.pushed);
        match self.finish()? {
            Some(index) => Ok(index),
            None => from_file(device, codes, options, records),
        }
    }
}

/// Builds an index by reading its data file.
pub(super) fn from_file(
    device: &dyn Device,
    codes: &TrieCodes,
    options: StaticIndexOptions,
    records: u64,
) -> Result<Vec<u8>> {
    let mut indexer = Indexer::new(codes, options, records)?;
    let mut reader = DataReader::new(device, options.seed, options.shape, records);
    while let Some(record) = reader.next()? {
        indexer.push(&hash_of(
            options.seed,
            &record[..options.shape.key_bytes as usize],
        ))?;
    }
    let index = indexer.finish()?;
    Ok(index.expect("as many records as were expected"))
}
