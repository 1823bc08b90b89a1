//! Builds an index from records that arrive in any order.

use super::data::DataWriter;
use super::error::{Error, Result};
use super::format::{HASH_BYTES, IndexFileHeader, hash_of};
use super::indexer::Indexer;
use super::install::IndexFiles;
use super::options::StaticIndexOptions;
use alluvium_device::{Device, Directory};
use alluvium_filters::trie::TrieCodes;
use alluvium_storage::sort::{EqualKeyPolicy, ExternalSorter, SortOptions, SortRecordLayout};
use std::sync::Arc;

/// Builds an index. An existing index with the same name stays in use until
/// [`StaticIndexBuilder::finish`] has written the new one completely.
///
/// If a key is pushed several times, the last value wins.
#[derive(Debug)]
pub struct StaticIndexBuilder {
    site: IndexFiles,
    options: StaticIndexOptions,
    sorter: ExternalSorter,
    pushed: u64,
    record: Vec<u8>,
}

/// Returns the options for sorting the records of an index. Of several records with the same key,
/// only the last is kept.
pub(super) fn sort_options(memory_bytes: usize, layout: SortRecordLayout) -> SortOptions {
    SortOptions {
        equal: EqualKeyPolicy::KeepLast,
        memory_bytes,
        ..SortOptions::new(layout)
    }
}

impl StaticIndexBuilder {
    /// Starts building an index with the given name.
    ///
    /// # Errors
    /// [`Error::BadOption`] if an option is invalid; I/O errors.
    pub fn new(
        directory: Arc<dyn Directory>,
        name: &str,
        options: StaticIndexOptions,
    ) -> Result<StaticIndexBuilder> {
        options.verify()?;
        let site = IndexFiles::new(Arc::clone(&directory), name)?;
        let layout = SortRecordLayout::Fixed {
            record_bytes: (HASH_BYTES + options.shape.record_bytes()) as u32,
            key_offset: 0,
            key_bytes: HASH_BYTES as u32 + options.shape.key_bytes,
        };
        let sorter = ExternalSorter::new(directory, name, sort_options(options.memory_bytes, layout))?;
        Ok(StaticIndexBuilder {
            site,
            options,
            sorter,
            pushed: 0,
            record: Vec::new(),
        })
    }

    /// Adds a record.
    ///
    /// # Errors
    /// [`Error::Length`] if the key or value does not have the index's fixed length; errors from
    /// sorting.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        verify_key(&self.options, key)?;
        verify_value(&self.options, value)?;
        self.record.clear();
        self.record.extend_from_slice(&hash_of(self.options.seed, key));
        self.record.extend_from_slice(key);
        self.record.extend_from_slice(value);
        self.sorter.push_record(&self.record)?;
        self.pushed += 1;
        Ok(())
    }

    /// Sorts the records, writes the data file and the index file, and makes both durable. Returns
    /// the number of records in the index.
    ///
    /// # Errors
    /// [`Error::SameHash`], errors from sorting, and I/O errors. Any existing index is unchanged in
    /// these cases.
    pub fn finish(self) -> Result<u64> {
        let codes = TrieCodes::new(self.options.hmax);
        let mut sorted = self.sorter.finish()?;
        let mut output = IndexOutput::new(&self.site, &codes, self.options, self.pushed)?;
        while let Some(record) = sorted.next()? {
            let (hash, record) = record.value().split_at(HASH_BYTES);
            let hash = hash.try_into().expect("a record begins with its hash");
            output.push(hash, record)?;
        }
        drop(sorted);
        output.finish()
    }
}

pub(super) fn verify_key(options: &StaticIndexOptions, key: &[u8]) -> Result<()> {
    if key.len() == options.shape.key_bytes as usize {
        return Ok(());
    }
    Err(Error::Length {
        what: "key",
        expected: options.shape.key_bytes,
        found: key.len(),
    })
}

pub(super) fn verify_value(options: &StaticIndexOptions, value: &[u8]) -> Result<()> {
    if value.len() == options.shape.value_bytes as usize {
        return Ok(());
    }
    Err(Error::Length {
        what: "value",
        expected: options.shape.value_bytes,
        found: value.len(),
    })
}

/// Writes records that arrive in hash order, and builds their index along the way.
#[derive(Debug)]
pub(super) struct IndexOutput<'s> {
    site: &'s IndexFiles,
    codes: &'s TrieCodes,
    options: StaticIndexOptions,
    device: Arc<dyn Device>,
    data: DataWriter,
    indexer: Indexer<'s>,
    last: Option<([u8; HASH_BYTES], Vec<u8>)>,
}

impl<'s> IndexOutput<'s> {
    pub(super) fn new(
        site: &'s IndexFiles,
        codes: &'s TrieCodes,
        options: StaticIndexOptions,
        expected: u64,
    ) -> Result<IndexOutput<'s>> {
        let device = site.create_data()?;
        Ok(IndexOutput {
            site,
            codes,
            options,
            data: DataWriter::new(Arc::clone(&device), options.seed, options.shape, expected)?,
            device,
            indexer: Indexer::new(codes, options, expected)?,
            last: None,
        })
    }

    /// Adds the next record, which is a key followed by its value.
    pub(super) fn push(&mut self, hash: [u8; HASH_BYTES], record: &[u8]) -> Result<()> {
        let (key, value) = record.split_at(self.options.shape.key_bytes as usize);
        match &mut self.last {
            Some((last, other)) if *last == hash => {
                let hex = |key: &[u8]| key.iter().map(|byte| format!("{byte:02x}")).collect();
                return Err(Error::SameHash {
                    one: hex(other),
                    other: hex(key),
                });
            }
            Some((last, other)) => {
                assert!(*last < hash, "I3: records come in the order of their hashes");
                *last = hash;
                other.clear();
                other.extend_from_slice(key);
            }
            None => self.last = Some((hash, key.to_vec())),
        }
        self.indexer.push(&hash)?;
        self.data.push(key, value)
    }

    /// Makes both files durable and gives them their final names. Returns the number of records.
    pub(super) fn finish(self) -> Result<u64> {
        assert!(self.data.records() < u64::MAX, "records were counted");
        let (records, id) = self.data.finish()?;
        let index = self.indexer.finish_for(&*self.device, self.codes)?;
        self.site.name_data(id)?;
        self.site.install(&header(&self.options, records, id), &index)?;
        Ok(records)
    }
}

/// Returns the header of an index file. `data` is the ID of its data file.
pub(super) fn header(options: &StaticIndexOptions, records: u64, data: u64) -> IndexFileHeader {
    IndexFileHeader {
        kind: options.kind,
        seed: options.seed,
        shape: options.shape,
        keys_per_bucket: options.keys_per_bucket,
        hmax: options.hmax,
        records,
        data,
    }
}
