//! Leaves that a run adopts from another run without reading them: their index entries are copied,
//! and their extents inherited (stitching: Spillane 2012, chapter 6).

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

/// A leaf, as described by its index entry.
#[derive(Clone, Debug)]
pub(crate) struct LeafDescriptor {
    child: IndexChild,
    /// A lower bound of the keys, above the previous leaf's keys. The first key, if it is known.
    low: Vec<u8>,
    /// An exclusive upper bound of the keys, at or below the keys of the next leaf. The immediate
    /// successor of the last key, if that is known. `None` for a last leaf whose last key is
    /// unknown.
    end: Option<Vec<u8>>,
    /// Whether the first and last key are known.
    is_exact: bool,
    /// The units that hold the leaf's separate values.
    units: ValueUnits,
}

impl LeafDescriptor {
    pub(crate) fn low(&self) -> &[u8] {
        &self.low
    }

    pub(crate) fn end(&self) -> Option<&[u8]> {
        self.end.as_deref()
    }

    /// Returns the memory of the bounds in bytes.
    pub(crate) fn key_bytes(&self) -> usize {
        self.low.len() + self.end.as_ref().map_or(0, Vec::len)
    }

    /// Returns whether the first and last key are known.
    pub(crate) fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Returns the last key, if it is known.
    pub(crate) fn last(&self) -> Option<&[u8]> {
        let end = self.end.as_deref().filter(|_| self.is_exact)?;
        end.split_last().map(|(_, last)| last)
    }

    /// Returns the first and last key, if they are known.
    fn keys(&self) -> Option<LeafKeys> {
        let last = self.last()?.to_vec();
        let first = self.low.clone();
        Some(LeafKeys { first, last })
    }

    pub(crate) fn pointer(&self) -> &NodePointer {
        &self.child.pointer
    }

    /// Returns the number of records.
    pub(crate) fn records(&self) -> u64 {
        self.child.sums.records
    }

    pub(crate) fn tier(&self) -> u8 {
        self.child.pointer.tier
    }

    /// Returns whether the leaf has deletes.
    pub(crate) fn has_deletes(&self) -> bool {
        self.child.sums.tombstones > 0
    }

    /// Returns the tier and number of each unit that holds separate values of the leaf.
    pub(crate) fn value_units(&self) -> impl Iterator<Item = (u8, u64)> {
        let listed = self.units.list().iter();
        listed.map(|listed| (listed.tier, u64::from(listed.unit)))
    }

    /// Returns whether the leaf's separate values lie close together.
    pub(crate) fn values_lie_together(&self) -> bool {
        self.units.lie_together()
    }

    /// Returns whether the leaf follows another on the device, or starts an extent.
    pub(crate) fn follows(&self, before: &LeafDescriptor) -> bool {
        lies_behind(&self.child.pointer, &before.child.pointer)
    }
}

impl IndexedRun {
    /// Returns whether the index has everything that a run must know about an adopted leaf: one
    /// record per key, none of which expires or is folded, and no leaf is left out.
    pub(crate) fn is_adoptable(&self) -> bool {
        let summary = self.summary();
        summary.keys == summary.records
            && (summary.merges, summary.earliest_expiry_ms) == (0, 0)
            && self.base() == 0
            && self.range_deletes().is_empty()
            && self.left_out().is_none()
    }

    /// Returns whether a leaf can be adopted: it was closed because it was full (estimated from its
    /// records), it is a single node, and the locations of all its values are known.
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

/// Iterates over the leaves of a run in order without reading them.
pub(crate) struct LeafDescriptorIter {
    path: Option<IndexPath>,
    cache: NodeCache,
    purpose: Purpose,
}

impl LeafDescriptorIter {
    /// Starts before the leaf that may hold `low`.
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

    /// Returns whether no leaf is left.
    pub(crate) fn is_over(&self) -> bool {
        self.path.is_none()
    }

    /// Returns an iterator with no leaves left.
    pub(crate) fn ended(self) -> LeafDescriptorIter {
        LeafDescriptorIter { path: None, ..self }
    }

    /// Returns the next leaf, or `None` after the last.
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
    /// Adopts a leaf of a run that was passed to [`RunBuilder::inherit_from`], unchanged. Its keys
    /// must be above all keys added so far, and below all keys added later.
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
        // A reader of any key before the next leaf's separator reaches this leaf. If the previous
        // leaf was adopted too, its extent is needed only up to its bound (R2), so the gap between
        // the two belongs to this leaf, as for a copied leaf.
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
        // An estimate: the leaf's share of all records.
        let share = u128::from(all.value_bytes) * u128::from(sums.records) / u128::from(all.records.max(1));
        summary.value_bytes += share as u64;
        self.adopted.keys += sums.records;
        let live = leaf.child.pointer.read_len() as u64;
        self.adopted.bytes += live;
        self.values.spans.add(&leaf.child.pointer, &separator, end, live);
        // A reader of the leaf may read its values, so both are needed for the same keys (R2).
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

    /// Adds the hash of a key in an adopted leaf, for the maplet over the run's keys.
    pub(crate) fn hash_adopted(&mut self, key: &[u8]) {
        assert!(
            self.adopted.keys > 0,
            "each key that was taken over has one hash (T6)"
        );
        self.adopted.keys -= 1;
        self.keys.hashes.push(LookupKey::new(key).hash());
    }

    /// Returns the last key that was added. After an adopted leaf with an unknown last key, a key
    /// below the leaf's keys.
    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        (self.summary.records > 0).then_some(&self.keys.last)
    }

    /// Writes the leaf being filled and all leaves before it. The next leaf starts at `next`.
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
