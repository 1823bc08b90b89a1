//! The page table: maps a node's hash to its frame. Lookups take no lock and write nothing.
//!
//! A bucket is one cache line: a control word and seven words of (tag, frame). A node whose bucket
//! is full goes to the next bucket with a free word, and every bucket that it passed over counts it
//! (as in F14: Bronson, Shi 2019), so that a lookup stops at the first bucket that no node passed
//! over. Insertions and removals hold a bucket's lock bit, one bucket at a time.
//!
//! Invariants:
//!
//! - **W1** A word's frame holds a node with the word's hash, from before the word is stored until
//!   two epochs after it is removed.
//! - **W2** No two words have the same frame, and no two frames with words hold the same node.
//! - **W3** A node whose home bucket is b is in one of the [`PROBES`] buckets from b on, and every
//!   bucket between b and it counts it.
//! - **W4** A bucket that was moved to a newer table stays marked as moved and accepts no more
//!   words.

use super::frame::FrameId;
use crate::sync::{AtomicU64, Ordering, spin};

/// Number of words in a bucket.
pub(super) const WORDS: usize = if cfg!(alluvium_model_check) { 2 } else { 7 };
/// Number of buckets probed for a node. With four words in an average bucket, the probability that
/// a node fits in none of them is below 10⁻⁹.
const PROBES: usize = 8;
/// Target average number of words in a bucket.
const MEAN: usize = 4;

const LOCKED: u64 = 1;
/// Flag: the bucket's words are in a newer table.
const MOVED: u64 = 2;
/// Increment of the control word for one node that passed over the bucket.
const PASS: u64 = 4;

/// Set in every word that is not empty.
const OCCUPIED: u64 = 1 << 63;
const _: () = assert!(
    MEAN <= WORDS || cfg!(alluvium_model_check),
    "buckets hold their mean"
);
const _: () = assert!(PROBES > 1, "a full bucket has a next one (W3)");
const _: () = assert!(LOCKED | MOVED == PASS - 1, "the marks lie below the count");

/// One cache line of the table.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct PageTableBucket {
    control: AtomicU64,
    words: [AtomicU64; WORDS],
}

#[cfg(not(alluvium_model_check))]
const _: () = assert!(size_of::<PageTableBucket>() == 64);

// SAFETY: every field is an atomic integer; zero is an empty bucket.
unsafe impl super::arena::ZeroedAtomics for PageTableBucket {}

/// Returns the hash part of a word.
#[inline]
fn tag(hash: u64) -> u64 {
    (hash << 32) | OCCUPIED
}

const TAG_MASK: u64 = !0 << 32;

/// Result of an insertion or a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageTableUpdate {
    Made,
    /// There was no free word, or no such word.
    Unchanged,
    /// The bucket was moved to a newer table: retry there.
    Moved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageTableLookup {
    /// The frame of the node.
    Frame(FrameId),
    /// The table does not contain the node.
    Nothing,
    /// No such node here, but a bucket was moved to a newer table: look there.
    Moved,
}

/// Storage of a table's buckets.
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

/// A page table of one size.
#[derive(Debug)]
pub(super) struct PageTable {
    buckets: memory::PageTableBuckets,
}

impl PageTable {
    /// Creates a table for about `frames` frames.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub(super) fn new(frames: usize) -> crate::Result<PageTable> {
        let buckets = memory::PageTableBuckets::new(Self::buckets_for(frames))?;
        Ok(PageTable { buckets })
    }

    fn buckets_for(frames: usize) -> usize {
        frames.div_ceil(MEAN).max(2)
    }

    /// Returns the memory of a table for `frames` frames, in bytes.
    pub(super) fn bytes_for(frames: usize) -> u64 {
        (Self::buckets_for(frames) * size_of::<PageTableBucket>()) as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.buckets.len() * size_of::<PageTableBucket>()) as u64
    }

    pub(super) fn bucket_count(&self) -> usize {
        self.buckets.len()
    }

    /// Returns the buckets that may contain a hash, nearest first.
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

    /// Prefetches the bucket most likely to contain a hash. This is a hint.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(bucket) = self.probe(hash).next() {
            alluvium_base::prefetch_line(bucket);
        }
    }

    /// Returns the frame with this hash that `is_it` accepts. The caller must hold a guard.
    #[inline]
    pub(super) fn find(&self, hash: u64, mut is_it: impl FnMut(FrameId) -> bool) -> PageTableLookup {
        let tag = tag(hash);
        let mut moved = 0;
        for bucket in self.probe(hash) {
            for word in &bucket.words {
                // Acquire: the header of the frame was written before the word.
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

    /// Adds a word for a frame that holds a node with this hash.
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

    /// Removes the word of a frame. Of several concurrent callers exactly one gets
    /// [`PageTableUpdate::Made`], and must retire the frame.
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

    /// Decrements the counts of a node in the first `passed` buckets of its hash.
    fn unpass(&self, hash: u64, passed: usize) {
        for bucket in self.probe(hash).take(passed) {
            let before = bucket.control.fetch_sub(PASS, Ordering::Relaxed);
            assert!(
                before >= PASS,
                "a bucket counts every node that passed over it (W3)"
            );
        }
    }

    /// Moves a bucket's frames to a newer table. `put` makes each frame visible there before its
    /// word is removed here, so that a reader that looks here first and there next misses none. The
    /// bucket then stays marked as moved.
    pub(super) fn move_bucket(&self, index: usize, mut put: impl FnMut(FrameId)) {
        let bucket = &self.buckets[index];
        let _lock = bucket.lock();
        for word in &bucket.words {
            let value = word.load(Ordering::Relaxed);
            if value != 0 {
                put(FrameId(value as u32));
            }
        }
        // The mark precedes the removal of the words: a lookup that misses a removed word sees the
        // mark.
        bucket.control.fetch_or(MOVED, Ordering::Release);
        for word in &bucket.words {
            word.store(0, Ordering::Release);
        }
    }

    /// Returns every word of the table as (bucket, frame), and the pass count of every bucket, for
    /// `check`.
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

    /// Returns the distance from a hash's home bucket to `bucket`.
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

/// The held lock bit of a bucket.
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

    /// Returns a hash with this tag whose home is the first bucket.
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
