//! The leaf that records are being added to.

use super::closed::ClosedLeaf;
use crate::run::index::{LeafKeys, SubtreeSums};
use crate::run::leaf::{LeafBuilder, LeafCell};
use crate::run::units::ValueUnits;
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::NodeCodec;

/// The index stores a leaf's first and last keys only if both together occupy at most this fraction
/// of the leaf's size, given as a divisor. Longer keys would make the index as large as the leaves.
const SHARE_OF_KEYS: usize = 8;

/// The leaf that records are being added to. It accepts records only after [`CurrentLeaf::begin`].
#[derive(Debug)]
pub(in crate::run) struct CurrentLeaf {
    records: LeafBuilder,
    max_bytes: usize,
    codec: NodeCodec,
    /// Whether the leaf is closed because the next records belong to another keyspace.
    is_over: bool,
    separator: Vec<u8>,
    /// The leaf's first key, or empty if the index does not store first and last keys.
    pub(in crate::run) first_key: Vec<u8>,
    /// Total size in bytes of the separate values of the leaf's records.
    separate_bytes: u64,
    /// Number of separate values whose locations are not yet known.
    awaited: usize,
    /// The allocation units that contain the leaf's separate values, except those whose locations
    /// are not yet known.
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

    /// Returns the encoded size of the leaf in bytes, or 0 if it has no records.
    pub(super) fn bytes(&self) -> u64 {
        match self.has_records() {
            true => self.records.bytes() as u64,
            false => 0,
        }
    }

    pub(super) fn separator(&self) -> &[u8] {
        &self.separator
    }

    /// Closes the leaf, because the next records belong to another keyspace.
    pub(super) fn end_keyspace(&mut self) {
        self.is_over = true;
    }

    /// Adds a record. Returns `false` without adding it if the leaf is full, closed, or has no
    /// records yet.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], new: bool, entry: &LeafCell<'_>) -> bool {
        self.has_records() && !self.is_over && self.records.add(key, new, entry, self.max_bytes)
    }

    /// Adds the first record of the leaf, whatever its size.
    pub(super) fn add_first(&mut self, key: &[u8], new: bool, entry: &LeafCell<'_>) {
        self.records.add(key, new, entry, self.max_bytes);
        debug_assert_eq!(self.records.records(), 1, "a new leaf takes its record");
    }

    /// Records that the last record's value is separate and has `len` bytes.
    pub(super) fn count_separate(&mut self, len: usize) {
        self.separate_bytes += len as u64;
        self.units.records += 1;
    }

    /// Returns the offset of the last record's value in the list of values.
    pub(super) fn last_value_at(&self) -> usize {
        debug_assert!(self.has_records(), "the record waits in its leaf");
        self.records.last_value_at()
    }

    /// Records that the location of the last record's separate value is not yet known.
    pub(super) fn await_value(&mut self) {
        self.awaited += 1;
    }

    /// Sets the pointer to a separate value that has nodes of its own. `at` is the pointer's offset
    /// in the list of values.
    pub(super) fn fill_in(&mut self, at: usize, pointer: &ValuePointer) {
        let mut bytes = Vec::with_capacity(ValuePointer::BYTES);
        pointer.encode(&mut bytes);
        self.records.patch(at, &bytes);
    }

    /// Sets the pointer to a separate value whose location was not known when its record was added.
    /// The value accounts for `share` bytes of its node.
    pub(super) fn place_value(&mut self, at: usize, pointer: &ValuePointer, share: u64) {
        assert!(self.awaited > 0, "a value is placed once");
        self.fill_in(at, pointer);
        self.awaited -= 1;
        self.units.add(&pointer.node, share);
    }

    /// Returns the mean size of the leaf's records in bytes, or `None` if the leaf is empty or
    /// closed.
    pub(super) fn mean_record(&self) -> Option<usize> {
        let records = self.records.records();
        (records > 0 && !self.is_over).then(|| self.records.bytes() / records)
    }

    /// Starts an empty leaf with the given separator. `first_key` must be given if the index stores
    /// first and last keys. `is_begun` tells whether the previous leaf has newer records of the
    /// first key.
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

    /// Removes all records. `is_begun` is the same as in [`CurrentLeaf::begin`].
    pub(in crate::run) fn clear(&mut self, is_begun: bool) {
        self.records.restart(is_begun);
        (self.separate_bytes, self.awaited) = (0, 0);
        self.units.clear();
    }

    /// Encodes the leaf into `closed`. `last_key` must be given if the index stores first and last
    /// keys. `goes_on` tells whether the next record has the same key as this leaf's last record.
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
