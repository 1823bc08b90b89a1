//! The keys and ranges that a transaction has read and therefore depends on.

use crate::error::{Error, Result};
use crate::locking::access_set::AccessSet;
use crate::schema::catalog::KeyspaceDefinition;
use alluvium_dictionary::range::KeyRange;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The tracked reads of a transaction: keys and ranges that it depends on.
#[derive(Debug, Default)]
pub(super) struct ReadTracker {
    footprint: AccessSet,
    /// Open iterators. The whole range of an iterator is tracked until the iterator reports which
    /// part of it was scanned (T2).
    walks: BTreeMap<u64, (Arc<KeyspaceDefinition>, KeyRange)>,
    next: u64,
}

impl ReadTracker {
    /// Tracks keys. If `most` keys and ranges are tracked already, neighbouring keys are combined
    /// into ranges. Returns an error if that does not reduce their number sufficiently.
    pub(super) fn add_points<'k>(
        &mut self,
        definition: &Arc<KeyspaceDefinition>,
        keys: impl IntoIterator<Item = &'k [u8]>,
        most: usize,
    ) -> Result<()> {
        for key in keys {
            self.limit(most)?;
            self.footprint.add_point(definition, key);
        }
        Ok(())
    }

    /// Tracks the range of an iterator until [`ReadTracker::end_walk`] is called with the returned
    /// number.
    pub(super) fn begin_walk(
        &mut self,
        definition: &Arc<KeyspaceDefinition>,
        range: &KeyRange,
        most: usize,
    ) -> Result<u64> {
        self.limit(most)?;
        self.next += 1;
        self.walks
            .insert(self.next, (Arc::clone(definition), range.clone()));
        Ok(self.next)
    }

    /// Replaces the tracked range of an iterator by the ranges that the iterator has scanned.
    pub(super) fn end_walk(&mut self, walk: u64, covered: &[KeyRange]) {
        if let Some((definition, _)) = self.walks.remove(&walk) {
            for range in covered {
                self.footprint.add_range(&definition, range);
            }
        }
    }

    /// Tracks a range to which the transaction writes.
    pub(super) fn add_range(&mut self, definition: &Arc<KeyspaceDefinition>, range: &KeyRange) {
        self.footprint.add_range(definition, range);
    }

    /// If at least `most` keys and ranges are tracked, combines neighbouring keys into ranges.
    /// Returns an error if that does not reduce their number sufficiently.
    fn limit(&mut self, most: usize) -> Result<()> {
        if self.len() < most {
            return Ok(());
        }
        self.footprint.join_points();
        if self.len() < most {
            return Ok(());
        }
        Err(Error::TransactionLimit {
            what: "the keys and ranges read",
            most,
            option: "TransactionOptions::max_tracked",
        })
    }

    /// Returns the number of tracked keys and ranges.
    pub(super) fn len(&self) -> usize {
        self.footprint.len() + self.walks.len()
    }

    /// Returns all tracked reads. For an iterator that was not dropped, its whole range is
    /// included.
    pub(super) fn into_footprint(mut self) -> AccessSet {
        for (definition, range) in self.walks.values() {
            self.footprint.add_range(definition, range);
        }
        self.footprint
    }
}
