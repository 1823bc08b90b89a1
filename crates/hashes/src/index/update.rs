//! Applies a batch of changes to a static data index. Also converts the tries or block index to
//! another kind for the same records.

use super::build::{IndexOutput, header, sort_options, verify_key, verify_value};
use super::data::DataReader;
use super::error::{Error, Result};
use super::format::{HASH_BYTES, hash_of};
use super::indexer::from_file;
use super::install::IndexFiles;
use super::open::StaticIndex;
use super::options::{StaticIndexKind, StaticIndexOptions};
use alluvium_device::Directory;
use alluvium_filters::trie::TrieCodes;
use alluvium_storage::sort::{ExternalSorter, SortRecord, SortRecordLayout};
use std::cmp::Ordering;
use std::sync::Arc;

/// First byte of a sorted change, which tells whether it puts or deletes the key.
const PUT: u8 = 1;
const DELETED: u8 = 0;

/// Applies a batch of changes to an index by sorting them and merging them with the existing
/// records. The existing index stays in use until [`IndexUpdater::finish`] has written the new one
/// completely.
///
/// If the batch changes a key several times, only the last change counts.
#[derive(Debug)]
pub struct IndexUpdater {
    site: IndexFiles,
    old: StaticIndex,
    options: StaticIndexOptions,
    sorter: ExternalSorter,
    puts: u64,
    sorted_key: Vec<u8>,
    sorted_value: Vec<u8>,
}

impl IndexUpdater {
    /// Opens the index with the given name for a batch of changes. Sorting them uses at most
    /// `memory_bytes` bytes of memory.
    ///
    /// # Errors
    /// The same errors as [`StaticIndex::open`], and [`Error::BadOption`] through [`Error::Sort`].
    pub fn new(directory: Arc<dyn Directory>, name: &str, memory_bytes: usize) -> Result<IndexUpdater> {
        let site = IndexFiles::new(Arc::clone(&directory), name)?;
        let old = StaticIndex::open(&*directory, name)?;
        let sorter = ExternalSorter::new(
            directory,
            name,
            sort_options(memory_bytes, SortRecordLayout::Variable),
        )?;
        Ok(IndexUpdater {
            site,
            options: old.options(),
            old,
            sorter,
            puts: 0,
            sorted_key: Vec::new(),
            sorted_value: Vec::new(),
        })
    }

    /// Adds a change that sets a key to a value.
    ///
    /// # Errors
    /// [`Error::Length`] if the key or value does not have the index's fixed length; errors from
    /// sorting.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        verify_value(&self.options, value)?;
        self.puts += 1;
        self.change(key, PUT, value)
    }

    /// Adds a change that deletes a key. Does nothing if the index does not contain the key.
    ///
    /// # Errors
    /// [`Error::Length`] if the key does not have the index's fixed length; errors from sorting.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.change(key, DELETED, &[])
    }

    fn change(&mut self, key: &[u8], what: u8, value: &[u8]) -> Result<()> {
        verify_key(&self.options, key)?;
        self.sorted_key.clear();
        self.sorted_key
            .extend_from_slice(&hash_of(self.options.seed, key));
        self.sorted_key.extend_from_slice(key);
        self.sorted_value.clear();
        self.sorted_value.push(what);
        self.sorted_value.extend_from_slice(value);
        Ok(self.sorter.push(&self.sorted_key, &self.sorted_value)?)
    }

    /// Merges the changes with the records, writes a new data file and a new index file, and makes
    /// both durable. The files are identical to those that a build from the resulting records would
    /// write (I1). Returns the number of records.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::SameHash`], errors from sorting, and I/O errors. The existing
    /// index is unchanged in these cases.
    pub fn finish(self) -> Result<u64> {
        let header = self.old.header;
        let mut changes = self.sorter.finish()?;
        let mut output = IndexOutput::new(
            &self.site,
            &self.old.codes,
            self.options,
            header.records + self.puts,
        )?;
        let mut old = DataReader::new(&*self.old.device, header.seed, header.shape, header.records);
        let key_bytes = header.shape.key_bytes as usize;
        let mut change = changes.next()?.map(|record| SortedChange::of(&record));
        while let Some(record) = old.next()? {
            let hash = hash_of(header.seed, &record[..key_bytes]);
            let mut is_replaced = false;
            while let Some(next) = &change {
                let order = next.order(&hash, &record[..key_bytes]);
                if order == Ordering::Greater {
                    break;
                }
                next.apply(&mut output)?;
                is_replaced |= order == Ordering::Equal;
                change = changes.next()?.map(|record| SortedChange::of(&record));
            }
            if !is_replaced {
                output.push(hash, record)?;
            }
        }
        if old.id() != header.data {
            return Err(Error::Damaged {
                file: self.old.device.name().to_owned(),
                offset: 0,
                expected: format!("records with the id {:016x}", header.data),
                found: format!("{:016x}", old.id()),
            });
        }
        while let Some(next) = change {
            next.apply(&mut output)?;
            change = changes.next()?.map(|record| SortedChange::of(&record));
        }
        drop(changes);
        output.finish()
    }
}

struct SortedChange {
    hash: [u8; HASH_BYTES],
    what: u8,
    key_bytes: usize,
    record: Vec<u8>,
}

impl SortedChange {
    fn of(record: &SortRecord<'_>) -> SortedChange {
        let (hash, key) = record.key().split_at(HASH_BYTES);
        let (what, value) = record.value().split_first().expect("a change says what it is");
        SortedChange {
            hash: hash.try_into().expect("a change begins with its hash"),
            what: *what,
            key_bytes: key.len(),
            record: [key, value].concat(),
        }
    }

    /// Compares the change with an existing record by hash and then by key.
    fn order(&self, hash: &[u8; HASH_BYTES], key: &[u8]) -> Ordering {
        let order = self.hash.cmp(hash);
        order.then_with(|| self.record[..self.key_bytes].cmp(key))
    }

    fn apply(&self, output: &mut IndexOutput<'_>) -> Result<()> {
        if self.what == PUT {
            output.push(self.hash, &self.record)?;
        }
        Ok(())
    }
}

/// Rebuilds the tries or block index of an index as another kind, and replaces the index file. The
/// data file does not change. Returns the number of records.
///
/// # Errors
/// The same errors as [`StaticIndex::open`], and I/O errors. The existing index is unchanged in
/// these cases.
pub fn reindex(directory: Arc<dyn Directory>, name: &str, kind: StaticIndexKind) -> Result<u64> {
    let site = IndexFiles::new(directory, name)?;
    let old = StaticIndex::open(&*site.directory, name)?;
    let options = StaticIndexOptions {
        kind,
        ..old.options()
    };
    let codes = TrieCodes::new(options.hmax);
    let index = from_file(&*old.device, &codes, options, old.header.records)?;
    site.install(&header(&options, old.header.records, old.header.data), &index)?;
    Ok(old.header.records)
}
