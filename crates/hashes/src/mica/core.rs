//! Common interface of lossy and lossless tables, and the synchronisation of readers with writers.

use super::bucket::{BucketEntry, IndexBucket};
use super::error::Result;
use super::item::{self, ItemHeaderWord};
use super::key::HashedKey;
use super::memory::ItemWords;
use super::mode::ConcurrencyMode;
use super::stats::TableCounters;
use super::sync::spin;

pub(super) mod sealed {
    /// Prevents other implementations: a handle relies on exclusive ownership of its table.
    pub trait SealedTable {}
}

/// An item found in a table.
#[derive(Clone, Copy, Debug)]
pub struct ItemLocation {
    /// Bucket that contains the item's entry, and the slot in it.
    pub(super) bucket: usize,
    pub(super) slot: usize,
    pub(super) entry: BucketEntry,
    pub(super) at: usize,
    pub(super) header: ItemHeaderWord,
}

/// An item found and copied by a reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemHit {
    pub(super) found: ItemLocation,
    /// Expiry time of the item, or [`item::NEVER`].
    pub(super) expires_at: u64,
}

/// A table: [`super::LossyTable`] or [`super::LosslessTable`]. Its methods are called through
/// handles, which determine who may call them.
pub trait TableCore: Sized + sealed::SealedTable {
    type Mode: ConcurrencyMode;

    #[doc(hidden)]
    fn words(&self) -> &ItemWords<Self::Mode>;
    #[doc(hidden)]
    fn tally(&self) -> &TableCounters;
    /// Returns the bucket whose version changes when a key changes.
    #[doc(hidden)]
    fn bucket(&self, hash: u64) -> &IndexBucket;
    /// Prefetches the item that a key probably has. The bucket should be in the processor's cache.
    #[doc(hidden)]
    fn prefetch_item(&self, key: HashedKey<'_>);
    /// Returns the item of a key. In shared modes the result is unverified until M4 is checked.
    #[doc(hidden)]
    fn find(&self, key: HashedKey<'_>) -> Option<ItemLocation>;
    /// Returns whether an item was not overwritten.
    #[doc(hidden)]
    fn holds(&self, found: ItemLocation) -> bool;
    /// Records an access. Returns the current location of the item.
    #[doc(hidden)]
    fn touch(&self, key: HashedKey<'_>, found: ItemLocation, now: u64) -> ItemLocation;
    #[doc(hidden)]
    fn set(&self, key: HashedKey<'_>, value: &[u8], expires_at: u64, now: u64) -> Result<()>;
    #[doc(hidden)]
    fn delete(&self, key: HashedKey<'_>, now: u64) -> bool;
    /// Frees expired items in the next buckets. Returns their number.
    #[doc(hidden)]
    fn reclaim(&self, now: u64, buckets: usize) -> usize;
}

/// Copies the value of a key while others may write. Returns the item once the copy is consistent.
pub(super) fn read<C: TableCore>(
    table: &C,
    key: HashedKey<'_>,
    now: u64,
    value: &mut Vec<u8>,
) -> Option<ItemHit> {
    let bucket = table.bucket(key.hash());
    let mut turns = 0;
    loop {
        let version = bucket.begin_read::<C::Mode>();
        let found = table.find(key);
        let hit = found.map(|found| ItemHit {
            found,
            expires_at: item::expires_at(table.words(), found.at, found.header),
        });
        let live = hit.filter(|hit| hit.expires_at == item::NEVER || hit.expires_at > now);
        if let Some(ItemHit { found, .. }) = live {
            value.resize(found.header.value_len(), 0);
            table.words().read(found.at + found.header.value_at(), value);
        }
        // The bucket's version does not change when an append for another bucket overwrites the
        // item. Therefore the offset is checked again after the words were copied.
        let is_whole = bucket.end_read::<C::Mode>(version) && found.is_none_or(|found| table.holds(found));
        if is_whole {
            return live;
        }
        spin(turns);
        turns = turns.saturating_add(1);
    }
}
