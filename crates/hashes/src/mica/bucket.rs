//! A bucket of the index: fifteen entries, a version, and a link to the next bucket in its chain.
//!
//! ```text
//!   OFFSET  SIZE  MEANING
//!   0       4     version: odd while a writer changes the bucket
//!   4       4     the next bucket of a chain, counted from one; 0 for none (store mode)
//!   8       120   entries of 8 bytes: tag in the upper 16 bits, where the item is in the lower 48
//! ```
//!
//! An entry of zero is empty, because a tag is never zero (Lim 2015, §5.3.3). Items are aligned to
//! words, so the location does not need the lowest two bits of an entry. S3-FIFO counts accesses in
//! them.

use super::mode::ConcurrencyMode;
use super::sync::{AtomicU32, AtomicU64, Latch, LatchGuard, Ordering, fence, spin};

/// Number of entries in a bucket.
pub(super) const WAYS: usize = if cfg!(alluvium_model_check) { 2 } else { 15 };

/// Number of bits in an entry for the item's location.
pub(super) const PLACE_BITS: u32 = 48;
const PLACE: u64 = (1 << PLACE_BITS) - 1;
/// Bit mask of the access count in an entry.
const ACCESSES: u64 = 3;

/// A bucket, which occupies two cache lines.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct IndexBucket {
    version: AtomicU32,
    next: AtomicU32,
    entries: [AtomicU64; WAYS],
}

#[cfg(not(alluvium_model_check))]
const _: () = assert!(size_of::<IndexBucket>() == 128);

/// A non-empty entry: the tag of a key and the location of its item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct BucketEntry(pub(super) u64);

impl BucketEntry {
    #[inline(always)]
    pub(super) fn new(tag: u64, place: u64) -> BucketEntry {
        debug_assert!(place <= PLACE && place & ACCESSES == 0 && tag > 0 && tag < 1 << 16);
        BucketEntry(tag << PLACE_BITS | place)
    }

    #[inline(always)]
    pub(super) fn tag(self) -> u64 {
        self.0 >> PLACE_BITS
    }

    #[inline(always)]
    pub(super) fn place(self) -> u64 {
        self.0 & PLACE & !ACCESSES
    }

    /// Returns the access count of the item, from 0 to 3.
    #[inline(always)]
    pub(super) fn accesses(self) -> u64 {
        self.0 & ACCESSES
    }

    /// Returns the entry with a different access count.
    #[inline(always)]
    pub(super) fn with_accesses(self, accesses: u64) -> BucketEntry {
        debug_assert!(accesses <= ACCESSES);
        BucketEntry(self.0 & !ACCESSES | accesses)
    }
}

/// Returns the tag of a key: the lowest 16 bits of its hash, or one if they are zero.
#[inline(always)]
pub(super) fn tag(hash: u64) -> u64 {
    (hash & 0xffff).max(1)
}

/// Returns the index of a key's bucket in a partition with `buckets` buckets. It depends on bits 16
/// to 47 of the hash, and the partition on the upper 16 bits, so the two are independent (M1).
#[inline(always)]
pub(super) fn number(hash: u64, buckets: usize) -> usize {
    (((hash >> 16 & 0xffff_ffff) * buckets as u64) >> 32) as usize
}

/// Returns the index of a key's partition out of `partitions`, from the upper 16 bits of its hash
/// (M1).
#[must_use]
#[inline(always)]
pub fn partition(hash: u64, partitions: usize) -> usize {
    debug_assert!(partitions <= 1 << 16);
    (((hash >> 48) * partitions as u64) >> 16) as usize
}

impl IndexBucket {
    /// Prefetches both cache lines of the bucket.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        alluvium_base::prefetch_line(&self.version);
        alluvium_base::prefetch_line(&self.entries[WAYS / 2]);
    }

    #[inline(always)]
    pub(super) fn entry(&self, slot: usize) -> Option<BucketEntry> {
        let entry = self.entries[slot].load(Ordering::Relaxed);
        (entry != 0).then_some(BucketEntry(entry))
    }

    /// Replaces the entry in a slot. The caller must hold the bucket's lock.
    #[inline(always)]
    pub(super) fn replace(&self, slot: usize, entry: Option<BucketEntry>) {
        let (at, entry) = (&self.entries[slot], entry.map_or(0, |entry| entry.0));
        // A concurrent exchange that has read the previous entry is ordered before this store. The
        // model checker recognises this only for a swap.
        #[cfg(alluvium_model_check)]
        at.swap(entry, Ordering::Relaxed);
        #[cfg(not(alluvium_model_check))]
        at.store(entry, Ordering::Relaxed);
    }

    /// Replaces the entry in a slot if it is still `old`. Any thread may call this without a lock,
    /// but must not rely on whether the entry was replaced.
    #[inline]
    pub(super) fn exchange<M: ConcurrencyMode>(
        &self,
        slot: usize,
        old: BucketEntry,
        new: Option<BucketEntry>,
    ) {
        let new = new.map_or(0, |entry| entry.0);
        let entry = &self.entries[slot];
        if M::SHARED {
            let _ = entry.compare_exchange(old.0, new, Ordering::Relaxed, Ordering::Relaxed);
        } else {
            entry.store(new, Ordering::Relaxed);
        }
    }

    /// Returns the slots whose entries have the given tag, as a bit mask.
    #[inline(always)]
    pub(super) fn matches(&self, tag: u64) -> u32 {
        let mut mask = 0;
        for (slot, entry) in self.entries.iter().enumerate() {
            let equal = entry.load(Ordering::Relaxed) >> PLACE_BITS == tag;
            mask |= u32::from(equal) << slot;
        }
        mask
    }

    /// Returns the number of the next bucket in the chain, or `None` at its end.
    #[inline(always)]
    pub(super) fn next(&self) -> Option<usize> {
        (self.next.load(Ordering::Relaxed) as usize).checked_sub(1)
    }

    /// Sets the next bucket in the chain. The caller must hold the chain's lock.
    pub(super) fn link(&self, next: Option<usize>) {
        let next = next.map_or(0, |next| next + 1);
        let next = u32::try_from(next).expect("an index has fewer buckets");
        self.next.store(next, Ordering::Relaxed);
    }

    /// Begins a read. Waits until no writer is changing the bucket, and returns the bucket's
    /// version.
    #[inline(always)]
    pub(super) fn begin_read<M: ConcurrencyMode>(&self) -> u32 {
        if !M::SHARED {
            return 0;
        }
        let mut turns = 0;
        loop {
            let version = self.version.load(Ordering::Acquire);
            if version & 1 == 0 {
                return version;
            }
            spin(turns);
            turns = turns.saturating_add(1);
        }
    }

    /// Ends a read that began at `version`. Returns whether no writer has changed the bucket in
    /// between (M4). Log offsets that the caller loads afterwards are at least as new as the data
    /// that it has read.
    #[inline(always)]
    pub(super) fn end_read<M: ConcurrencyMode>(&self, version: u32) -> bool {
        if !M::SHARED {
            return true;
        }
        // Pairs with the fence before a writer writes words: a reader that has read one of these
        // words sees the new version here.
        fence(Ordering::Acquire);
        self.version.load(Ordering::Relaxed) == version
    }

    /// Locks the bucket. New readers wait, and readers that have already begun will retry. The
    /// caller must have excluded other writers, and must not hold this bucket's lock already.
    #[inline(always)]
    pub(super) fn lock<M: ConcurrencyMode>(&self) -> BucketGuard<'_, M> {
        let mode = std::marker::PhantomData;
        if M::SHARED {
            let version = self.version.load(Ordering::Relaxed);
            assert!(version & 1 == 0, "a writer locks a bucket once");
            self.version.store(version.wrapping_add(1), Ordering::Relaxed);
            fence(Ordering::Release);
        }
        BucketGuard { bucket: self, mode }
    }
}

/// Lock on a bucket, which is released on drop.
pub(super) struct BucketGuard<'a, M: ConcurrencyMode> {
    bucket: &'a IndexBucket,
    mode: std::marker::PhantomData<M>,
}

impl<M: ConcurrencyMode> Drop for BucketGuard<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        if M::SHARED {
            let version = self.bucket.version.load(Ordering::Relaxed);
            self.bucket
                .version
                .store(version.wrapping_add(1), Ordering::Release);
        }
    }
}

/// The locks of a writer: the bucket's lock, which is released first, and the partition's latch if
/// there may be several writers.
pub(super) struct BucketWriteGuard<'a, M: ConcurrencyMode> {
    _bucket: BucketGuard<'a, M>,
    _partition: Option<LatchGuard<'a>>,
}

impl<'a, M: ConcurrencyMode> BucketWriteGuard<'a, M> {
    /// Excludes other writers of the partition and readers of the bucket until the guard is
    /// dropped.
    #[inline(always)]
    pub(super) fn begin(latch: &'a Latch, bucket: &'a IndexBucket) -> BucketWriteGuard<'a, M> {
        let partition = M::LOCKED.then(|| latch.lock());
        BucketWriteGuard {
            _bucket: bucket.lock(),
            _partition: partition,
        }
    }

    /// Like [`BucketWriteGuard::begin`], but returns `None` instead of waiting if there is another
    /// writer.
    #[inline(always)]
    pub(super) fn try_begin(latch: &'a Latch, bucket: &'a IndexBucket) -> Option<BucketWriteGuard<'a, M>> {
        let partition = if M::LOCKED { Some(latch.try_lock()?) } else { None };
        Some(BucketWriteGuard {
            _bucket: bucket.lock(),
            _partition: partition,
        })
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::super::mode::{Crcw, Crew, Erew};
    use super::*;

    #[test]
    fn slices_of_the_hash_do_not_overlap() {
        let hash = 0x1234_5678_9abc_def0;
        assert_eq!(tag(hash), 0xdef0);
        assert_eq!(tag(0xff_0000), 1);
        for (bits, slice) in [(0..16, 0), (16..48, 1), (48..64, 2)] {
            for bit in bits {
                let other = hash ^ 1 << bit;
                let changed = [
                    tag(hash) != tag(other),
                    number(hash, 1 << 32) != number(other, 1 << 32),
                    partition(hash, 1 << 16) != partition(other, 1 << 16),
                ];
                assert_eq!(
                    changed.iter().position(|&changed| changed),
                    Some(slice),
                    "bit {bit}"
                );
                assert_eq!(changed.iter().filter(|&&changed| changed).count(), 1);
            }
        }
        assert_eq!((partition(u64::MAX, 5), partition(0, 5)), (4, 0));
        assert_eq!((number(u64::MAX, 1000), number(0, 1000)), (999, 0));
    }

    #[test]
    fn entries_keep_tag_place_and_accesses_apart() {
        let entry = BucketEntry::new(0xffff, PLACE & !ACCESSES).with_accesses(2);
        assert_eq!(
            (entry.tag(), entry.place(), entry.accesses()),
            (0xffff, PLACE - 3, 2)
        );
        assert_eq!(entry.with_accesses(0).accesses(), 0);
        let bucket = IndexBucket::default();
        bucket.replace(3, Some(BucketEntry::new(9, 64)));
        bucket.replace(14, Some(BucketEntry::new(9, 128)));
        bucket.replace(5, Some(BucketEntry::new(8, 9 << 40)));
        assert_eq!(bucket.matches(9), 1 << 3 | 1 << 14);
        bucket.exchange::<Crcw>(3, BucketEntry::new(9, 128), None);
        assert!(bucket.entry(3).is_some(), "it was another");
        bucket.exchange::<Crcw>(3, BucketEntry::new(9, 64), None);
        assert!(bucket.entry(3).is_none());
        bucket.link(Some(0));
        assert_eq!(bucket.next(), Some(0));
    }

    #[test]
    fn a_version_changes_with_every_write_in_shared_modes_only() {
        let bucket = IndexBucket::default();
        let before = bucket.begin_read::<Crew>();
        drop(bucket.lock::<Erew>());
        assert!(bucket.end_read::<Crew>(before));
        drop(bucket.lock::<Crew>());
        assert!(!bucket.end_read::<Crew>(before));
        let before = bucket.begin_read::<Crcw>();
        let latch = Latch::default();
        let writing = BucketWriteGuard::<Crcw>::begin(&latch, &bucket);
        assert!(BucketWriteGuard::<Crcw>::try_begin(&latch, &IndexBucket::default()).is_none());
        assert!(!bucket.end_read::<Crcw>(before));
        drop(writing);
        assert!(BucketWriteGuard::<Crcw>::try_begin(&latch, &bucket).is_some());
        assert_eq!(bucket.begin_read::<Crcw>(), before + 4);
    }
}
