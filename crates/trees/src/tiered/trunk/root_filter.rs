//! The root filter (*digest* in code): one Bloom filter over all bundles that wait in the root.
//!
//! Every bundle has a maplet, and a lookup asks them all, nearly always in vain: a root holds two
//! dozen bundles of a memtable each, and a hundred times as much data lies below. The root filter
//! covers all of them, so a lookup of a key that is not in it skips the root's bundles. It is
//! derived data, in memory only. It is built once lookups have asked enough maplets in vain to
//! justify its cost (`lookup/root_filter_builder.rs`); without lookups, there is none.
//!
//! ```text
//!   version 7 ──┐                        a version's digest covers every bundle of its root
//!   version 8 ──┼── digest  ░█░░█░█░     what is incorporated is added before its version is published
//!   version 9 ──┘                        what is flushed stays in it, until it is full and rebuilt
//! ```
//!
//! Invariants:
//!
//! - **D1** A root filter has no false negatives for the bundles in the root of a version that
//!   refers to it: keys are added before the version is published, and never removed. Keys may be
//!   added while versions use it, so a search asks it once and keeps the answer.
//! - **D2** A root with a range delete among its bundles has no root filter, because the keys that
//!   a range delete covers are in no filter.
//!
//! The filter is blocked by cache line with six bits for each key ([`LineBlock`]), and uses the
//! fingerprints of the maplets. The false positive rate is about 1% for a full filter and 0.05% for
//! a new one.

use super::node::{MapletGroup, TrunkNode};
use alluvium_filters::{BloomBlock as _, BloomFilter, BloomPosition, LineBlock};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// Filter bits per key of capacity.
/// Tuning: `10` since 2026-11-22; a get of the short window fell from 12.1 to 9.0 µs with the
/// filter; its own effect was not measured.
const BITS_PER_KEY: u64 = 10;

/// Capacity as a multiple of the number of keys at construction.
/// Tuning: `2` since 2026-11-22.
const CAPACITY_FACTOR: u64 = 2;
/// Minimum capacity of the filter, in entries.
/// Tuning: `1 << 10` since 2026-11-22.
const MIN_CAPACITY: u64 = 1 << 10;
const _: () = assert!(
    CAPACITY_FACTOR > 1 && MIN_CAPACITY > 0,
    "a digest has space for keys to come"
);

/// The Bloom filter and its fill level.
pub(crate) struct RootFilter {
    bloom: BloomFilter<LineBlock>,
    fingerprint_bits: u8,
    capacity: u64,
    /// Number of added fingerprints; a thread that adds holds the lock.
    added: Mutex<u64>,
}

impl fmt::Debug for RootFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digest")
            .field("bytes", &self.bytes())
            .field("room", &self.capacity)
            .finish_non_exhaustive()
    }
}

impl RootFilter {
    /// Returns the capacity, in fingerprints, of a root filter for bundles with `entries` entries.
    pub(crate) fn capacity_for(entries: u64) -> u64 {
        (entries * CAPACITY_FACTOR).max(MIN_CAPACITY)
    }

    /// Returns the approximate size in bytes of a root filter for `room` fingerprints.
    pub(crate) fn bytes_for(room: u64) -> u64 {
        room * BITS_PER_KEY / 8
    }

    /// Creates an empty root filter for `room` fingerprints.
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

    /// Returns the filter bits of a fingerprint. A fingerprint is too short to serve as a hash, so
    /// it is mixed again.
    #[inline]
    fn place(&self, fingerprint: u64) -> BloomPosition<'_, LineBlock> {
        let mixed = (fingerprint ^ fingerprint >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.bloom.of(mixed)
    }

    /// Returns the fingerprint length in bits.
    pub(crate) fn fingerprint_bits(&self) -> u32 {
        u32::from(self.fingerprint_bits)
    }

    fn fingerprint(&self, hash: u64) -> u64 {
        hash >> (64 - self.fingerprint_bits)
    }

    /// Prefetches the cache line that [`RootFilter::may_hold`] reads.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.place(self.fingerprint(hash)).prefetch();
    }

    /// Returns whether the key with this hash may be present.
    #[inline]
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        // A reader that sees a version sees all keys added before its publication (D1).
        self.place(self.fingerprint(hash)).may_contain()
    }

    /// Adds fingerprints if they fit, and returns whether they did.
    pub(crate) fn add(&self, fingerprints: impl ExactSizeIterator<Item = u64>) -> bool {
        let mut added = self.added.lock();
        *added += fingerprints.len() as u64;
        if *added > self.capacity {
            return false;
        }
        for fingerprint in fingerprints {
            // The lock is held, so no other thread adds.
            self.place(fingerprint).add_alone();
        }
        true
    }

    /// Adds the keys with these hashes if they fit, and returns whether they did.
    pub(crate) fn add_hashes(&self, hashes: &[u64]) -> bool {
        self.add(hashes.iter().map(|&hash| self.fingerprint(hash)))
    }
}

/// A root filter and the groups that it covers.
#[derive(Debug)]
pub(crate) struct RootFilterCoverage {
    digest: Arc<RootFilter>,
    groups: HashSet<u64>,
}

impl RootFilterCoverage {
    /// Creates a root filter that covers these groups.
    pub(crate) fn new(digest: Arc<RootFilter>, groups: HashSet<u64>) -> RootFilterCoverage {
        RootFilterCoverage { digest, groups }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.digest.bytes()
    }

    /// Returns the root filter if it covers every bundle of this root (D1, D2).
    pub(super) fn digest_for(&self, root: &TrunkNode) -> Option<Arc<RootFilter>> {
        let is_covered = |group: &Arc<MapletGroup>| self.groups.contains(&group.id) && !deletes_ranges(group);
        waiting(root).all(is_covered).then(|| Arc::clone(&self.digest))
    }

    /// Records that a group was added to `digest`. Ignored if `digest` is not this filter.
    pub(crate) fn add(&mut self, digest: &Arc<RootFilter>, group: u64) {
        if Arc::ptr_eq(&self.digest, digest) {
            let is_new = self.groups.insert(group);
            debug_assert!(is_new, "a group is incorporated once (D1)");
        }
    }
}

/// Returns the groups of all bundles that wait in a root.
pub(crate) fn waiting(root: &TrunkNode) -> impl Iterator<Item = &Arc<MapletGroup>> {
    let parts = root.bundles.iter().flat_map(|bundle| &bundle.parts);
    parts.map(|part| &part.group)
}

/// Returns whether a group has range deletes, which no filter covers (D2).
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
