//! Promoted copies: copies, on a faster tier, of hot nodes from slower tiers.
//!
//! Spillane 2012, §5.1, reinserts pairs that were read into the newest level and marks them as
//! copies. That design must ensure that no copy outlives a newer version of its pair. Here, the
//! copies are of nodes, which are immutable. A reader reaches a copy only through the pointer to
//! the node, after searching all newer runs as usual, and the copy's bytes must match the checksum
//! in that pointer. A copy therefore cannot resurrect data that was overwritten or deleted. It may
//! be dropped, overwritten or damaged at any time, because the node can then be read from its own
//! tier. Nothing on disk refers to a copy, so a store that was just opened has no copies.
//!
//! ```text
//!   a lookup misses a node of a slower tier     seen for the first time: its hash is remembered
//!                                               seen lately: its bytes are collected
//!   what was collected fills an extent          a step of the store writes it, then it is found here
//!   the extents have their budget               the oldest goes, with its copies
//! ```
//!
//! Whole nodes are copied. This pays off if records are large or if hot records are adjacent.
//! Small, scattered records are better cached individually in memory.

use super::frame::NodeKey;
use super::ghost_queue::GhostQueue;
use crate::NodePointer;
use crate::extents::Extent;
use alluvium_device::BLOCK;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of bytes of nodes to collect before writing them, which is the size of an extent.
pub(crate) const BATCH_BYTES: u64 = 1 << 20;

/// For each node that fits into the budget, this many recently missed nodes are remembered.
const GHOSTS_PER_COPY: usize = 2;

/// Approximate memory in bytes that the index needs for a copy: its location by hash, and its hash
/// in the list of its extent.
const COPY_BYTES: u64 = 40;

/// Statistics of promoted copies, which are copies of hot nodes on a faster tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyStats {
    /// Number of bytes that copies occupy on the faster tier.
    pub bytes: u64,
    /// Number of nodes that currently have a copy.
    pub copies: u64,
    /// Number of copies written since the store was opened.
    pub made: u64,
    /// Number of cache misses for which a copy was found.
    pub hits: u64,
    /// Number of copies that failed verification, after which the node was read from its own tier.
    pub refused: u64,
    /// Memory in bytes that the index of copies uses.
    pub memory_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CopyLocation {
    tier: u8,
    offset: u64,
}

/// An extent that contains copies, and the hash of each copied node.
#[derive(Debug)]
struct CopyExtent {
    extent: Extent,
    hashes: Box<[u64]>,
}

/// Nodes to be copied: the hash and padded length of each, and the encoded bytes of all, padded to
/// whole blocks.
#[derive(Debug, Default)]
pub(crate) struct CopyBatch {
    pub(crate) hashes: Vec<u64>,
    pub(crate) lens: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct CopyIndex {
    places: HashMap<u64, CopyLocation>,
    /// The extents that contain copies, oldest first.
    blocks: VecDeque<CopyExtent>,
    collected: CopyBatch,
    seen: Option<GhostQueue>,
}

/// The promoted copies of a store.
#[derive(Debug, Default)]
pub(crate) struct PromotedCopies {
    /// Maximum number of bytes that copies may occupy on the faster tier. If 0, nothing is copied.
    budget: AtomicU64,
    inner: Mutex<CopyIndex>,
    made: AtomicU64,
    hits: AtomicU64,
    refused: AtomicU64,
}

impl PromotedCopies {
    pub(crate) fn budget(&self) -> u64 {
        self.budget.load(Ordering::Relaxed)
    }

    /// Sets the maximum number of bytes. If existing copies exceed it, the next promotion step
    /// frees some of them.
    pub(crate) fn set_budget(&self, bytes: u64) {
        let mut inner = self.inner.lock();
        // A page has at least 4 KiB, which bounds the number of nodes.
        let nodes = usize::try_from(bytes >> 12).unwrap_or(usize::MAX);
        inner.seen = (bytes > 0).then(|| GhostQueue::new(nodes.saturating_mul(GHOSTS_PER_COPY)));
        if bytes == 0 {
            inner.collected = CopyBatch::default();
        }
        self.budget.store(bytes, Ordering::Relaxed);
    }

    /// Returns a pointer to the node's copy, which is the node's pointer with another location, or
    /// `None` if the node has no copy.
    pub(super) fn find(&self, pointer: &NodePointer, hash: u64) -> Option<NodePointer> {
        if pointer.tier == 0 || self.budget() == 0 {
            return None;
        }
        let place = *self.inner.lock().places.get(&hash)?;
        debug_assert!(place.tier < pointer.tier, "a copy lies on a faster tier");
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(NodePointer {
            tier: place.tier,
            offset: place.offset,
            ..*pointer
        })
    }

    /// Removes a copy that failed verification from the index.
    pub(super) fn drop_damaged(&self, hash: u64) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.inner.lock().places.remove(&hash);
    }

    /// Offers a node of a slower tier for copying after a cache miss. `encoded` must be its encoded
    /// bytes. They are collected if the node was also missed recently and there is space for them.
    /// Otherwise, only the node's hash is remembered.
    pub(super) fn offer(&self, pointer: &NodePointer, encoded: &[u8]) {
        if pointer.tier == 0 || self.budget() == 0 {
            return;
        }
        let hash = NodeKey::of(pointer).hash();
        // An offer is only a hint, so it is not worth waiting for the lock.
        let Some(mut inner) = self.inner.try_lock() else {
            return;
        };
        let inner = &mut *inner;
        let Some(seen) = &inner.seen else { return };
        if !seen.recall(hash) {
            seen.note(hash);
            return;
        }
        let len = encoded.len().next_multiple_of(BLOCK as usize);
        let collected = &mut inner.collected;
        let is_full = (collected.bytes.len() + len) as u64 > BATCH_BYTES;
        if is_full || inner.places.contains_key(&hash) || collected.hashes.contains(&hash) {
            // The node is hot, so remember it, and let the next miss collect it.
            seen.note(hash);
            return;
        }
        collected.hashes.push(hash);
        collected.lens.push(len);
        let end = collected.bytes.len() + len;
        collected.bytes.extend_from_slice(encoded);
        collected.bytes.resize(end, 0);
    }

    /// Returns the collected nodes if they have at least `least` bytes, and begins a new
    /// collection. Otherwise returns `None`. `least` must be at most [`BATCH_BYTES`].
    pub(crate) fn take_collected(&self, least: u64) -> Option<CopyBatch> {
        debug_assert!(least <= BATCH_BYTES, "an extent is as much as there ever is");
        let mut inner = self.inner.lock();
        let is_enough = !inner.collected.hashes.is_empty() && inner.collected.bytes.len() as u64 >= least;
        is_enough.then(|| std::mem::take(&mut inner.collected))
    }

    /// Adds copies that were written to an extent to the index, where readers find them.
    pub(crate) fn publish(&self, extent: Extent, written: CopyBatch) {
        assert_eq!(written.hashes.len(), written.lens.len(), "a length for each copy");
        let mut inner = self.inner.lock();
        let mut offset = extent.offset();
        for (hash, len) in written.hashes.iter().zip(&written.lens) {
            let tier = extent.tier;
            inner.places.insert(*hash, CopyLocation { tier, offset });
            offset += *len as u64;
        }
        assert!(
            offset <= extent.range().end,
            "{offset}: copies lie inside of {extent}"
        );
        self.made
            .fetch_add(written.hashes.len() as u64, Ordering::Relaxed);
        inner.blocks.push_back(CopyExtent {
            extent,
            hashes: written.hashes.into(),
        });
    }

    /// Removes the oldest copies until the remaining ones use at most `most_bytes` bytes. Returns
    /// their extents, which the caller must free.
    pub(crate) fn shrink(&self, most_bytes: u64) -> Vec<Extent> {
        let mut inner = self.inner.lock();
        let mut bytes: u64 = inner.blocks.iter().map(|block| block.extent.bytes()).sum();
        let mut given = Vec::new();
        while bytes > most_bytes
            && let Some(CopyExtent { extent, hashes }) = inner.blocks.pop_front()
        {
            bytes -= extent.bytes();
            let range = extent.range();
            for hash in hashes {
                // The node may have a newer copy in a later extent, which stays in the index.
                let is_here =
                    |place: &CopyLocation| place.tier == extent.tier && range.contains(&place.offset);
                if inner.places.get(&hash).is_some_and(is_here) {
                    inner.places.remove(&hash);
                }
            }
            given.push(extent);
        }
        given
    }

    pub(crate) fn stats(&self) -> CopyStats {
        let inner = self.inner.lock();
        let copies = inner.places.len() as u64;
        let seen = inner.seen.as_ref().map_or(0, GhostQueue::bytes);
        CopyStats {
            bytes: inner.blocks.iter().map(|block| block.extent.bytes()).sum(),
            copies,
            made: self.made.load(Ordering::Relaxed),
            hits: self.hits.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            memory_bytes: copies * COPY_BYTES + seen + inner.collected.bytes.capacity() as u64,
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use crate::NodeCodec;

    fn pointer(offset: u64, checksum: u64) -> NodePointer {
        NodePointer {
            offset,
            birth: 1,
            checksum,
            encoded_len: 4096,
            tier: 1,
            pages: 1,
            codec: NodeCodec::None,
        }
    }

    fn hash(pointer: &NodePointer) -> u64 {
        NodeKey::of(pointer).hash()
    }

    fn extent(start: u32) -> Extent {
        Extent {
            tier: 0,
            start,
            units: 8,
        }
    }

    #[test]
    fn what_is_missed_twice_is_copied_and_found_until_its_extent_goes() {
        let copies = PromotedCopies::default();
        let node = pointer(4096, 7);
        copies.offer(&node, &[1; 4096]);
        assert!(copies.take_collected(0).is_none(), "it is off");
        copies.set_budget(16 << 20);
        copies.offer(&node, &[1; 4096]);
        assert!(copies.take_collected(0).is_none(), "it was seen once");
        copies.offer(&node, &[1; 4000]);
        assert!(
            copies.take_collected(8192).is_none(),
            "it is not worth a write yet"
        );
        let collected = copies.take_collected(4096).unwrap();
        assert_eq!(collected.bytes.len(), 4096, "it is padded to blocks");
        assert_eq!(copies.find(&node, hash(&node)), None);
        copies.publish(extent(8), collected);
        let found = copies.find(&node, hash(&node)).unwrap();
        assert_eq!((found.tier, found.offset), (0, extent(8).offset()));
        assert_eq!((found.checksum, found.encoded_len), (7, 4096));
        // A different node at the same location has no copy.
        let next = pointer(4096, 8);
        assert_eq!(copies.find(&next, hash(&next)), None);
        assert_eq!(copies.shrink(extent(8).bytes()), []);
        assert_eq!(copies.shrink(0), [extent(8)]);
        assert_eq!(copies.find(&node, hash(&node)), None);
        assert_eq!(copies.stats().copies, 0);
    }

    #[test]
    fn a_newer_copy_stays_when_the_extent_of_an_older_one_goes() {
        let copies = PromotedCopies::default();
        copies.set_budget(16 << 20);
        let node = pointer(0, 3);
        for start in [8, 16] {
            let collected = CopyBatch {
                hashes: vec![hash(&node)],
                lens: vec![4096],
                bytes: vec![0; 4096],
            };
            copies.publish(extent(start), collected);
        }
        assert_eq!(copies.shrink(extent(8).bytes()), [extent(8)]);
        assert_eq!(
            copies.find(&node, hash(&node)).map(|found| found.offset),
            Some(extent(16).offset())
        );
        copies.drop_damaged(hash(&node));
        assert_eq!(copies.find(&node, hash(&node)), None);
        assert_eq!(copies.stats().refused, 1);
    }

    #[test]
    fn no_more_is_collected_than_an_extent_holds() {
        let copies = PromotedCopies::default();
        copies.set_budget(1 << 30);
        for number in 0..400u64 {
            let node = pointer(number * 4096, number);
            copies.offer(&node, &[2; 4096]);
            copies.offer(&node, &[2; 4096]);
        }
        let collected = copies.take_collected(BATCH_BYTES).unwrap();
        assert_eq!(
            (collected.hashes.len(), collected.bytes.len() as u64),
            (256, BATCH_BYTES)
        );
    }
}
