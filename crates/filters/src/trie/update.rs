//! Batch updates: merges sorted keys with sorted changes, and derives an index from its
//! predecessor.

use super::build::Builder;
use super::code::Codes;
use super::index::Index;
use crate::Error;
use std::cmp::Ordering;
use std::fmt;
use std::iter::Peekable;
use std::ops::Range;

/// The effect of a batch on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key is present afterwards, with the batch's item.
    Put,
    /// The key is absent afterwards.
    Delete,
}

/// The origin of an item in a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The store before the update.
    Old,
    /// The batch.
    Batch,
}

/// The merge of a sorted store's keys with the sorted changes of a batch.
pub struct Merged<O: Iterator, B: Iterator> {
    old: Peekable<O>,
    batch: Peekable<B>,
}

/// Merges the keys of a store with a batch of changes; both must be strictly ascending. For a key
/// in both, the batch takes precedence. Deleted keys are omitted, and no tombstones remain.
///
/// ```
/// use alluvium_filters::trie::{Change, Source, merge};
/// let batch = [(2, Change::Put), (3, Change::Delete), (9, Change::Delete)];
/// let merged: Vec<_> = merge([1, 2, 3].into_iter(), batch.into_iter()).collect();
/// assert_eq!(merged, [(Source::Old, 1), (Source::Batch, 2)]);
/// ```
pub fn merge<K, O, B>(old: O, batch: B) -> Merged<O, B>
where
    K: Ord,
    O: Iterator<Item = K>,
    B: Iterator<Item = (K, Change)>,
{
    Merged {
        old: old.peekable(),
        batch: batch.peekable(),
    }
}

impl<O: Iterator, B: Iterator> fmt::Debug for Merged<O, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merged").finish_non_exhaustive()
    }
}

impl<K, O, B> Iterator for Merged<O, B>
where
    K: Ord,
    O: Iterator<Item = K>,
    B: Iterator<Item = (K, Change)>,
{
    type Item = (Source, K);

    fn next(&mut self) -> Option<(Source, K)> {
        loop {
            let order = match (self.old.peek(), self.batch.peek()) {
                (Some(old), Some((key, _))) => old.cmp(key),
                (Some(_), None) => Ordering::Less,
                (None, _) => Ordering::Greater,
            };
            if order == Ordering::Less {
                return self.old.next().map(|key| (Source::Old, key));
            }
            if order == Ordering::Equal {
                self.old.next();
            }
            let (key, change) = self.batch.next()?;
            if change == Change::Put {
                return Some((Source::Batch, key));
            }
        }
    }
}

impl Index<'_> {
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
        codes: &Codes,
        changes: &[(K, Change)],
        mut read: impl FnMut(Range<u64>) -> Result<Vec<K>, E>,
    ) -> Result<Vec<u8>, E>
    where
        K: AsRef<[u8]> + Ord + Clone,
        E: From<Error>,
    {
        let mut builder = Builder::new(codes, self.shape(), self.buckets())?;
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
