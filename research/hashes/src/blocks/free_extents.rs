//! The free bytes of an in-memory space.

use super::space::BlockExtent;
use std::collections::{BTreeMap, BTreeSet};

/// Free extents, merged with their neighbours. Allocation uses the smallest extent that fits.
#[derive(Clone, Debug, Default)]
pub(super) struct FreeExtents {
    by_place: BTreeMap<u64, u64>,
    by_bytes: BTreeSet<(u64, u64)>,
    total: u64,
}

impl FreeExtents {
    /// Creates a list in which all `bytes` are free.
    pub(super) fn new(bytes: u64) -> FreeExtents {
        let mut free = FreeExtents::default();
        free.insert(0, bytes);
        free
    }

    pub(super) fn bytes(&self) -> u64 {
        self.total
    }

    pub(super) fn take(&mut self, bytes: u64) -> Option<BlockExtent> {
        let &(length, at) = self.by_bytes.range((bytes, 0)..).next()?;
        self.remove(at, length);
        if length > bytes {
            self.insert(at + bytes, length - bytes);
        }
        Some(BlockExtent { at, bytes })
    }

    pub(super) fn give(&mut self, extent: BlockExtent) {
        let (mut at, mut bytes) = (extent.at, extent.bytes);
        if let Some((&before, &length)) = self.by_place.range(..at).next_back() {
            assert!(before + length <= at, "{extent:?} is free already");
            if before + length == at {
                self.remove(before, length);
                (at, bytes) = (before, length + bytes);
            }
        }
        if let Some((&after, &length)) = self.by_place.range(extent.at..).next() {
            assert!(extent.at + extent.bytes <= after, "{extent:?} is free already");
            if extent.at + extent.bytes == after {
                self.remove(after, length);
                bytes += length;
            }
        }
        self.insert(at, bytes);
    }

    fn insert(&mut self, at: u64, bytes: u64) {
        self.total += bytes;
        self.by_place.insert(at, bytes);
        self.by_bytes.insert((bytes, at));
    }

    fn remove(&mut self, at: u64, bytes: u64) {
        self.total -= bytes;
        self.by_place.remove(&at);
        self.by_bytes.remove(&(bytes, at));
    }
}
