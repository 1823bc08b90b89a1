//! The root filter (*digest* in code): one Bloom filter over all bundles in the root that have not
//! been flushed yet.
//!
//! Without it, a lookup must probe the maplet of every bundle in the root, nearly always in vain:
//! the root has about two dozen bundles of one memtable each, while a hundred times as much data is
//! below it. The root filter covers all bundles of the root, so a lookup whose key is not in the
//! filter skips all of them. The filter is derived data and exists only in memory. It is built once
//! lookups have probed enough of these maplets to justify its cost
//! (`lookup/root_filter_builder.rs`). A tree without lookups has no filter.
//!
//! ```text
//!   version 7 ──┐                        a version's digest covers every bundle of its root
//!   version 8 ──┼── digest  ░█░░█░█░     what is incorporated is added before its version is published
//!   version 9 ──┘                        what is flushed stays in it, until it is full and rebuilt
//! ```
//!
//! Invariants:
//!
//! - **D1** A root filter has no false negatives for the bundles in the root of any version that
//!   refers to it. Keys are added before such a version is published, and are never removed.
//!   Because keys may be added while a version is in use, a search queries the filter once and
//!   reuses the answer.
//! - **D2** A root with a range delete among its bundles has no root filter, because no filter can
//!   contain all keys that a range delete covers.
//!
//! The filter is blocked by cache line and sets six bits per key ([`LineBlock`]). A key is added by
//! its maplet fingerprint. The false positive rate is about 1% for a full filter and 0.05% for a
//! new one.

use super::node::{MapletGroup, TrunkNode};
use alluvium_filters::{BloomBlock as _, BloomFilter, BloomPosition, LineBlock};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// Size of the filter in bits per key of its capacity.
/// Tuning: `10` since 2026-11-22; a get of the short window fell from 12.1 to 9.0 µs with the
/// filter; its own effect was not measured.
const BITS_PER_KEY: u64 = 10;

/// Capacity of the filter, as a multiple of the number of keys that it contains when it is built.
/// Tuning: `2` since 2026-11-22.
const CAPACITY_FACTOR: u64 = 2;
/// Minimum capacity of the filter, in fingerprints.
/// Tuning: `1 << 10` since 2026-11-22.
const MIN_CAPACITY: u64 = 1 << 10;
const _: () = assert!(
    CAPACITY_FACTOR > 1 && MIN_CAPACITY > 0,
    "a digest has space for keys to come"
);

/// The Bloom filter, its capacity, and the number of fingerprints added to it.
pub(crate) struct RootFilter {
    bloom: BloomFilter<LineBlock>,
    fingerprint_bits: u8,
    capacity: u64,
    /// Number of fingerprints added so far. A thread holds this lock while it adds fingerprints.
    added: Mutex<u64>,
}

impl fmt::Debug for RootFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootFilter")
            .field("bytes", &self.bytes())
            .field("room", &self.capacity)
            .finish_non_exhaustive()
    }
}

impl RootFilter {
    /// Returns the capacity, in fingerprints, of a root filter for bundles that have `entries`
    /// maplet entries in total.
    pub(crate) fn capacity_for(entries: u64) -> u64 {
        (entries * CAPACITY_FACTOR).max(MIN_CAPACITY)
    }

    /// Returns the approximate size in bytes of a root filter with a capacity of `room`
    /// fingerprints.
    pub(crate) fn bytes_for(room: u64) -> u64 {
        room * BITS_PER_KEY / 8
    }

    /// Creates an empty root filter with a capacity of `room` fingerprints.
    pub(crate) fn new(fingerprint_bits: u8, room: u64) -> RootFilter {
        debug_assert!(room > 0, "a digest is made for some keys");
        let blocks = (room * BITS_PER_KEY).div_ceil(u64::from(LineBlock::BITS));
        RootFilter {
            bloom: BloomFilter::new(blocks as usize),
            fingerprint_bits,
            capacity: room,
            added: Mutex::new(0),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bloom.bytes() as u64
    }

    /// Returns the position of a fingerprint's bits in the filter. The fingerprint is too short to
    /// serve as a hash, so it is mixed again.
    #[inline]
    fn place(&self, fingerprint: u64) -> BloomPosition<'_, LineBlock> {
        let mixed = (fingerprint ^ fingerprint >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.bloom.of(mixed)
    }

    /// Returns the length of a fingerprint in bits.
    pub(crate) fn fingerprint_bits(&self) -> u32 {
        u32::from(self.fingerprint_bits)
    }

    fn fingerprint(&self, hash: u64) -> u64 {
        hash >> (64 - self.fingerprint_bits)
    }

    /// Prefetches the cache line that [`RootFilter::may_hold`] will read for this hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.place(self.fingerprint(hash)).prefetch();
    }

    /// Returns whether the bundles may contain a key with this hash. If `false`, none of them does.
    #[inline]
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        // A thread that reads a version also sees all keys that were added to the filter before the
        // version was published (D1).
        self.place(self.fingerprint(hash)).may_contain()
    }

    /// Adds fingerprints, and returns whether they fit within the filter's capacity. If not, adds
    /// none, and the filter accepts no more.
    pub(crate) fn add(&self, fingerprints: impl ExactSizeIterator<Item = u64>) -> bool {
        let mut added = self.added.lock();
        *added += fingerprints.len() as u64;
        if *added > self.capacity {
            return false;
        }
        for fingerprint in fingerprints {
            // No other thread is adding, because this one holds the lock.
            self.place(fingerprint).add_alone();
        }
        true
    }

    /// Adds the keys with these hashes, and returns whether they fit. See [`RootFilter::add`].
    pub(crate) fn add_hashes(&self, hashes: &[u64]) -> bool {
        self.add(hashes.iter().map(|&hash| self.fingerprint(hash)))
    }
}

/// A root filter and the numbers of the groups that it covers.
#[derive(Debug)]
pub(crate) struct RootFilterCoverage {
    digest: Arc<RootFilter>,
    groups: HashSet<u64>,
}

impl RootFilterCoverage {
    /// Creates the coverage of a root filter that contains the keys of these groups.
    pub(crate) fn new(digest: Arc<RootFilter>, groups: HashSet<u64>) -> RootFilterCoverage {
        RootFilterCoverage { digest, groups }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.digest.bytes()
    }

    /// Returns the root filter if it covers every bundle of this root (D1, D2), and `None`
    /// otherwise.
    pub(super) fn digest_for(&self, root: &TrunkNode) -> Option<Arc<RootFilter>> {
        let is_covered = |group: &Arc<MapletGroup>| self.groups.contains(&group.id) && !deletes_ranges(group);
        waiting(root).all(is_covered).then(|| Arc::clone(&self.digest))
    }

    /// Records that the keys of a group were added to `digest`. Does nothing if `digest` is no
    /// longer the current root filter.
    pub(crate) fn add(&mut self, digest: &Arc<RootFilter>, group: u64) {
        if Arc::ptr_eq(&self.digest, digest) {
            let is_new = self.groups.insert(group);
            debug_assert!(is_new, "a group is incorporated once (D1)");
        }
    }
}

/// Returns the groups of all bundles in a root that have not been flushed yet.
pub(crate) fn waiting(root: &TrunkNode) -> impl Iterator<Item = &Arc<MapletGroup>> {
    let parts = root.bundles.iter().flat_map(|bundle| &bundle.parts);
    parts.map(|part| &part.group)
}

/// Returns whether a group contains range deletes, whose keys no filter contains (D2).
pub(crate) fn deletes_ranges(group: &MapletGroup) -> bool {
    group.runs().any(|(_, run)| !run.range_deletes().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_filters as filters;

    #[test]
    fn nothing_that_was_added_is_denied_and_nearly_everything_else_is() {
        let hash = |number: u64| filters::hash(0, &number.to_le_bytes());
        let digest = RootFilter::new(33, 10_000);
        let added: Vec<u64> = (0..10_000).map(hash).collect();
        assert!(digest.add_hashes(&added[..5_000]));
        let strangers = |digest: &RootFilter| (10_000..110_000).filter(|&n| digest.may_hold(hash(n))).count();
        let new = strangers(&digest);
        assert!(digest.add_hashes(&added[5_000..]));
        assert!(added.iter().all(|&hash| digest.may_hold(hash)));
        let full = strangers(&digest);
        assert!(
            (1..200).contains(&new) && (400..2_000).contains(&full),
            "{new} and {full} of 100,000"
        );
        assert!(!digest.add_hashes(&added[..1]), "there is no room");
    }
}
