//! Batch updates, which merge sorted keys with a sorted batch of changes and compute the new index
//! from the old one.

use super::build::TrieIndexBuilder;
use super::code::TrieCodes;
use super::index::TrieIndex;
use crate::Error;
use std::cmp::Ordering;
use std::fmt;
use std::iter::Peekable;
use std::ops::Range;

/// How a batch changes a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchChange {
    /// The key is present after the batch, with the item that the batch provides.
    Put,
    /// The key is absent after the batch.
    Delete,
}

/// Where an item of the merged store comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemSource {
    /// The store as it was before the batch.
    Old,
    Batch,
}

/// Iterator over the keys of a store after a batch of changes. Both the keys and the changes are
/// sorted.
pub struct BatchMerge<O: Iterator, B: Iterator> {
    old: Peekable<O>,
    batch: Peekable<B>,
}

/// Merges the keys of a store with a batch of changes, both of which must be strictly ascending. If
/// a key is in both, the batch wins. Deleted keys are left out, so no tombstones remain.
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
        f.debug_struct("BatchMerge").finish_non_exhaustive()
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
    /// Returns the bytes of the index after applying a batch of changes to this one. They are the
    /// same as those of an index built from the merged keys with this shape and number of buckets
    /// (T2). Buckets without changes are copied, unless the offsets of their items in blocks
    /// change.
    ///
    /// `read` must return the keys of a range of items. It is called for each bucket that cannot be
    /// copied.
    ///
    /// # Errors
    /// [`Error::Damaged`] if this index is invalid; [`Error::Order`] if keys or changes are not
    /// ascending; errors from `read`.
    ///
    /// # Panics
    /// If a key does not have the length that the shape requires.
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
