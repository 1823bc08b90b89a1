//! The common interface of lossy and lossless tables, and the protocol by which readers detect
//! concurrent writers.

use super::bucket::{BucketEntry, IndexBucket};
use super::error::Result;
use super::item::{self, ItemHeaderWord};
use super::key::HashedKey;
use super::memory::ItemWords;
use super::mode::ConcurrencyMode;
use super::stats::TableCounters;
use super::sync::spin;

pub(super) mod sealed {
    /// Prevents implementations outside this crate, because handles rely on owning their table
    /// exclusively.
    pub trait SealedTable {}
}

/// Location of an item in a table.
#[derive(Clone, Copy, Debug)]
pub struct ItemLocation {
    /// Number of the bucket with the item's entry, and the entry's slot.
    pub(super) bucket: usize,
    pub(super) slot: usize,
    pub(super) entry: BucketEntry,
    pub(super) at: usize,
    pub(super) header: ItemHeaderWord,
}

/// An item that a reader has found, and whose value it has copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemHit {
    pub(super) found: ItemLocation,
    /// Expiry time of the item, or [`item::NEVER`].
    pub(super) expires_at: u64,
}

/// A table: either [`super::LossyTable`] or [`super::LosslessTable`]. Handles call its methods and
/// ensure that only permitted threads do so.
pub trait TableCore: Sized + sealed::SealedTable {
    type Mode: ConcurrencyMode;

    #[doc(hidden)]
    fn words(&self) -> &ItemWords<Self::Mode>;
    #[doc(hidden)]
    fn tally(&self) -> &TableCounters;
    /// Returns the bucket whose version changes whenever a key with this hash changes.
    #[doc(hidden)]
    fn bucket(&self, hash: u64) -> &IndexBucket;
    /// Prefetches the item that the index probably holds for a key. The bucket should already be in
    /// the processor's cache.
    #[doc(hidden)]
    fn prefetch_item(&self, key: HashedKey<'_>);
    /// Returns the location of a key's item. In shared modes, the result is not valid until the
    /// caller has checked M4.
    #[doc(hidden)]
    fn find(&self, key: HashedKey<'_>) -> Option<ItemLocation>;
    /// Returns whether the item is still in its log and has not been overwritten.
    #[doc(hidden)]
    fn holds(&self, found: ItemLocation) -> bool;
    /// Records an access to an item, which may move it. Returns its current location.
    #[doc(hidden)]
    fn touch(&self, key: HashedKey<'_>, found: ItemLocation, now: u64) -> ItemLocation;
    #[doc(hidden)]
    fn set(&self, key: HashedKey<'_>, value: &[u8], expires_at: u64, now: u64) -> Result<()>;
    #[doc(hidden)]
    fn delete(&self, key: HashedKey<'_>, now: u64) -> bool;
    /// Frees expired items in the next `buckets` buckets, and returns their number.
    #[doc(hidden)]
    fn reclaim(&self, now: u64, buckets: usize) -> usize;
}

/// Copies the value of a key to `value` while other threads may be writing. Retries until the copy
/// is consistent. Returns `None` if the key has no value or has expired.
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
        // An append for a key in another bucket may overwrite the item without changing this
        // bucket's version, so check after copying that the item is still in the log.
        let is_whole = bucket.end_read::<C::Mode>(version) && found.is_none_or(|found| table.holds(found));
        if is_whole {
            return live;
        }
        spin(turns);
        turns = turns.saturating_add(1);
    }
}
