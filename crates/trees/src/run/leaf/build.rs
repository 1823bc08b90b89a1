//! Collects records until a leaf is full.

use super::format::{self, LeafContent, LeafMeasure};
use crate::run::{MessageKind, SequenceNumber};

/// Maximum number of records in a leaf.
const MAX_RECORDS: usize = 1 << 15;
const _: () = assert!(MAX_RECORDS <= u16::MAX as usize, "records are counted in 16 bits");

/// A record in its stored form. `value` is the value, or the encoded pointer to it if `separate` is
/// set.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct LeafCell<'a> {
    pub(in crate::run) sequence: SequenceNumber,
    pub(in crate::run) kind: MessageKind,
    pub(in crate::run) expires_ms: u64,
    pub(in crate::run) value: &'a [u8],
    pub(in crate::run) separate: bool,
}

/// The records of the leaf that is being filled.
#[derive(Debug, Default)]
pub(in crate::run) struct LeafBuilder {
    keys: Vec<u8>,
    key_ends: Vec<u32>,
    values: Vec<u8>,
    value_ends: Vec<u32>,
    sequences: Vec<SequenceNumber>,
    tags: Vec<u8>,
    expiries: Vec<u64>,
    starts: Vec<u16>,
    measure: LeafMeasure,
    begun: bool,
    tombstones: u64,
}

impl LeafBuilder {
    /// Removes all records, to start a new leaf. `begun` tells whether the previous leaf has newer
    /// records of the first key.
    pub(in crate::run) fn restart(&mut self, begun: bool) {
        self.keys.clear();
        self.key_ends.clear();
        self.values.clear();
        self.value_ends.clear();
        self.sequences.clear();
        self.tags.clear();
        self.expiries.clear();
        self.starts.clear();
        self.measure = LeafMeasure::default();
        self.begun = begun;
        self.tombstones = 0;
    }

    /// Returns the measures of the leaf with one more record. `new` tells whether this record's key
    /// differs from that of the last record.
    #[inline]
    fn with(&self, key: &[u8], new: bool, entry: &LeafCell<'_>) -> LeafMeasure {
        let mut measure = self.measure;
        let first = measure.records == 0;
        measure.records += 1;
        if first {
            measure.prefix = key.len();
            measure.key_len = Some(key.len());
            measure.value_len = Some(entry.value.len());
            measure.lowest = entry.sequence;
            measure.highest = entry.sequence;
        }
        if new {
            measure.keys += 1;
            measure.key_bytes += key.len();
            measure.prefix = common(&self.keys[..measure.prefix.min(self.keys.len())], key, first);
            measure.key_len = measure.key_len.filter(|&len| len == key.len());
        }
        measure.value_bytes += entry.value.len();
        measure.value_len = measure.value_len.filter(|&len| len == entry.value.len());
        measure.lowest = measure.lowest.min(entry.sequence);
        measure.highest = measure.highest.max(entry.sequence);
        measure.tagged |= entry.kind != MessageKind::Put || entry.separate;
        if entry.expires_ms != 0 {
            let (earliest, latest) = measure.expiry.unwrap_or((entry.expires_ms, entry.expires_ms));
            measure.expiry = Some((earliest.min(entry.expires_ms), latest.max(entry.expires_ms)));
        }
        measure
    }

    /// Adds a record. Returns `false` without adding it if the encoded leaf would exceed `room`
    /// bytes. The first record is accepted regardless of its size.
    #[inline]
    pub(in crate::run) fn add(&mut self, key: &[u8], new: bool, entry: &LeafCell<'_>, room: usize) -> bool {
        let new = new || self.measure.records == 0;
        let measure = self.with(key, new, entry);
        if self.measure.records > 0 && (measure.bytes() > room || measure.records > MAX_RECORDS) {
            return false;
        }
        debug_assert!(measure.keys <= measure.records, "a key has a record");
        debug_assert!(
            self.measure.records < MAX_RECORDS,
            "records are counted in 16 bits"
        );
        if new {
            self.starts.push(self.measure.records as u16);
            self.keys.extend_from_slice(key);
            self.key_ends.push(self.keys.len() as u32);
        }
        self.values.extend_from_slice(entry.value);
        self.value_ends.push(self.values.len() as u32);
        self.sequences.push(entry.sequence);
        self.tags.push(format::tag(entry.kind, entry.separate));
        self.expiries.push(entry.expires_ms);
        self.tombstones += u64::from(entry.kind == MessageKind::Delete);
        debug_assert_eq!(self.sequences.len(), measure.records, "a sequence each");
        debug_assert_eq!(self.key_ends.len(), measure.keys, "an end for each key");
        debug_assert_eq!(self.values.len(), measure.value_bytes, "values are counted");
        self.measure = measure;
        true
    }

    pub(in crate::run) fn records(&self) -> usize {
        self.measure.records
    }

    pub(in crate::run) fn tombstones(&self) -> u64 {
        debug_assert!(
            self.tombstones <= self.measure.records as u64,
            "a delete is a record"
        );
        self.tombstones
    }

    /// Returns whether the previous leaf has newer records of the first key.
    pub(in crate::run) fn is_begun(&self) -> bool {
        self.begun
    }

    /// Returns the encoded size of the leaf in bytes.
    pub(in crate::run) fn bytes(&self) -> usize {
        self.measure.bytes()
    }

    /// Returns the size in bytes of the list of values, which is the last part of the encoded leaf.
    pub(in crate::run) fn value_bytes(&self) -> usize {
        self.measure.value_bytes
    }

    /// Returns the offset of the last record's value in the list of values, for a later call to
    /// [`LeafBuilder::patch`].
    pub(in crate::run) fn last_value_at(&self) -> usize {
        debug_assert_eq!(
            self.value_ends.len(),
            self.measure.records,
            "an end for each value"
        );
        match self.value_ends.len().checked_sub(2) {
            Some(before) => self.value_ends[before] as usize,
            None => 0,
        }
    }

    /// Overwrites bytes in the list of values, to set the pointer to a separate value whose
    /// location was not known when its record was added.
    pub(in crate::run) fn patch(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.values.len(), "a pointer has its place");
        self.values[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Appends the encoded leaf to `out`. `goes_on` tells whether the next leaf has older records
    /// of the last key.
    pub(in crate::run) fn encode(&self, goes_on: bool, out: &mut Vec<u8>) {
        assert!(self.measure.records > 0, "a leaf has one key at least (L1)");
        assert!(
            self.measure.keys <= self.measure.records && self.measure.records <= MAX_RECORDS,
            "{} keys and {} records of a leaf",
            self.measure.keys,
            self.measure.records
        );
        debug_assert_eq!(
            self.sequences.len(),
            self.measure.records,
            "a sequence number for each record"
        );
        debug_assert_eq!(
            self.starts.len(),
            self.measure.keys,
            "a first record for each key"
        );
        debug_assert!(
            self.measure.prefix <= self.keys.len(),
            "what all keys begin with is in the first (L2)"
        );
        format::encode(
            &LeafContent {
                keys: &self.keys,
                key_ends: &self.key_ends,
                values: &self.values,
                value_ends: &self.value_ends,
                sequences: &self.sequences,
                tags: &self.tags,
                expiries: &self.expiries,
                starts: &self.starts,
                measure: self.measure,
                begun: self.begun,
                goes_on,
            },
            out,
        );
    }
}

/// Returns the length of the common prefix of `prefix` and `key`. If `first` is set, `key` is the
/// first key, and its whole length is returned.
#[inline]
fn common(prefix: &[u8], key: &[u8], first: bool) -> usize {
    if first {
        return key.len();
    }
    super::super::common_prefix(prefix, key)
}
