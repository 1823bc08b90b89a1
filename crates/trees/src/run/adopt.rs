//! Adopts leaves of another run without reading them: the new run copies their index entries and
//! inherits their extents (stitching: Spillane 2012, chapter 6).

use super::IndexedRun;
use super::build::{RunBuilder, note_sequence};
use super::index::{IndexChild, LeafKeys};
use super::path::{IndexPath, PathTarget};
use super::scanned::lies_behind;
use super::units::ValueUnits;
use alluvium_base::Purpose;
use alluvium_dictionary::key::LookupKey;
use alluvium_storage::store::Store;
use alluvium_storage::{NodeCache, NodePointer, Result};

/// Describes a leaf by its index entry.
#[derive(Clone, Debug)]
pub(crate) struct LeafDescriptor {
    child: IndexChild,
    /// A lower bound of the leaf's keys that is above all keys of the previous leaf. It is the
    /// leaf's first key if that is known.
    low: Vec<u8>,
    /// An exclusive upper bound of the leaf's keys that is at or below all keys of the next leaf.
    /// It is the immediate successor of the leaf's last key if that is known. `None` if this is the
    /// run's last leaf and its last key is not known.
    end: Option<Vec<u8>>,
    /// Whether the leaf's first and last keys are known.
    is_exact: bool,
    /// The allocation units that contain the leaf's separate values.
    units: ValueUnits,
}

impl LeafDescriptor {
    pub(crate) fn low(&self) -> &[u8] {
        &self.low
    }

    pub(crate) fn end(&self) -> Option<&[u8]> {
        self.end.as_deref()
    }

    /// Returns the memory in bytes that the leaf's bounds occupy.
    pub(crate) fn key_bytes(&self) -> usize {
        self.low.len() + self.end.as_ref().map_or(0, Vec::len)
    }

    /// Returns whether the leaf's first and last keys are known.
    pub(crate) fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Returns the last key of the leaf, or `None` if it is not known.
    pub(crate) fn last(&self) -> Option<&[u8]> {
        let end = self.end.as_deref().filter(|_| self.is_exact)?;
        end.split_last().map(|(_, last)| last)
    }

    /// Returns the leaf's first and last keys, or `None` if they are not known.
    fn keys(&self) -> Option<LeafKeys> {
        let last = self.last()?.to_vec();
        let first = self.low.clone();
        Some(LeafKeys { first, last })
    }

    pub(crate) fn pointer(&self) -> &NodePointer {
        &self.child.pointer
    }

    /// Returns the number of records in the leaf.
    pub(crate) fn records(&self) -> u64 {
        self.child.sums.records
    }

    pub(crate) fn tier(&self) -> u8 {
        self.child.pointer.tier
    }

    /// Returns whether the leaf contains any deletes.
    pub(crate) fn has_deletes(&self) -> bool {
        self.child.sums.tombstones > 0
    }

    /// Returns the allocation units that contain the leaf's separate values, as pairs of tier and
    /// unit number.
    pub(crate) fn value_units(&self) -> impl Iterator<Item = (u8, u64)> {
        let listed = self.units.list().iter();
        listed.map(|listed| (listed.tier, u64::from(listed.unit)))
    }

    /// Returns whether the leaf's separate values are stored close together.
    pub(crate) fn values_lie_together(&self) -> bool {
        self.units.lie_together()
    }

    /// Returns whether the leaf directly follows the leaf `before` on the device, or starts a new
    /// allocation unit.
    pub(crate) fn follows(&self, before: &LeafDescriptor) -> bool {
        lies_behind(&self.child.pointer, &before.child.pointer)
    }
}

impl IndexedRun {
    /// Returns whether leaves of this run may be adopted at all. The index must have all the
    /// information that the new run needs, so every key must have exactly one record, no record may
    /// expire or be subject to folding, and no repair may exclude any node. The index does not
    /// state how many keys a leaf has, so a run with several records of any key is excluded as a
    /// whole.
    ///
    /// `is_layer` is set if this run and the new one are layers of an ingest. The run's base is
    /// then only the number of its layer, and every record keeps the sequence number 0.
    pub(crate) fn is_adoptable(&self, is_layer: bool) -> bool {
        let summary = self.summary();
        summary.keys == summary.records
            && (summary.merges, summary.earliest_expiry_ms) == (0, 0)
            && (self.base() == 0 || (is_layer && summary.highest_sequence == 0))
            && self.left_out().is_none()
    }

    /// Returns whether a leaf may be adopted. It must have been closed because it was full, which
    /// is estimated from its number of records. It must be a single node, and the locations of all
    /// its separate values must be known.
    pub(crate) fn is_full(&self, leaf: &LeafDescriptor) -> bool {
        let (summary, sums) = (self.summary(), leaf.child.sums);
        let mean = summary.records / summary.leaves.max(1);
        let has_no_other = sums.bytes == leaf.child.pointer.read_len() as u64;
        leaf.end.is_some()
            && !leaf.child.begun
            && 4 * sums.records >= 3 * mean
            && (has_no_other || !leaf.units.is_empty())
    }
}

/// Iterates over the index entries of a run's leaves in key order, without reading the leaves.
pub(crate) struct LeafDescriptorIter {
    path: Option<IndexPath>,
    cache: NodeCache,
    purpose: Purpose,
}

impl LeafDescriptorIter {
    /// Creates an iterator that starts at the leaf that may contain `low`.
    pub(crate) fn new(
        run: &IndexedRun,
        store: &Store,
        low: &[u8],
        purpose: Purpose,
    ) -> Result<LeafDescriptorIter> {
        let cache = store.cache().clone();
        let guard = cache.epochs().pin();
        let path = IndexPath::seek(run, PathTarget::First(low), &cache, &guard, purpose)?;
        drop(guard);
        Ok(LeafDescriptorIter { path, cache, purpose })
    }

    /// Returns whether the iterator is exhausted.
    pub(crate) fn is_over(&self) -> bool {
        self.path.is_none()
    }

    /// Returns the iterator in its exhausted state.
    pub(crate) fn ended(self) -> LeafDescriptorIter {
        LeafDescriptorIter { path: None, ..self }
    }

    /// Returns the next leaf, or `None` after the last leaf.
    pub(crate) fn next(&mut self) -> Result<Option<LeafDescriptor>> {
        let Some(path) = &mut self.path else {
            return Ok(None);
        };
        let (child, units, keys) = (path.child()?, path.units()?, path.keys()?);
        let is_exact = keys.is_some();
        let (low, last) = match keys {
            Some(LeafKeys { first, last }) => (first, Some(last)),
            None => (path.separator()?, None),
        };
        let guard = self.cache.epochs().pin();
        let has_next = path.next(&self.cache, &guard, self.purpose)?;
        let end = match last {
            Some(mut last) => {
                last.push(0);
                Some(last)
            }
            None if has_next => Some(path.separator()?),
            None => None,
        };
        if !has_next {
            self.path = None;
        }
        Ok(Some(LeafDescriptor {
            child,
            low,
            end,
            is_exact,
            units,
        }))
    }
}

impl RunBuilder {
    /// Adds an existing leaf of the run `of` to this run without changing it. The run must have
    /// been passed to [`RunBuilder::inherit_from`]. The leaf's keys must be above all keys added
    /// before it, and below all keys added after it.
    ///
    /// # Errors
    /// See [`RunBuilder::push`].
    pub(crate) fn adopt(&mut self, leaf: &LeafDescriptor, of: &IndexedRun) -> Result<()> {
        let end = leaf.end.as_ref().expect("a leaf that has no end is copied");
        assert!(
            self.summary.records == 0 || self.keys.last < leaf.low,
            "a leaf that is taken over follows what is there (R1)"
        );
        self.end_leaf(&leaf.low)?;
        // A reader of any key up to the next leaf's separator reaches this leaf. If the previous
        // leaf was adopted too, its extent is listed only up to its own upper bound (R2), so the
        // keys between the two leaves belong to this leaf.
        let separator = self.adopted.fence.take().unwrap_or_else(|| leaf.low.clone());
        debug_assert!(separator <= leaf.low, "bounds are in order (R1)");
        let (all, sums) = (of.summary(), leaf.child.sums);
        if self.summary.records == 0 {
            self.keys.first.clone_from(&separator);
        }
        note_sequence(&mut self.summary, all.lowest_sequence, all.highest_sequence);
        let summary = &mut self.summary;
        summary.records += sums.records;
        summary.keys += sums.records;
        summary.tombstones += sums.tombstones;
        summary.separate += u64::from(leaf.units.records);
        summary.leaves += 1;
        // Estimate the length of the leaf's values from its share of all records.
        let share = u128::from(all.value_bytes) * u128::from(sums.records) / u128::from(all.records.max(1));
        summary.value_bytes += share as u64;
        self.adopted.keys += sums.records;
        let live = leaf.child.pointer.read_len() as u64;
        self.adopted.bytes += live;
        self.values.spans.add(&leaf.child.pointer, &separator, end, live);
        // A reader of the leaf may also read its values, so both are needed for the same keys (R2).
        for listed in leaf.units.list() {
            let unit = (listed.tier, u64::from(listed.unit));
            self.values
                .spans
                .add_unit(unit, &separator, end, u64::from(listed.live));
        }
        let keys = self.options.leaf_keys.then(|| leaf.keys());
        let (keys, page_size) = (keys.flatten(), self.page_size());
        let known = (&leaf.units, keys.as_ref());
        self.index.add(&separator, &leaf.child, known, page_size);
        leaf.last().unwrap_or(&leaf.low).clone_into(&mut self.keys.last);
        self.adopted.fence = Some(end.clone());
        Ok(())
    }

    /// Adds the hash of a key in an adopted leaf, so that the run's maplet will contain the key.
    pub(crate) fn hash_adopted(&mut self, key: &[u8]) {
        assert!(
            self.adopted.keys > 0,
            "each key that was taken over has one hash (T6)"
        );
        self.adopted.keys -= 1;
        self.keys.hashes.push(LookupKey::new(key).hash());
    }

    /// Returns the last key in the run so far, if there is one. If the last leaf was adopted and
    /// its last key is not known, returns a lower bound of that leaf's keys.
    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        (self.summary.records > 0).then_some(&self.keys.last)
    }

    /// Completes the current leaf and writes it after all earlier leaves. `next` is the separator
    /// of the leaf that follows.
    fn end_leaf(&mut self, next: &[u8]) -> Result<()> {
        if self.current.has_records() {
            self.close_leaf(false);
            self.current.clear(false);
        }
        self.close_values()?;
        self.write_closed(Some(next))?;
        assert!(self.closed.is_empty(), "every leaf before is written");
        Ok(())
    }
}
