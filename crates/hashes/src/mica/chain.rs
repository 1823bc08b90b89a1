//! Buckets in chains: an index that loses nothing.
//!
//! A bucket that is full gets a spare one behind it, and so on (bulk chaining: Lim 2015,
//! §5.3.4). With 11 items for a bucket a tenth of spare ones suffices, and 98 in 100 items are
//! in the first bucket of their chain; with 13 it takes a quarter, and 95 are.

use super::bucket::{self, Bucket, Entry, WAYS};
use super::memory::Buckets;
use super::mode::Mode;
use super::sync::{AtomicU64, Ordering};

/// The buckets of a table in store mode.
#[derive(Debug)]
pub(super) struct Chains<M> {
    buckets: Buckets<M>,
    /// Buckets that chains begin with. The spare ones lie behind them.
    main: usize,
    /// The first spare bucket that was never used.
    fresh: AtomicU64,
    /// One more than the number of the first bucket of those that were given back; 0 for none.
    returned: AtomicU64,
    /// Spare buckets in use.
    spare_used: AtomicU64,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) bucket: usize,
    pub(super) slot: usize,
}

impl<M: Mode> Chains<M> {
    /// Returns empty buckets.
    pub(super) fn new(main: usize, spare: usize) -> super::Result<Chains<M>> {
        Ok(Chains {
            buckets: Buckets::reserve(main + spare)?,
            main,
            fresh: AtomicU64::new(main as u64),
            returned: AtomicU64::new(0),
            spare_used: AtomicU64::new(0),
        })
    }

    /// Returns the first bucket of a key's chain.
    #[inline(always)]
    pub(super) fn first(&self, hash: u64) -> usize {
        bucket::number(hash, self.main)
    }

    #[inline(always)]
    pub(super) fn bucket(&self, number: usize) -> &Bucket {
        &self.buckets.all()[number]
    }

    /// Returns the spare buckets: all, and those in use.
    pub(super) fn spare(&self) -> (usize, usize) {
        let used = self.spare_used.load(Ordering::Relaxed) as usize;
        (self.buckets.all().len() - self.main, used)
    }

    /// Returns the bytes of all buckets.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.buckets.all())
    }

    /// Hands over the entries of a chain that have a tag, until one is wanted.
    #[inline(always)]
    pub(super) fn find<T>(
        &self,
        first: usize,
        tag: u64,
        mut wanted: impl FnMut(Slot, Entry) -> Option<T>,
    ) -> Option<T> {
        let mut number = first;
        // A reader may see a chain that a writer changes: it ends all the same.
        for _ in 0..=self.buckets.all().len() - self.main {
            let bucket = self.bucket(number);
            let mut slots = bucket.matches(tag);
            while slots != 0 {
                let slot = slots.trailing_zeros() as usize;
                slots &= slots - 1;
                if let Some(entry) = bucket.entry(slot)
                    && let Some(found) = wanted(Slot { bucket: number, slot }, entry)
                {
                    return Some(found);
                }
            }
            number = bucket.next()?;
        }
        None
    }

    /// Returns an empty slot of a chain, with another bucket at its end if it takes one. None
    /// if there is none left. The caller has locked the chain.
    pub(super) fn empty_slot(&self, first: usize) -> Option<Slot> {
        let mut number = first;
        loop {
            let bucket = self.bucket(number);
            if let Some(slot) = (0..WAYS).find(|&slot| bucket.entry(slot).is_none()) {
                return Some(Slot { bucket: number, slot });
            }
            match bucket.next() {
                Some(next) => number = next,
                None => {
                    let next = self.take_spare()?;
                    bucket.link(Some(next));
                    return Some(Slot {
                        bucket: next,
                        slot: 0,
                    });
                }
            }
        }
    }

    /// Removes an entry: the last of the chain takes its place, and a bucket that is empty then
    /// is given back. The caller has locked the chain.
    pub(super) fn remove(&self, first: usize, at: Slot) {
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
