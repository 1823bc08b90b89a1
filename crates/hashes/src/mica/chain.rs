//! A lossless index: chains of buckets.
//!
//! A spare bucket is appended to a full bucket, and so on (bulk chaining: Lim 2015, §5.3.4). With
//! 11 items per bucket on average, a tenth of the buckets need a spare one, and 98 of 100 items are
//! in the first bucket of their chain. With 13 items per bucket, a quarter of the buckets need a
//! spare one, and 95 of 100 items are in the first bucket.

use super::bucket::{self, BucketEntry, IndexBucket, WAYS};
use super::memory::BucketArray;
use super::mode::ConcurrencyMode;
use super::sync::{AtomicU64, Ordering};

/// The buckets of a table in store mode, organised as chains.
#[derive(Debug)]
pub(super) struct BucketChains<M> {
    buckets: BucketArray<M>,
    /// Number of buckets that start a chain. The spare buckets follow them in the array.
    main: usize,
    /// Number of the first spare bucket that has never been used.
    fresh: AtomicU64,
    /// Head of the free list of spare buckets: a bucket number plus one, or 0 if the list is empty.
    returned: AtomicU64,
    /// Number of spare buckets that are in use.
    spare_used: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChainSlot {
    pub(super) bucket: usize,
    pub(super) slot: usize,
}

impl<M: ConcurrencyMode> BucketChains<M> {
    /// Creates `main` empty chains, and `spare` buckets for them to grow.
    pub(super) fn new(main: usize, spare: usize) -> super::Result<BucketChains<M>> {
        Ok(BucketChains {
            buckets: BucketArray::reserve(main + spare)?,
            main,
            fresh: AtomicU64::new(main as u64),
            returned: AtomicU64::new(0),
            spare_used: AtomicU64::new(0),
        })
    }

    /// Returns the number of the first bucket in a key's chain.
    #[inline(always)]
    pub(super) fn first(&self, hash: u64) -> usize {
        bucket::number(hash, self.main)
    }

    #[inline(always)]
    pub(super) fn bucket(&self, number: usize) -> &IndexBucket {
        &self.buckets.all()[number]
    }

    /// Returns the total number of spare buckets and the number in use.
    pub(super) fn spare(&self) -> (usize, usize) {
        let used = self.spare_used.load(Ordering::Relaxed) as usize;
        (self.buckets.all().len() - self.main, used)
    }

    /// Returns the size of all buckets, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.buckets.all())
    }

    /// Calls `wanted` for each entry in a chain that has the given tag, until it returns `Some`,
    /// and returns its result.
    #[inline(always)]
    pub(super) fn find<T>(
        &self,
        first: usize,
        tag: u64,
        mut wanted: impl FnMut(ChainSlot, BucketEntry) -> Option<T>,
    ) -> Option<T> {
        let mut number = first;
        // A reader may see a chain that is being changed and may even find a cycle, so limit the
        // loop.
        for _ in 0..=self.buckets.all().len() - self.main {
            let bucket = self.bucket(number);
            let mut slots = bucket.matches(tag);
            while slots != 0 {
                let slot = slots.trailing_zeros() as usize;
                slots &= slots - 1;
                if let Some(entry) = bucket.entry(slot)
                    && let Some(found) = wanted(ChainSlot { bucket: number, slot }, entry)
                {
                    return Some(found);
                }
            }
            number = bucket.next()?;
        }
        None
    }

    /// Returns an empty slot in a chain, appending a spare bucket if all its buckets are full.
    /// Returns `None` if no spare bucket is left. The caller must hold the chain's lock.
    pub(super) fn empty_slot(&self, first: usize) -> Option<ChainSlot> {
        let mut number = first;
        loop {
            let bucket = self.bucket(number);
            if let Some(slot) = (0..WAYS).find(|&slot| bucket.entry(slot).is_none()) {
                return Some(ChainSlot { bucket: number, slot });
            }
            match bucket.next() {
                Some(next) => number = next,
                None => {
                    let next = self.take_spare()?;
                    bucket.link(Some(next));
                    return Some(ChainSlot {
                        bucket: next,
                        slot: 0,
                    });
                }
            }
        }
    }

    /// Removes an entry and moves the last entry of the chain to its slot. If this empties a spare
    /// bucket, the bucket moves to the free list. The caller must hold the chain's lock.
    pub(super) fn remove(&self, first: usize, at: ChainSlot) {
        let (mut before, mut last) = (None, first);
        while let Some(next) = self.bucket(last).next() {
            before = Some(last);
            last = next;
        }
        let bucket = self.bucket(last);
        let from = (0..WAYS).rev().find(|&slot| bucket.entry(slot).is_some());
        let from = from.expect("the last bucket of a chain has an entry");
        self.bucket(at.bucket).replace(at.slot, bucket.entry(from));
        bucket.replace(from, None);
        if let Some(before) = before
            && (0..WAYS).all(|slot| bucket.entry(slot).is_none())
        {
            self.bucket(before).link(None);
            self.give_spare_back(last);
        }
    }

    fn take_spare(&self) -> Option<usize> {
        let returned = self.returned.load(Ordering::Relaxed);
        let number = if returned > 0 {
            let number = returned as usize - 1;
            let next = self.bucket(number).next().map_or(0, |next| next as u64 + 1);
            self.returned.store(next, Ordering::Relaxed);
            self.bucket(number).link(None);
            number
        } else {
            let fresh = self.fresh.load(Ordering::Relaxed);
            if fresh as usize == self.buckets.all().len() {
                return None;
            }
            self.fresh.store(fresh + 1, Ordering::Relaxed);
            fresh as usize
        };
        self.spare_used
            .store(self.spare_used.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Some(number)
    }

    fn give_spare_back(&self, number: usize) {
        assert!(number >= self.main, "bucket {number} is no spare one");
        let returned = self.returned.load(Ordering::Relaxed) as usize;
        self.bucket(number).link(returned.checked_sub(1));
        self.returned.store(number as u64 + 1, Ordering::Relaxed);
        self.spare_used
            .store(self.spare_used.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }
}
