//! A cache of the committed rank indexes ("orders") of sorted sets.

use super::chunks::ChunkIndex;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
struct CachedOrder {
    chunks: Arc<ChunkIndex>,
    /// The reference bit of the CLOCK algorithm: set on access, cleared by the clock hand.
    is_used: bool,
}

#[derive(Debug, Default)]
struct OrderCacheState {
    kept: BTreeMap<u64, CachedOrder>,
    bytes: usize,
    /// Collection number that the clock hand passed last.
    hand: u64,
}

/// A CLOCK cache of rank indexes, keyed by collection number. While a caller holds a sorted set's
/// lock, the cache has either the set's committed index or none.
#[derive(Debug)]
pub(crate) struct OrderCache {
    state: Mutex<OrderCacheState>,
    most: usize,
}

impl OrderCache {
    pub(crate) fn new(most: usize) -> OrderCache {
        OrderCache {
            state: Mutex::default(),
            most,
        }
    }

    /// Returns a collection's index for reading, or `None` if it is not cached.
    pub(super) fn get(&self, number: u64) -> Option<Arc<ChunkIndex>> {
        let mut state = self.state.lock();
        let kept = state.kept.get_mut(&number)?;
        kept.is_used = true;
        Some(Arc::clone(&kept.chunks))
    }

    /// Removes a collection's index from the cache and returns it, or returns `None` if it is not
    /// cached. A caller that changes the index must put it back after the commit.
    pub(super) fn take(&self, number: u64) -> Option<Arc<ChunkIndex>> {
        let mut state = self.state.lock();
        let kept = state.kept.remove(&number)?;
        state.bytes -= kept.chunks.bytes();
        Some(kept.chunks)
    }

    /// Caches a collection's committed index, and evicts other indexes if necessary.
    pub(super) fn put(&self, number: u64, chunks: Arc<ChunkIndex>) {
        let mut state = self.state.lock();
        let bytes = chunks.bytes();
        if bytes > self.most {
            return;
        }
        let kept = CachedOrder {
            chunks,
            is_used: true,
        };
        if let Some(old) = state.kept.insert(number, kept) {
            state.bytes -= old.chunks.bytes();
        }
        state.bytes += bytes;
        while state.bytes > self.most {
            state.evict();
        }
    }
}

impl OrderCacheState {
    /// Advances the clock hand and evicts the first index that was not used since the hand last
    /// passed it.
    fn evict(&mut self) {
        loop {
            let next = self.kept.range_mut(self.hand.saturating_add(1)..).next();
            let Some((&number, kept)) = next else {
                assert!(!self.kept.is_empty(), "what takes memory is kept");
                self.hand = 0;
                if let Some(kept) = self.kept.get_mut(&0)
                    && !std::mem::take(&mut kept.is_used)
                {
                    return self.drop_one(0);
                }
                continue;
            };
            self.hand = number;
            if !std::mem::take(&mut kept.is_used) {
                return self.drop_one(number);
            }
        }
    }

    fn drop_one(&mut self, number: u64) {
        if let Some(kept) = self.kept.remove(&number) {
            self.bytes -= kept.chunks.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(count: u32) -> Arc<ChunkIndex> {
        let mut chunks = ChunkIndex::default();
        chunks.push(b"", count);
        Arc::new(chunks)
    }

    #[test]
    fn there_are_no_more_orders_than_there_is_room_for() {
        let one = chunks(1).bytes();
        let orders = OrderCache::new(10 * one);
        for number in 0..100 {
            orders.put(number, chunks(number as u32));
            orders.get(3);
        }
        assert_eq!(orders.state.lock().kept.len(), 10);
        assert_eq!(orders.get(3).unwrap().count(0), 3);
        assert_eq!(orders.take(99).unwrap().count(0), 99);
        assert!(orders.get(99).is_none());
        assert_eq!(orders.state.lock().bytes, 9 * one);
        let none = OrderCache::new(one - 1);
        none.put(1, chunks(1));
        assert!(none.get(1).is_none());
    }
}
