//! The leaf that is being filled.

use super::closed::ClosedLeaf;
use crate::run::index::{LeafKeys, SubtreeSums};
use crate::run::leaf::{LeafBuilder, LeafCell};
use crate::run::units::ValueUnits;
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::NodeCodec;

/// Leaf bounds (first and last key) are stored in the index only while they occupy at most one part
/// in this many of the leaf's bytes. Longer keys would make the index as large as the leaves.
const SHARE_OF_KEYS: usize = 8;

/// The leaf being filled. It accepts records only after it was started.
#[derive(Debug)]
pub(in crate::run) struct CurrentLeaf {
    records: LeafBuilder,
    max_bytes: usize,
    codec: NodeCodec,
    /// Whether the leaf is closed to further records, because the next ones belong to another
    /// keyspace.
    is_over: bool,
    separator: Vec<u8>,
    /// The first key, if the index stores leaf bounds.
    pub(in crate::run) first_key: Vec<u8>,
    /// Total size of its separate values in bytes.
    separate_bytes: u64,
    /// Number of values whose locations are not known yet.
    awaited: usize,
    /// The units that hold its values, as far as they are known.
    pub(super) units: ValueUnits,
}

impl CurrentLeaf {
    pub(super) fn new(codec: NodeCodec) -> CurrentLeaf {
        CurrentLeaf {
            records: LeafBuilder::default(),
            max_bytes: 0,
            codec,
            is_over: false,
            separator: Vec::new(),
            first_key: Vec::new(),
            separate_bytes: 0,
            awaited: 0,
            units: ValueUnits::default(),
        }
    }

    #[inline]
    pub(in crate::run) fn has_records(&self) -> bool {
        self.records.records() > 0
    }

    /// Returns the size in bytes.
    pub(super) fn bytes(&self) -> u64 {
        match self.has_records() {
            true => self.records.bytes() as u64,
            false => 0,
        }
    }

    pub(super) fn separator(&self) -> &[u8] {
        &self.separator
    }

    /// Closes the leaf to records of another keyspace.
    pub(super) fn end_keyspace(&mut self) {
        self.is_over = true;
    }

    /// Adds a record, and returns whether the leaf accepted it. A full or closed leaf does not.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], new: bool, entry: &LeafCell<'_>) -> bool {
        self.has_records() && !self.is_over && self.records.add(key, new, entry, self.max_bytes)
    }

    /// Adds the first record, which an empty leaf always accepts.
    pub(super) fn add_first(&mut self, key: &[u8], new: bool, entry: &LeafCell<'_>) {
        self.records.add(key, new, entry, self.max_bytes);
        debug_assert_eq!(self.records.records(), 1, "a new leaf takes its record");
    }

    /// Counts the separate value of the last record.
    pub(super) fn count_separate(&mut self, len: usize) {
        self.separate_bytes += len as u64;
        self.units.records += 1;
    }

    /// Returns the offset of the last record's value among the values.
    pub(super) fn last_value_at(&self) -> usize {
        debug_assert!(self.has_records(), "the record waits in its leaf");
        self.records.last_value_at()
    }

    /// Marks the location of the last record's value as not known yet.
    pub(super) fn await_value(&mut self) {
        self.awaited += 1;
    }

    /// Stores the location of a value that has its own nodes.
    pub(super) fn fill_in(&mut self, at: usize, pointer: &ValuePointer) {
        let mut bytes = Vec::with_capacity(ValuePointer::BYTES);
        pointer.encode(&mut bytes);
        self.records.patch(at, &bytes);
    }

    /// Stores the location of an awaited value. The value occupies `share` bytes of its node.
    pub(super) fn place_value(&mut self, at: usize, pointer: &ValuePointer, share: u64) {
        assert!(self.awaited > 0, "a value is placed once");
        self.fill_in(at, pointer);
        self.awaited -= 1;
        self.units.add(&pointer.node, share);
    }

    /// Returns the average record size in bytes, or `None` if the leaf is empty or closed.
    pub(super) fn mean_record(&self) -> Option<usize> {
        let records = self.records.records();
        (records > 0 && !self.is_over).then(|| self.records.bytes() / records)
    }

    /// Starts an empty leaf at a separator. `first_key` is given if the index stores leaf bounds.
    /// `is_begun` means that the previous leaf has newer records of the first key.
    pub(super) fn begin(
        &mut self,
        separator: &[u8],
        first_key: Option<&[u8]>,
        is_begun: bool,
        (codec, room): (NodeCodec, usize),
    ) {
        separator.clone_into(&mut self.separator);
        first_key.unwrap_or_default().clone_into(&mut self.first_key);
        (self.codec, self.max_bytes, self.is_over) = (codec, room, false);
        self.clear(is_begun);
    }

    /// Removes all records. `is_begun` is that of [`CurrentLeaf::begin`].
    pub(in crate::run) fn clear(&mut self, is_begun: bool) {
        self.records.restart(is_begun);
        (self.separate_bytes, self.awaited) = (0, 0);
        self.units.clear();
    }

    /// Encodes the leaf to `closed`. `last_key` is given if the index stores leaf bounds. `goes_on`
    /// means that the next record has the last key too.
    pub(super) fn close_to(&self, closed: &mut ClosedLeaf, goes_on: bool, last_key: Option<&[u8]>) {
        assert!(self.has_records(), "a leaf has records");
        closed.bytes.clear();
        self.records.encode(goes_on, &mut closed.bytes);
        assert!(
            closed.bytes.len() >= self.records.value_bytes(),
            "values are last"
        );
        closed.values_at = closed.bytes.len() - self.records.value_bytes();
        self.separator.clone_into(&mut closed.separator);
        closed.sums = SubtreeSums {
            bytes: self.separate_bytes,
            records: self.records.records() as u64,
            tombstones: self.records.tombstones(),
        };
        closed.is_begun = self.records.is_begun();
        closed.awaited = self.awaited;
        closed.units.clone_from(&self.units);
        let fits = |last: &&[u8]| SHARE_OF_KEYS * (self.first_key.len() + last.len()) <= self.max_bytes;
        closed.keys = last_key.filter(fits).map(|last| LeafKeys {
            first: self.first_key.clone(),
            last: last.to_vec(),
        });
        closed.codec = self.codec;
    }
}
