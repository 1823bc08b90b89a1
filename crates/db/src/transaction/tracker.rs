//! The keys and ranges that a transaction has read and therefore depends on.

use crate::error::{Error, Result};
use crate::locking::access_set::AccessSet;
use crate::schema::catalog::KeyspaceDefinition;
use alluvium_dictionary::range::KeyRange;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a read means for the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadConsequence {
    /// The commit fails if others have changed what was read.
    Dependence,
    /// The commit fails if others have changed a key that the transaction has read and merges into.
    Observation,
}

#[derive(Debug)]
struct OpenWalk {
    definition: Arc<KeyspaceDefinition>,
    range: KeyRange,
    consequence: ReadConsequence,
}

/// The tracked reads of a transaction: keys and ranges that it depends on.
#[derive(Debug, Default)]
pub(super) struct ReadTracker {
    footprint: AccessSet,
    /// Keys and ranges that a transaction under snapshot isolation has read in keyspaces whose
    /// merges commute. The transaction depends on them only if it merges into them.
    observed: AccessSet,
    /// Open iterators. An iterator's whole range is tracked until the iterator reports which part
    /// of it was scanned (T2).
    walks: BTreeMap<u64, OpenWalk>,
    next: u64,
}

impl ReadTracker {
    /// Tracks keys. If `most` keys and ranges are already tracked, joins neighbours into ranges,
    /// and returns an error if that does not reduce their number enough.
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
        consequence: ReadConsequence,
        most: usize,
    ) -> Result<u64> {
        match consequence {
            ReadConsequence::Dependence => self.limit(most)?,
            ReadConsequence::Observation => self.limit_observed(most),
        }
        self.next += 1;
        let walk = OpenWalk {
            definition: Arc::clone(definition),
            range: range.clone(),
            consequence,
        };
        self.walks.insert(self.next, walk);
        Ok(self.next)
    }

    /// Replaces an iterator's tracked range by the ranges that it has scanned.
    pub(super) fn end_walk(&mut self, walk: u64, covered: &[KeyRange]) {
        if let Some(walk) = self.walks.remove(&walk) {
            let set = match walk.consequence {
                ReadConsequence::Dependence => &mut self.footprint,
                ReadConsequence::Observation => &mut self.observed,
            };
            for range in covered {
                set.add_range(&walk.definition, range);
            }
        }
    }

    /// Records that a transaction under snapshot isolation has read keys.
    pub(super) fn observe<'k>(
        &mut self,
        definition: &Arc<KeyspaceDefinition>,
        keys: impl IntoIterator<Item = &'k [u8]>,
        most: usize,
    ) {
        for key in keys {
            self.limit_observed(most);
            self.observed.add_point(definition, key);
        }
    }

    /// Returns whether a transaction under snapshot isolation has read a key. Once neighbours have
    /// been joined, this may also be true for other keys.
    pub(super) fn has_observed(&self, definition: &KeyspaceDefinition, key: &[u8]) -> bool {
        let covers = |walk: &OpenWalk| walk.definition.id == definition.id && walk.range.contains(key);
        self.observed.contains(definition, key) || self.walks.values().any(covers)
    }

    fn limit_observed(&mut self, most: usize) {
        if self.observed.len() >= most {
            self.observed.join_neighbours(most / 2);
        }
    }

    /// Tracks a range that the transaction depends on, without an iterator.
    pub(super) fn declare_range(
        &mut self,
        definition: &Arc<KeyspaceDefinition>,
        range: &KeyRange,
        most: usize,
    ) -> Result<()> {
        self.limit(most)?;
        self.footprint.add_range(definition, range);
        Ok(())
    }

    /// Tracks a range that the transaction writes to.
    pub(super) fn add_range(&mut self, definition: &Arc<KeyspaceDefinition>, range: &KeyRange) {
        self.footprint.add_range(definition, range);
    }

    /// If at least `most` keys and ranges are tracked, joins neighbours into ranges. Returns an
    /// error if that does not reduce their number enough.
    fn limit(&mut self, most: usize) -> Result<()> {
        if self.len() < most {
            return Ok(());
        }
        self.footprint.join_neighbours(most / 2);
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

    /// Returns the keys and ranges that the transaction depends on, and those that it has only
    /// observed. If an iterator was not dropped, its whole range is included.
    pub(super) fn into_parts(mut self) -> (AccessSet, AccessSet) {
        for number in self.walks.keys().copied().collect::<Vec<_>>() {
            let range = self.walks[&number].range.clone();
            self.end_walk(number, &[range]);
        }
        (self.footprint, self.observed)
    }
}
