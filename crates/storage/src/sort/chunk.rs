//! Records in memory, which are collected in push order and then sorted.

use super::error::{Error, Result};
use super::format::{RecordParts, pair_bytes, prefix, push_pair};
use super::options::{EqualKeyPolicy, SortOptions, SortRecordLayout};
use std::cmp::Ordering;

/// Size in bytes of the entry that refers to a record.
const ENTRY_BYTES: usize = 16;

/// Whether a chunk accepted a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum PushOutcome {
    /// The record was added to the chunk.
    Taken,
    /// The chunk is full and does not contain the record. The caller must sort the chunk and push
    /// the record to the next one.
    Full,
}

/// Records in push order, up to a maximum total size in bytes.
#[derive(Debug)]
pub struct SortChunk {
    options: SortOptions,
    number: u64,
    bytes: Vec<u8>,
    records: usize,
    /// The common prefix of all keys pushed so far.
    common: Vec<u8>,
}

/// The entry for a record: the part of its key that is compared first, and its position.
#[derive(Clone, Copy, Debug)]
struct ChunkEntry {
    prefix: u64,
    at: u64,
}

/// The records of one chunk, sorted in memory.
#[derive(Debug)]
pub struct SortedChunk {
    pub(super) layout: SortRecordLayout,
    pub(super) number: u64,
    bytes: Vec<u8>,
    entries: Vec<ChunkEntry>,
    pub(super) common: Vec<u8>,
}

/// Returns the length of the common prefix of two keys in bytes.
pub(super) fn common_bytes(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

impl SortChunk {
    /// Creates an empty chunk. `number` is its position among the chunks of the sort.
    pub(super) fn new(options: SortOptions, number: u64) -> SortChunk {
        SortChunk {
            options,
            number,
            bytes: Vec::new(),
            records: 0,
            common: Vec::new(),
        }
    }

    /// Returns the number of records in the chunk.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records
    }

    /// Returns whether the chunk has no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Adds a record that consists of a key and a value.
    ///
    /// # Errors
    /// [`Error::TooLong`] if the record is longer than [`SortOptions::longest_record`].
    ///
    /// # Panics
    /// If the options specify records of fixed length, for which [`SortChunk::push_record`] must be
    /// used.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<PushOutcome> {
        assert_eq!(
            self.options.layout,
            SortRecordLayout::Variable,
            "records of one length"
        );
        if !self.has_space(pair_bytes(key, value))? {
            return Ok(PushOutcome::Full);
        }
        self.note(key);
        push_pair(&mut self.bytes, key, value);
        Ok(PushOutcome::Taken)
    }

    /// Adds a record of the fixed length given in the options.
    ///
    /// # Errors
    /// [`Error::TooLong`], which cannot occur if the options are valid.
    ///
    /// # Panics
    /// If the record does not have the fixed length.
    pub fn push_record(&mut self, record: &[u8]) -> Result<PushOutcome> {
        let parts = self.options.layout.parts(record);
        let parts = parts
            .filter(|parts| self.options.layout != SortRecordLayout::Variable && parts.bytes == record.len());
        let parts = parts.expect("a record has the length that was chosen");
        if !self.has_space(record.len())? {
            return Ok(PushOutcome::Full);
        }
        self.note(&record[parts.key_at..parts.key_at + parts.key_bytes]);
        self.bytes.extend_from_slice(record);
        Ok(PushOutcome::Taken)
    }

    fn has_space(&mut self, bytes: usize) -> Result<bool> {
        let most = self.options.longest_record();
        if bytes > most {
            return Err(Error::TooLong { bytes, most });
        }
        if self.bytes.capacity() == 0 {
            // Reserve the whole capacity at once. Untouched pages use no memory, whereas growing
            // the vector would copy the records repeatedly.
            self.bytes.reserve_exact(self.options.memory_bytes);
        }
        let full = self.bytes.len() + bytes + (self.records + 1) * ENTRY_BYTES > self.options.memory_bytes;
        assert!(
            !full || self.records > 0,
            "an empty chunk has space for any record"
        );
        Ok(!full)
    }

    /// Updates the number of records and the common prefix for a record with this key.
    #[inline]
    fn note(&mut self, key: &[u8]) {
        if self.records == 0 {
            self.common.extend_from_slice(&key[..key.len().min(256)]);
        } else if !self.common.is_empty() {
            let common = common_bytes(&self.common, key);
            self.common.truncate(common);
        }
        self.records += 1;
    }

    /// Sorts the records of the chunk, in any thread.
    #[must_use]
    pub fn sort(self) -> SortedChunk {
        let layout = self.options.layout;
        let skip = self.common.len();
        let mut entries = Vec::with_capacity(self.records);
        let mut at = 0;
        while at < self.bytes.len() {
            let rest = &self.bytes[at..];
            let parts = layout.parts(rest).expect("records were pushed whole");
            let key = &rest[parts.key_at..parts.key_at + parts.key_bytes];
            entries.push(ChunkEntry {
                prefix: prefix(key, skip),
                at: at as u64,
            });
            at += parts.bytes;
        }
        assert_eq!(entries.len(), self.records, "every record has an entry");
        let mut sorted = SortedChunk {
            layout,
            number: self.number,
            bytes: self.bytes,
            entries,
            common: self.common,
        };
        sorted.sort(self.options.equal);
        sorted
    }
}

impl SortedChunk {
    /// Returns the number of records in the chunk.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the chunk has no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the total size of all records in bytes.
    pub(super) fn record_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the encoded bytes and layout of record `index` in sorted order, or `None` after the
    /// last record.
    #[inline]
    pub(super) fn record(&self, index: usize) -> Option<(&[u8], RecordParts)> {
        let entry = self.entries.get(index)?;
        let rest = &self.bytes[entry.at as usize..];
        let parts = self.layout.parts(rest).expect("records were pushed whole");
        Some((&rest[..parts.bytes], parts))
    }

    fn sort(&mut self, equal: EqualKeyPolicy) {
        let (bytes, layout, skip) = (&self.bytes, self.layout, self.common.len());
        // Returns the rest of a key after the common prefix, which need not be compared.
        let rest = |entry: &ChunkEntry| {
            let record = &bytes[entry.at as usize..];
            let parts = layout.parts(record).expect("records were pushed whole");
            &record[parts.key_at + skip..parts.key_at + parts.key_bytes]
        };
        let by_key = |one: &ChunkEntry, other: &ChunkEntry| match one.prefix.cmp(&other.prefix) {
            Ordering::Equal => rest(one).cmp(rest(other)),
            order => order,
        };
        // The position of a record reflects the push order (Q1), so no two entries are equal.
        self.entries
            .sort_unstable_by(|one, other| by_key(one, other).then(one.at.cmp(&other.at)));
        let before = self.entries.len();
        let is_same = |one: &ChunkEntry, other: &ChunkEntry| by_key(one, other).is_eq();
        match equal {
            EqualKeyPolicy::KeepAll => {}
            EqualKeyPolicy::KeepFirst => self.entries.dedup_by(|later, kept| is_same(later, kept)),
            EqualKeyPolicy::KeepLast => self.entries.dedup_by(|later, kept| {
                let same = is_same(later, kept);
                if same {
                    *kept = *later;
                }
                same
            }),
        }
        assert!(
            self.entries.len() <= before && (before == 0) == self.entries.is_empty(),
            "one of equal keys stays"
        );
    }
}
