//! Merges the hashes of several digests. The result is ordered by prefix, and hashes with the same
//! prefix stay in the order of their age.

use super::{ListHeader, RoutingList, RoutingListCursor};
use crate::hashed::lists::PageSource;
use alluvium_base::Purpose;
use alluvium_storage::Result;
use alluvium_storage::store::Store;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Total number of pages that are read ahead, over all digests.
const AHEAD: u64 = 1024;

/// A merge of several digests, which are given oldest first.
#[derive(Debug)]
pub(super) struct DigestMerger {
    sources: Vec<DigestSource>,
    /// Priority queue of the next prefix of each source. Among equal prefixes, that of the older
    /// source comes first.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// The header that all sources have in common.
    head: ListHeader,
    /// Length of the prefix by which the result is ordered, in bits.
    prefix_bits: u32,
    /// Hashes with the same prefix in the sources, in reverse order, which are returned next.
    group: Vec<u64>,
}

#[derive(Debug)]
struct DigestSource {
    cursor: RoutingListCursor<'static>,
    /// The current hash of the source. Its prefix is in the priority queue.
    hash: u64,
}

impl DigestMerger {
    /// Starts a merge of digests that have the same header. If they are digests of trees, they must
    /// be ordered by a prefix of at most `prefix_bits` bits.
    pub(super) fn new(store: &Arc<Store>, digests: &[RoutingList], prefix_bits: u32) -> Result<DigestMerger> {
        let head = digests.first().expect("a tree has leaves").head();
        assert!(
            digests.iter().all(|digest| digest.head() == head),
            "digests of one height are merged (V3)"
        );
        assert!(
            head.height == 0 || head.prefix_bits() <= prefix_bits,
            "hashes of one prefix are those of shorter ones"
        );
        let ahead = (AHEAD / digests.len() as u64).clamp(1, 16);
        let open = |digest| DigestSource {
            cursor: RoutingListCursor::new(
                PageSource::Store(Arc::clone(store)),
                digest,
                Purpose::Compact,
                ahead,
            ),
            hash: 0,
        };
        let mut hashes = DigestMerger {
            sources: digests.iter().map(open).collect(),
            next: BinaryHeap::new(),
            head,
            prefix_bits,
            group: Vec::new(),
        };
        for source in 0..hashes.sources.len() {
            hashes.advance(source)?;
        }
        Ok(hashes)
    }

    /// Returns the number of hashes in all sources together.
    pub(super) fn len(&self) -> u64 {
        let entries = self.sources.iter().map(|source| source.cursor.of().entries());
        entries.sum()
    }

    /// Returns the prefix of a hash by which the sources are merged. Its length is the smaller of
    /// two: the length by which the sources are ordered, and the requested length.
    fn key(&self, hash: u64) -> u64 {
        let bits = self.prefix_bits.min(self.head.prefix_bits());
        self.head.cut.first(hash, bits)
    }

    fn advance(&mut self, number: usize) -> Result<()> {
        let source = &mut self.sources[number];
        if let Some(entry) = source.cursor.next()? {
            source.hash = self.head.hash(entry);
            let hash = source.hash;
            let key = self.key(hash);
            self.next.push(Reverse((key, number)));
        }
        Ok(())
    }

    /// Returns the next hash without its skipped bits, or `None` after the last hash.
    pub(super) fn next(&mut self) -> Result<Option<u64>> {
        if let Some(hash) = self.group.pop() {
            return Ok(Some(hash));
        }
        let Some(&Reverse((key, source))) = self.next.peek() else {
            return Ok(None);
        };
        if self.head.prefix_bits() >= self.prefix_bits {
            self.next.pop();
            let hash = self.sources[source].hash;
            self.advance(source)?;
            return Ok(Some(hash));
        }
        // The sources are ordered by a shorter prefix. Collect all hashes with this prefix and sort
        // them by the longer prefix. The sort is stable, so hashes with the same longer prefix stay
        // in the order of their age.
        while let Some(&Reverse((next, source))) = self.next.peek()
            && next == key
        {
            self.next.pop();
            self.group.push(self.sources[source].hash);
            self.advance(source)?;
        }
        let (cut, bits) = (self.head.cut, self.prefix_bits);
        self.group.sort_by_key(|&hash| cut.first(hash, bits));
        self.group.reverse();
        Ok(self.group.pop())
    }
}
