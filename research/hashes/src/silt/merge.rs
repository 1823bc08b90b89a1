//! Merges hash stores and a sorted store into the next sorted store.

use super::slots::{SiltSlot, SiltSlotLayout, SiltSlotState};
use super::{HashedKey, Result};
use alluvium_filters::trie::{self, BatchChange, TrieCodes, TrieIndexBuilder, TrieShape};
use std::cmp::Ordering;

/// An item with its hashed key, by which items are ordered.
#[derive(Clone, Debug)]
pub struct KeyedItem<T> {
    pub key: HashedKey,
    pub item: T,
}

impl<T> PartialEq for KeyedItem<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for KeyedItem<T> {}

impl<T> PartialOrd for KeyedItem<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for KeyedItem<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

/// An entry of a hash store.
#[derive(Clone, Debug)]
pub struct HashStoreEntry<T> {
    /// The key and the item.
    pub entry: KeyedItem<T>,
    /// Whether the entry has a value or marks its key as deleted.
    pub state: SiltSlotState,
    /// The number of its hash store; younger stores have greater numbers.
    pub store: u64,
}

/// Merges the entries of hash stores, sorted by key, with those of the sorted store. Among equal
/// keys the entry of the youngest store wins (S1). Deleted keys are dropped together with their
/// tombstones, since no older store remains (S4).
pub fn merge<T>(
    sorted: impl Iterator<Item = KeyedItem<T>>,
    young: impl Iterator<Item = HashStoreEntry<T>>,
) -> impl Iterator<Item = KeyedItem<T>> {
    let mut young = young.peekable();
    let youngest = std::iter::from_fn(move || {
        let mut best = young.next()?;
        while let Some(other) = young.next_if(|other| other.entry.key == best.entry.key) {
            if other.store > best.store {
                best = other;
            }
        }
        let change = match best.state {
            SiltSlotState::Value => BatchChange::Put,
            SiltSlotState::Deleted => BatchChange::Delete,
        };
        Some((best.entry, change))
    });
    trie::merge(sorted, youngest).map(|(_, entry)| entry)
}

/// Builds the slots of a sorted store and its index in one pass over sorted entries.
#[derive(Debug)]
pub struct SortedBuilder<'c> {
    layout: SiltSlotLayout,
    index: TrieIndexBuilder<'c>,
}

impl<'c> SortedBuilder<'c> {
    /// Starts a store of about `keys` keys.
    ///
    /// # Errors
    /// [`super::Error::Index`] when the codes are invalid for an index.
    pub fn new(codes: &'c TrieCodes, layout: SiltSlotLayout, keys: u64) -> Result<SortedBuilder<'c>> {
        let shape = TrieShape {
            hmax: codes.hmax(),
            ..TrieShape::new(HashedKey::BYTES)
        };
        Ok(SortedBuilder {
            layout,
            index: TrieIndexBuilder::new(codes, shape, shape.buckets(keys))?,
        })
    }

    /// Appends the slot of the next key to `out`.
    ///
    /// # Errors
    /// [`super::Error::TooLong`] when it does not fit, [`super::Error::Index`] when the hashed
    /// key is not greater than the previous one.
    pub fn push(&mut self, hashed: HashedKey, key: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.index.push(&hashed.bytes())?;
        let slot = SiltSlot {
            state: SiltSlotState::Value,
            key,
            value,
        };
        self.layout.encode(Some(&slot), out)
    }

    /// Returns the bytes of the index: item i is slot i.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.index.finish()
    }
}
