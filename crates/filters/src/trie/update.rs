//! Batch updates: merges sorted keys with sorted changes, and derives an index from its
//! predecessor.

use super::build::TrieIndexBuilder;
use super::code::TrieCodes;
use super::index::TrieIndex;
use crate::Error;
use std::cmp::Ordering;
use std::fmt;
use std::iter::Peekable;
use std::ops::Range;

/// The effect of a batch on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchChange {
    /// The key is present afterwards, with the batch's item.
    Put,
    /// The key is absent afterwards.
    Delete,
}

/// The origin of an item in a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemSource {
    /// The store before the update.
    Old,
    Batch,
}

/// The merge of a sorted store's keys with the sorted changes of a batch.
pub struct BatchMerge<O: Iterator, B: Iterator> {
    old: Peekable<O>,
    batch: Peekable<B>,
}

/// Merges the keys of a store with a batch of changes; both must be strictly ascending. For a key
/// in both, the batch takes precedence. Deleted keys are omitted, and no tombstones remain.
///
/// ```
/// use alluvium_filters::trie::{BatchChange, ItemSource, merge};
/// let batch = [(2, BatchChange::Put), (3, BatchChange::Delete), (9, BatchChange::Delete)];
/// let merged: Vec<_> = merge([1, 2, 3].into_iter(), batch.into_iter()).collect();
/// assert_eq!(merged, [(ItemSource::Old, 1), (ItemSource::Batch, 2)]);
/// ```
pub fn merge<K, O, B>(old: O, batch: B) -> BatchMerge<O, B>
where
    K: Ord,
    O: Iterator<Item = K>,
    B: Iterator<Item = (K, BatchChange)>,
{
    BatchMerge {
        old: old.peekable(),
        batch: batch.peekable(),
    }
}

impl<O: Iterator, B: Iterator> fmt::Debug for BatchMerge<O, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merged").finish_non_exhaustive()
    }
}

impl<K, O, B> Iterator for BatchMerge<O, B>
where
    K: Ord,
    O: Iterator<Item = K>,
    B: Iterator<Item = (K, BatchChange)>,
{
    type Item = (ItemSource, K);

    fn next(&mut self) -> Option<(ItemSource, K)> {
        loop {
            let order = match (self.old.peek(), self.batch.peek()) {
                (Some(old), Some((key, _))) => old.cmp(key),
                (Some(_), None) => Ordering::Less,
                (None, _) => Ordering::Greater,
            };
            if order == Ordering::Less {
                return self.old.next().map(|key| (ItemSource::Old, key));
            }
            if order == Ordering::Equal {
                self.old.next();
            }
            let (key, change) = self.batch.next()?;
            if change == BatchChange::Put {
                return Some((ItemSource::Batch, key));
            }
        }
    }
}

impl TrieIndex<'_> {
    /// Returns the bytes of this index after a batch of changes. They equal those of an index built
    /// from the merged keys, with this shape and number of buckets (T2). Unchanged buckets are
    /// copied, unless the offsets of their items in blocks change.
    ///
    /// `read` returns the keys of a range of items; it is called for each bucket that cannot be
    /// copied.
    ///
    /// # Errors
    /// [`Error::Damaged`] if this index is damaged, [`Error::Order`] if keys or changes are not
    /// ascending, and errors of `read`.
    ///
    /// # Panics
    /// If a key's length differs from the shape's.
    pub fn update<K, E>(
        &self,
        codes: &TrieCodes,
        changes: &[(K, BatchChange)],
        mut read: impl FnMut(Range<u64>) -> Result<Vec<K>, E>,
    ) -> Result<Vec<u8>, E>
    where
        K: AsRef<[u8]> + Ord + Clone,
        E: From<Error>,
    {
        let mut builder = TrieIndexBuilder::new(codes, self.shape(), self.buckets())?;
        let mut changes = changes.iter().peekable();
        for bucket in 0..self.buckets() {
            let mut here = Vec::new();
            while let Some(change) = changes.next_if(|(key, _)| self.bucket_of(key.as_ref()) <= bucket) {
                here.push(change.clone());
            }
            if here.is_empty() && builder.copy(self, bucket)? {
                continue;
            }
            let old = read(self.items(bucket)?)?;
            for (_, key) in merge(old.into_iter(), here.into_iter()) {
                builder.push(key.as_ref())?;
            }
        }
        Ok(builder.finish())
    }
}
