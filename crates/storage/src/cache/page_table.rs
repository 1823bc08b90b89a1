//! The page table, a hash table from nodes to frames. A lookup takes no lock and writes nothing.
//!
//! A bucket is one cache line: a control word, and seven words that each contain a tag and a frame
//! number. If the home bucket of a node is full, the node is stored in the next bucket with a free
//! word. Each bucket that was passed over counts the node in its control word (as in F14: Bronson,
//! Shi 2019), so a lookup can stop at the first bucket that no node has passed over. An insertion
//! or removal holds the lock bit of one bucket at a time.
//!
//! Invariants:
//!
//! - **W1** From before a word is stored until two epochs after its removal, its frame contains a
//!   node with the tag in the word.
//! - **W2** No two words contain the same frame number, and no two frames in the table contain the
//!   same node.
//! - **W3** A node with home bucket b is in one of the [`PROBES`] buckets from b on. Every bucket
//!   from b up to but not including the node's bucket counts the node.
//! - **W4** A bucket whose words were moved to a newer table stays marked as moved, and accepts no
//!   more words.

use super::frame::FrameId;
use crate::sync::{AtomicU64, Ordering, spin};

/// Number of words in a bucket.
pub(super) const WORDS: usize = if cfg!(alluvium_model_check) { 2 } else { 7 };
/// Number of consecutive buckets in which a node may be stored. At an average of four words in a
/// bucket, the probability that all of them are full is below 10⁻⁹.
const PROBES: usize = 8;
/// Average number of words per bucket for which the table is sized.
const MEAN: usize = 4;

const LOCKED: u64 = 1;
/// Flag in the control word: the bucket's words were moved to a newer table.
const MOVED: u64 = 2;
/// Each node that passed over the bucket adds this amount to the control word.
const PASS: u64 = 4;

/// Set in every word that is not empty.
const OCCUPIED: u64 = 1 << 63;
const _: () = assert!(
    MEAN <= WORDS || cfg!(alluvium_model_check),
    "buckets hold their mean"
);
const _: () = assert!(PROBES > 1, "a full bucket has a next one (W3)");
const _: () = assert!(LOCKED | MOVED == PASS - 1, "the marks lie below the count");

/// A bucket of the table, which is one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct PageTableBucket {
    control: AtomicU64,
    words: [AtomicU64; WORDS],
}

#[cfg(not(alluvium_model_check))]
const _: () = assert!(size_of::<PageTableBucket>() == 64);

// SAFETY: every field is an atomic integer, for which zero is valid. A zeroed bucket is empty.
unsafe impl super::arena::ZeroedAtomics for PageTableBucket {}

/// Returns the part of a word that depends on the hash.
#[inline]
fn tag(hash: u64) -> u64 {
    (hash << 32) | OCCUPIED
}

const TAG_MASK: u64 = !0 << 32;

/// The outcome of an insertion or a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageTableUpdate {
    Made,
    /// The bucket had no free word, or the word to be removed does not exist.
    Unchanged,
    /// The bucket was moved to a newer table, where the caller must retry.
    Moved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageTableLookup {
    /// The node was found in this frame.
    Frame(FrameId),
    /// The table does not contain the node.
    Nothing,
    /// The node was not found, but one of the searched buckets was moved to a newer table, which
    /// the caller must search too.
    Moved,
}

/// Memory for the buckets of a table.
#[cfg(not(alluvium_model_check))]
mod memory {
    use super::PageTableBucket;
    use crate::cache::arena::FrameArena;
    use std::sync::Arc;

    #[derive(Debug)]
    pub(super) struct PageTableBuckets {
        arena: Arc<FrameArena>,
        count: usize,
    }

    impl PageTableBuckets {
        pub(super) fn new(count: usize) -> crate::Result<PageTableBuckets> {
            let bytes = count * size_of::<PageTableBucket>();
            let arena = FrameArena::reserve(bytes, bytes)?;
            arena.prefer_huge_pages(0, bytes);
            Ok(PageTableBuckets { arena, count })
        }
    }

    impl std::ops::Deref for PageTableBuckets {
        type Target = [PageTableBucket];
        #[inline]
        fn deref(&self) -> &[PageTableBucket] {
            self.arena.slice(self.count)
        }
    }
}

#[cfg(alluvium_model_check)]
mod memory {
    use super::{AtomicU64, PageTableBucket};

    #[derive(Debug)]
    pub(super) struct PageTableBuckets(Vec<PageTableBucket>);

    impl PageTableBuckets {
        #[allow(clippy::unnecessary_wraps)]
        pub(super) fn new(count: usize) -> crate::Result<PageTableBuckets> {
            let bucket = || PageTableBucket {
                control: AtomicU64::new(0),
                words: std::array::from_fn(|_| AtomicU64::new(0)),
            };
            Ok(PageTableBuckets((0..count).map(|_| bucket()).collect()))
        }
    }

    impl std::ops::Deref for PageTableBuckets {
        type Target = [PageTableBucket];
        fn deref(&self) -> &[PageTableBucket] {
            &self.0
        }
    }
}

/// A page table of fixed size.
#[derive(Debug)]
pub(super) struct PageTable {
    buckets: memory::PageTableBuckets,
}

impl PageTable {
    /// Creates a table with space for about `frames` frames.
    ///
    /// # Errors
    /// If the operating system cannot provide the memory.
    pub(super) fn new(frames: usize) -> crate::Result<PageTable> {
        let buckets = memory::PageTableBuckets::new(Self::buckets_for(frames))?;
        Ok(PageTable { buckets })
    }

    fn buckets_for(frames: usize) -> usize {
        frames.div_ceil(MEAN).max(2)
    }

    /// Returns the size in bytes of a table for `frames` frames.
    pub(super) fn bytes_for(frames: usize) -> u64 {
        (Self::buckets_for(frames) * size_of::<PageTableBucket>()) as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.buckets.len() * size_of::<PageTableBucket>()) as u64
    }

    pub(super) fn bucket_count(&self) -> usize {
        self.buckets.len()
    }

    /// Returns the buckets that may contain a node with this hash, in the order in which they are
    /// searched.
    #[inline]
    fn probe(&self, hash: u64) -> impl Iterator<Item = &PageTableBucket> {
        let buckets = &*self.buckets;
        let home = ((u128::from(hash) * buckets.len() as u128) >> 64) as usize;
        (0..PROBES.min(buckets.len())).map(move |step| {
            let at = home + step;
            &buckets[if at < buckets.len() {
                at
            } else {
                at - buckets.len()
            }]
        })
    }

    /// Prefetches the home bucket of a hash, which most likely contains the node. This is only a
    /// hint.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(bucket) = self.probe(hash).next() {
            alluvium_base::prefetch_line(bucket);
        }
    }

    /// Searches the frames whose tags match the hash, and returns the first for which `is_it`
    /// returns true. The caller must hold a guard.
    #[inline]
    pub(super) fn find(&self, hash: u64, mut is_it: impl FnMut(FrameId) -> bool) -> PageTableLookup {
        let tag = tag(hash);
        let mut moved = 0;
        for bucket in self.probe(hash) {
            for word in &bucket.words {
                // Acquire ordering: the header of the frame was written before the word was stored.
                let word = word.load(Ordering::Acquire);
                if word & TAG_MASK == tag && is_it(FrameId(word as u32)) {
                    return PageTableLookup::Frame(FrameId(word as u32));
                }
            }
            let control = bucket.control.load(Ordering::Acquire);
            moved |= control & MOVED;
            if control < PASS {
                break;
            }
        }
        if moved == 0 {
            PageTableLookup::Nothing
        } else {
            PageTableLookup::Moved
        }
    }

    /// Adds a frame that contains a node with this hash.
    pub(super) fn insert(&self, hash: u64, frame: FrameId) -> PageTableUpdate {
        let mut passed = 0;
        let mut change = PageTableUpdate::Unchanged;
        for bucket in self.probe(hash) {
            let lock = bucket.lock();
            if lock.is_moved() {
                change = PageTableUpdate::Moved;
                break;
            }
            if let Some(word) = bucket.words.iter().find(|word| word.load(Ordering::Relaxed) == 0) {
                word.store(tag(hash) | u64::from(frame.0), Ordering::Release);
                return PageTableUpdate::Made;
            }
            bucket.control.fetch_add(PASS, Ordering::Relaxed);
            passed += 1;
        }
        self.unpass(hash, passed);
        change
    }

    /// Removes a frame from the table. If several threads try to remove it at the same time,
    /// exactly one of them gets [`PageTableUpdate::Made`], and must retire the frame.
    pub(super) fn remove(&self, hash: u64, frame: FrameId) -> PageTableUpdate {
        let target = tag(hash) | u64::from(frame.0);
        let mut moved = false;
        for (passed, bucket) in self.probe(hash).enumerate() {
            let lock = bucket.lock();
            moved |= lock.is_moved();
            if let Some(word) = bucket
                .words
                .iter()
                .find(|word| word.load(Ordering::Relaxed) == target)
            {
                word.store(0, Ordering::Release);
                drop(lock);
                self.unpass(hash, passed);
                return PageTableUpdate::Made;
            }
            if bucket.control.load(Ordering::Relaxed) < PASS {
                break;
            }
        }
        if moved {
            PageTableUpdate::Moved
        } else {
            PageTableUpdate::Unchanged
        }
    }

    /// Decrements the pass counts of the first `passed` buckets of a hash, because a node no longer
    /// passes over them.
    fn unpass(&self, hash: u64, passed: usize) {
        for bucket in self.probe(hash).take(passed) {
            let before = bucket.control.fetch_sub(PASS, Ordering::Relaxed);
            assert!(
                before >= PASS,
                "a bucket counts every node that passed over it (W3)"
            );
        }
    }

    /// Moves all frames in a bucket to a newer table, and marks the bucket as moved. `put` is
    /// called for each frame, and must make it visible in the newer table. Only then is the frame
    /// removed from this table, so a reader that searches this table first and the newer one second
    /// finds every frame.
    pub(super) fn move_bucket(&self, index: usize, mut put: impl FnMut(FrameId)) {
        let bucket = &self.buckets[index];
        let _lock = bucket.lock();
        for word in &bucket.words {
            let value = word.load(Ordering::Relaxed);
            if value != 0 {
                put(FrameId(value as u32));
            }
        }
        // Mark the bucket before removing its words, so that a lookup that misses a removed word
        // sees the mark.
        bucket.control.fetch_or(MOVED, Ordering::Release);
        for word in &bucket.words {
            word.store(0, Ordering::Release);
        }
    }

    /// Returns all words of the table as pairs of a bucket index and a frame, and the number of
    /// nodes that passed over each bucket. For `check`.
    pub(super) fn dump(&self) -> (Vec<(usize, FrameId)>, Vec<u64>) {
        let mut words = Vec::new();
        for (index, bucket) in self.buckets.iter().enumerate() {
            let values = bucket.words.iter().map(|word| word.load(Ordering::Acquire));
            words.extend(
                values
                    .filter(|&word| word != 0)
                    .map(|word| (index, FrameId(word as u32))),
            );
        }
        let passes = self
            .buckets
            .iter()
            .map(|bucket| bucket.control.load(Ordering::Acquire) / PASS);
        (words, passes.collect())
    }

    /// Returns how many buckets lie between the home bucket of a hash and a given bucket.
    pub(super) fn distance(&self, hash: u64, bucket: usize) -> usize {
        assert!(
            bucket < self.buckets.len(),
            "bucket {bucket} of {}",
            self.buckets.len()
        );
        let home = ((u128::from(hash) * self.buckets.len() as u128) >> 64) as usize;
        (bucket + self.buckets.len() - home) % self.buckets.len()
    }
}

/// Holds the lock bit of a bucket and releases it on drop.
struct BucketLock<'a> {
    bucket: &'a PageTableBucket,
    moved: bool,
}

impl PageTableBucket {
    fn lock(&self) -> BucketLock<'_> {
        let mut turns = 0;
        loop {
            let control = self.control.load(Ordering::Relaxed);
            if control & LOCKED == 0
                && self
                    .control
                    .compare_exchange(control, control | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                let moved = control & MOVED != 0;
                return BucketLock { bucket: self, moved };
            }
            spin(turns);
            turns += 1;
        }
    }
}

impl BucketLock<'_> {
    fn is_moved(&self) -> bool {
        self.moved
    }
}

impl Drop for BucketLock<'_> {
    fn drop(&mut self) {
        debug_assert!(
            self.bucket.control.load(Ordering::Relaxed) & LOCKED != 0,
            "a bucket is unlocked once"
        );
        self.bucket.control.fetch_and(!LOCKED, Ordering::Release);
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    /// Returns a hash with this tag whose home bucket is the first one.
    fn hash(tag: u32) -> u64 {
        u64::from(tag)
    }

    #[test]
    fn nodes_of_one_bucket_overflow_into_the_next_ones_and_leave_no_trace_when_they_go() {
        let table = PageTable::new(100 * MEAN).unwrap();
        let most = (PROBES * WORDS) as u32;
        for tag in 0..most {
            assert_eq!(table.insert(hash(tag), FrameId(tag)), PageTableUpdate::Made);
        }
        assert_eq!(
            table.insert(hash(most), FrameId(most)),
            PageTableUpdate::Unchanged,
            "every bucket in reach is full"
        );
        for tag in 0..most {
            assert_eq!(
                table.find(hash(tag), |_| true),
                PageTableLookup::Frame(FrameId(tag))
            );
        }
        assert_eq!(table.find(hash(most), |_| true), PageTableLookup::Nothing);
        for tag in (0..most).rev() {
            assert_eq!(table.remove(hash(tag), FrameId(tag)), PageTableUpdate::Made);
            assert_eq!(table.remove(hash(tag), FrameId(tag)), PageTableUpdate::Unchanged);
        }
        let (words, passes) = table.dump();
        assert!(words.is_empty() && passes.iter().all(|&passes| passes == 0));
    }

    #[test]
    fn frames_with_one_tag_are_told_apart_by_whoever_looks() {
        let table = PageTable::new(4).unwrap();
        for frame in 0..3 {
            assert_eq!(table.insert(hash(5), FrameId(frame)), PageTableUpdate::Made);
        }
        assert_eq!(
            table.find(hash(5), |frame| frame.0 == 2),
            PageTableLookup::Frame(FrameId(2))
        );
        assert_eq!(table.remove(hash(5), FrameId(1)), PageTableUpdate::Made);
        assert_eq!(
            table.find(hash(5), |frame| frame.0 == 1),
            PageTableLookup::Nothing
        );
    }

    #[test]
    fn the_last_bucket_overflows_into_the_first() {
        let table = PageTable::new(8 * MEAN).unwrap();
        let last = |tag: u64| !0 << 40 | tag;
        for tag in 0..=WORDS as u64 {
            assert_eq!(
                table.insert(last(tag), FrameId(tag as u32)),
                PageTableUpdate::Made
            );
        }
        let (words, _) = table.dump();
        assert_eq!(words.iter().filter(|(bucket, _)| *bucket == 0).count(), 1);
        assert_eq!(table.distance(last(0), 0), 1);
        assert_eq!(table.find(last(7), |_| true), PageTableLookup::Frame(FrameId(7)));
    }
}
