//! Merges the hashes of several digests by prefix. Hashes with the same prefix stay ordered by age.

use super::{ListHeader, RoutingList, RoutingListCursor};
use crate::hashed::lists::PageSource;
use alluvium_base::Purpose;
use alluvium_storage::Result;
use alluvium_storage::store::Store;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Total number of pages to read ahead, over all digests.
const AHEAD: u64 = 1024;

/// A merge of several digests, which must be given oldest first.
#[derive(Debug)]
pub(super) struct DigestMerger {
    sources: Vec<DigestSource>,
    /// Priority queue of the next prefix of each source. Among equal prefixes, the older source
    /// comes first.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// The header that all sources share.
    head: ListHeader,
    /// Length of the prefix that orders the result, in bits.
    prefix_bits: u32,
    /// The next hashes to return, which have the same prefix in the sources. In reverse order.
    group: Vec<u64>,
}

#[derive(Debug)]
struct DigestSource {
    cursor: RoutingListCursor<'static>,
    /// The source's current hash, whose prefix is in the priority queue.
    hash: u64,
}

impl DigestMerger {
    /// Starts a merge of digests with the same header. Tree digests must be ordered by a prefix of
    /// at most `prefix_bits` bits.
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

    /// Returns the total number of hashes in all sources.
    pub(super) fn len(&self) -> u64 {
        let entries = self.sources.iter().map(|source| source.cursor.of().entries());
        entries.sum()
    }

    /// Returns the hash prefix by which the sources are merged. It is as long as the prefix that
    /// orders the sources, or as the requested prefix if that is shorter.
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

    /// Returns the next hash without its skipped bits, or `None` after the last one.
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
        // them by the longer one. The sort is stable, so hashes with the same longer prefix stay
        // ordered by age.
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
