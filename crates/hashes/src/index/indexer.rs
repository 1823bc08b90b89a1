//! Building the tries or the block index of records in hash order.

use super::data::DataReader;
use super::error::Result;
use super::format::{HASH_BYTES, hash_of, head_of};
use super::options::{Kind, Options};
use alluvium_device::Device;
use alluvium_filters::trie::Codes;
use alluvium_filters::{pachash, trie};

/// Builds the index while records are written. The number of records must be given in advance; if
/// it turns out to be wrong, the index is built from the file afterwards.
#[derive(Debug)]
pub(super) struct Indexer<'c> {
    options: Options,
    expected: u64,
    pushed: u64,
    building: Building<'c>,
}

#[derive(Debug)]
enum Building<'c> {
    Trie(Box<trie::Builder<'c>>),
    Blocks(Box<pachash::Builder>),
    /// There are more records than expected.
    Over,
}

/// Returns the shape of tries for a file of records.
pub(super) fn trie_shape(options: &Options) -> trie::Shape {
    trie::Shape {
        hmax: options.hmax,
        block_items: match options.kind {
            Kind::Sparse => options.shape.block_records() as u32,
            Kind::Dense | Kind::Blocks => 1,
        },
        keys_per_bucket: options.keys_per_bucket,
        ..trie::Shape::new(HASH_BYTES as u32)
    }
}

/// Returns the shape of a block index. It counts only the bytes of records, so that blocks are
/// full.
fn pachash_shape(options: &Options, records: u64) -> Result<pachash::Shape> {
    let record = options.shape.record_bytes() as u64;
    let block = record * options.shape.block_records();
    Ok(pachash::Shape::new(records.saturating_mul(record), block as u32)?)
}

impl<'c> Indexer<'c> {
    /// Starts the index of `expected` records.
    pub(super) fn new(codes: &'c Codes, options: Options, expected: u64) -> Result<Indexer<'c>> {
        let building = match options.kind {
            Kind::Dense | Kind::Sparse => {
                let shape = trie_shape(&options);
                let builder = trie::Builder::new(codes, shape, shape.buckets(expected))?;
                Building::Trie(Box::new(builder))
            }
            Kind::Blocks => Building::Blocks(Box::new(pachash::Builder::new(pachash_shape(
                &options, expected,
            )?))),
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
            self.building = Building::Over;
        }
        match &mut self.building {
            Building::Trie(builder) => builder.push(hash)?,
            Building::Blocks(builder) => {
                builder.push(head_of(hash), self.options.shape.record_bytes() as u64)?;
            }
            Building::Over => {}
        }
        Ok(())
    }

    /// Returns the index; `None` if the expected number of records was wrong and the shape depends
    /// on it.
    fn finish(self) -> Result<Option<Vec<u8>>> {
        Ok(match self.building {
            Building::Trie(builder) => {
                let shape = trie_shape(&self.options);
                let is_alike = shape.buckets(self.pushed) == shape.buckets(self.expected);
                is_alike.then(|| builder.finish())
            }
            Building::Blocks(builder) if self.pushed == self.expected => Some(builder.finish()?),
            Building::Blocks(_) | Building::Over => None,
        })
    }

    /// Returns the index of the records in a file, which were pushed.
    pub(super) fn finish_for(self, device: &dyn Device, codes: &Codes) -> Result<Vec<u8>> {
        let (options, records) = (self.options, self.pushed);
        match self.finish()? {
            Some(index) => Ok(index),
            None => from_file(device, codes, options, records),
        }
    }
}

/// Builds the index of a file of records.
pub(super) fn from_file(
    device: &dyn Device,
    codes: &Codes,
    options: Options,
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
