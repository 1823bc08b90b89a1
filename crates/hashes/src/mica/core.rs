//! What tables of both modes do, and how a reader meets a writer.

use super::bucket::{Bucket, Entry};
use super::error::Result;
use super::item::{self, Header};
use super::key::HashedKey;
use super::memory::Words;
use super::mode::Mode;
use super::stats::Tally;
use super::sync::spin;

pub(super) mod sealed {
    /// Only the tables of this module are tables: a handle relies on that its table is no other's.
    pub trait Sealed {}
}

/// An item that was found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The number of the bucket that has its entry, and the slot there.
    pub(super) bucket: usize,
    pub(super) slot: usize,
    pub(super) entry: Entry,
    pub(super) at: usize,
    pub(super) header: Header,
}

/// What a reader has found and copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) found: Found,
    /// When the item expires, or [`item::NEVER`].
    pub(super) expires_at: u64,
}

/// A table of either kind: [`super::Lossy`] or [`super::Lossless`]. Its methods are reached
/// through the handles that know who may call them.
pub trait Core: Sized + sealed::Sealed {
    /// Who may read and write.
    type Mode: Mode;

    #[doc(hidden)]
    fn words(&self) -> &Words<Self::Mode>;
    #[doc(hidden)]
    fn tally(&self) -> &Tally;
    /// Returns the bucket whose version tells of changes to a key.
    #[doc(hidden)]
    fn bucket(&self, hash: u64) -> &Bucket;
    /// Asks for the line of the item that the key probably has. The bucket should be near.
    #[doc(hidden)]
    fn prefetch_item(&self, key: HashedKey<'_>);
    /// Returns the item of a key. In shared modes that is a guess until M4 is checked.
    #[doc(hidden)]
    fn find(&self, key: HashedKey<'_>) -> Option<Found>;
    /// Returns whether nothing was written over what was found.
    #[doc(hidden)]
    fn holds(&self, found: Found) -> bool;
    /// Records an access. Returns where the item is now.
    #[doc(hidden)]
    fn touch(&self, key: HashedKey<'_>, found: Found, now: u64) -> Found;
    #[doc(hidden)]
    fn set(&self, key: HashedKey<'_>, value: &[u8], expires_at: u64, now: u64) -> Result<()>;
    #[doc(hidden)]
    fn delete(&self, key: HashedKey<'_>, now: u64) -> bool;
    /// Frees what has expired, in the next buckets. Returns how many items.
    #[doc(hidden)]
    fn reclaim(&self, now: u64, buckets: usize) -> usize;
}

/// Copies the value of a key while others may write. Returns what was found, if the copy is
/// whole.
pub(super) fn read<C: Core>(table: &C, key: HashedKey<'_>, now: u64, value: &mut Vec<u8>) -> Option<Hit> {
    let bucket = table.bucket(key.hash());
    let mut turns = 0;
    loop {
        let version = bucket.begin_read::<C::Mode>();
        let found = table.find(key);
        let hit = found.map(|found| Hit {
            found,
            expires_at: item::expires_at(table.words(), found.at, found.header),
        });
        let live = hit.filter(|hit| hit.expires_at == item::NEVER || hit.expires_at > now);
        if let Some(Hit { found, .. }) = live {
            value.resize(found.header.value_len(), 0);
            table.words().read(found.at + found.header.value_at(), value);
        }
        // The bucket's version says nothing of an append for another bucket, which may have
        // written over the item: so the offset is asked for once more, after the words were
        // copied.
        let is_whole = bucket.end_read::<C::Mode>(version) && found.is_none_or(|found| table.holds(found));
        if is_whole {
            return live;
        }
        spin(turns);
        turns = turns.saturating_add(1);
    }
}
