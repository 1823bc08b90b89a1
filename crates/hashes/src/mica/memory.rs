//! The memory of a partition: words for the items, and buckets for the index. Only this file uses
//! pointers into it.
//!
//! The memory is anonymous and consists of huge pages if the system provides them. In shared modes,
//! every access is atomic per word. A reader may therefore see a mixture of old and new words,
//! which it detects by checking versions and offsets (M4). In exclusive mode, the same words are
//! accessed as ordinary memory.

use super::bucket::IndexBucket;
#[cfg(not(alluvium_model_check))]
use super::error::Error;
use super::error::Result;
use super::mode::ConcurrencyMode;
use super::sync::{AtomicU32, Ordering};
use std::marker::PhantomData;

#[cfg(not(alluvium_model_check))]
use alluvium_storage::memory::AnonymousMemory;

/// Size of a word in bytes. Items are aligned to words.
pub(super) const WORD: usize = size_of::<u32>();

/// Maximum number of bytes that are copied or compared word by word in every mode, because calling
/// a copy function would cost more.
const SHORT: usize = 32;

/// Number of words in a cache line of 64 bytes.
const LINE: usize = 16;

/// Maximum number of words to prefetch of an item.
const MOST_PREFETCHED: usize = 4 * LINE;

/// Words for items, initially zero.
#[derive(Debug)]
pub struct ItemWords<M> {
    #[cfg(not(alluvium_model_check))]
    memory: AnonymousMemory,
    #[cfg(alluvium_model_check)]
    memory: Box<[AtomicU32]>,
    mode: PhantomData<M>,
}

impl<M: ConcurrencyMode> ItemWords<M> {
    #[cfg(not(alluvium_model_check))]
    pub(super) fn reserve(count: usize) -> Result<ItemWords<M>> {
        let memory = reserve(count.checked_mul(WORD))?;
        let mode = PhantomData;
        Ok(ItemWords { memory, mode })
    }

    #[cfg(alluvium_model_check)]
    pub(super) fn reserve(count: usize) -> Result<ItemWords<M>> {
        let memory = (0..count).map(|_| AtomicU32::new(0)).collect();
        let mode = PhantomData;
        Ok(ItemWords { memory, mode })
    }

    #[cfg(not(alluvium_model_check))]
    #[inline(always)]
    fn all(&self) -> &[AtomicU32] {
        // SAFETY: the reservation has `len` bytes, is aligned to a page, is initialised to zeros,
        // and lives as long as `self`. The words are accessed as atomics. They are accessed as
        // ordinary memory only in exclusive mode, which is not `Sync`, so that only one thread
        // accesses them.
        unsafe { std::slice::from_raw_parts(self.memory.start().as_ptr().cast(), self.memory.len() / WORD) }
    }

    #[cfg(alluvium_model_check)]
    fn all(&self) -> &[AtomicU32] {
        &self.memory
    }

    /// Returns the number of words.
    pub(super) fn len(&self) -> usize {
        self.all().len()
    }

    /// Returns the word with index `at`.
    #[inline(always)]
    pub(super) fn load(&self, at: usize) -> u32 {
        self.all()[at].load(Ordering::Relaxed)
    }

    /// Writes the word with index `at`.
    #[inline(always)]
    pub(super) fn store(&self, at: usize, word: u32) {
        self.all()[at].store(word, Ordering::Relaxed);
    }

    /// Returns the two words at index `at` as an integer, with the first word as its lower half.
    #[inline]
    pub(super) fn load_pair(&self, at: usize) -> u64 {
        u64::from(self.load(at)) | u64::from(self.load(at + 1)) << 32
    }

    /// Writes an integer to the two words at index `at`, with its lower half first.
    #[inline]
    pub(super) fn store_pair(&self, at: usize, pair: u64) {
        self.store(at, pair as u32);
        self.store(at + 1, (pair >> 32) as u32);
    }

    /// Writes bytes to the words starting at index `at`. If the last word is only partly filled,
    /// its other bytes are unspecified.
    #[inline]
    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        let words = &self.all()[at..at + bytes.len().div_ceil(WORD)];
        if !M::SHARED && bytes.len() > SHORT {
            // SAFETY: the words are inside the reservation. The mode is exclusive, so only this
            // thread accesses them. `bytes` does not overlap them, because no reference to the
            // words is handed out while the partition can be written (`ItemWords::bytes`).
            unsafe {
                let target = words.as_ptr().cast::<u8>().cast_mut();
                target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
            return;
        }
        let (whole, rest) = bytes.as_chunks::<WORD>();
        for (word, bytes) in words.iter().zip(whole) {
            word.store(u32::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            words[whole.len()].store(partial(rest), Ordering::Relaxed);
        }
    }

    /// Reads bytes from the words starting at index `at`. In shared modes, the result may be a
    /// mixture of old and new data.
    #[inline]
    pub(super) fn read(&self, at: usize, bytes: &mut [u8]) {
        let words = &self.all()[at..at + bytes.len().div_ceil(WORD)];
        let (whole, rest) = bytes.as_chunks_mut::<WORD>();
        for (word, bytes) in words.iter().zip(whole.iter_mut()) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        if !rest.is_empty() {
            let last = words[whole.len()].load(Ordering::Relaxed).to_ne_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }

    /// Returns whether the words starting at index `at` contain `bytes`.
    #[inline]
    pub(super) fn equals(&self, at: usize, bytes: &[u8]) -> bool {
        let words = &self.all()[at..at + bytes.len().div_ceil(WORD)];
        let (whole, rest) = bytes.as_chunks::<WORD>();
        let equal = |(word, bytes): (&AtomicU32, &[u8; WORD])| {
            word.load(Ordering::Relaxed) == u32::from_ne_bytes(*bytes)
        };
        words.iter().zip(whole).all(equal)
            && (rest.is_empty()
                || words[whole.len()].load(Ordering::Relaxed).to_ne_bytes()[..rest.len()] == *rest)
    }

    /// Copies `count` words. The two ranges may overlap if the target precedes the source.
    #[inline]
    pub(super) fn copy(&self, from: usize, to: usize, count: usize) {
        let (source, target) = (&self.all()[from..from + count], &self.all()[to..to + count]);
        for (source, target) in source.iter().zip(target) {
            target.store(source.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Returns a reference to `len` bytes starting at word `at`, without copying them.
    ///
    /// # Safety
    /// The mode must be exclusive, and nothing may be written while the slice is alive.
    #[cfg(not(alluvium_model_check))]
    #[inline]
    pub(super) unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        const { assert!(!M::SHARED, "only an exclusive partition hands out its memory") };
        let words = &self.all()[at..at + len.div_ceil(WORD)];
        // SAFETY: the bytes are inside the reservation, and the caller ensures that they are not
        // written while the slice is alive.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), len) }
    }

    /// Prefetches the words starting at index `at`. For long items, prefetches only the first
    /// words, after which the hardware prefetcher takes over.
    #[inline(always)]
    pub(super) fn prefetch(&self, at: usize, count: usize) {
        let last = count.clamp(1, MOST_PREFETCHED) - 1;
        for ahead in (0..last).step_by(LINE).chain([last]) {
            if let Some(word) = self.all().get(at + ahead) {
                alluvium_base::prefetch_line(word);
            }
        }
    }
}

/// Returns the word that contains fewer than four bytes, padded with zeros.
#[inline]
fn partial(rest: &[u8]) -> u32 {
    let mut last = [0; WORD];
    last[..rest.len()].copy_from_slice(rest);
    u32::from_ne_bytes(last)
}

/// Buckets of an index, initially empty.
#[derive(Debug)]
pub(super) struct BucketArray<M> {
    #[cfg(not(alluvium_model_check))]
    memory: AnonymousMemory,
    #[cfg(alluvium_model_check)]
    memory: Box<[IndexBucket]>,
    mode: PhantomData<M>,
}

impl<M: ConcurrencyMode> BucketArray<M> {
    #[cfg(not(alluvium_model_check))]
    pub(super) fn reserve(count: usize) -> Result<BucketArray<M>> {
        let memory = reserve(count.checked_mul(size_of::<IndexBucket>()))?;
        let mode = PhantomData;
        Ok(BucketArray { memory, mode })
    }

    #[cfg(alluvium_model_check)]
    pub(super) fn reserve(count: usize) -> Result<BucketArray<M>> {
        let memory = (0..count).map(|_| IndexBucket::default()).collect();
        let mode = PhantomData;
        Ok(BucketArray { memory, mode })
    }

    #[cfg(not(alluvium_model_check))]
    #[inline(always)]
    pub(super) fn all(&self) -> &[IndexBucket] {
        // SAFETY: the reservation has `len` bytes, is aligned to a page, and lives as long as
        // `self`. A bucket consists only of atomics, for which zeros are valid values.
        unsafe {
            std::slice::from_raw_parts(
                self.memory.start().as_ptr().cast(),
                self.memory.len() / size_of::<IndexBucket>(),
            )
        }
    }

    #[cfg(alluvium_model_check)]
    pub(super) fn all(&self) -> &[IndexBucket] {
        &self.memory
    }
}

/// Reserves anonymous memory and asks the system for huge pages.
#[cfg(not(alluvium_model_check))]
fn reserve(len: Option<usize>) -> Result<AnonymousMemory> {
    let refused = |why: String| Error::Memory { why };
    let len = len.ok_or_else(|| refused("more bytes than a machine addresses".to_owned()))?;
    let memory = AnonymousMemory::reserve(len).map_err(|error| refused(error.to_string()))?;
    memory.prefer_huge_pages(0, len);
    Ok(memory)
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::super::mode::{Crew, Erew};
    use super::*;

    fn round_trip<M: ConcurrencyMode>() {
        let words = ItemWords::<M>::reserve(4096).unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        for len in (0..80).chain([1000, 1023, 1024]) {
            let (at, bytes) = (
                random.usize(..1000),
                (0..len).map(|_| random.u8(..)).collect::<Vec<u8>>(),
            );
            words.write(at, &bytes);
            let mut copy = vec![0; len];
            words.read(at, &mut copy);
            assert_eq!(copy, bytes);
            assert!(words.equals(at, &bytes));
            if let Some(last) = copy.last_mut() {
                *last ^= 1;
                assert!(!words.equals(at, &copy), "the last byte counts, length {len}");
            }
        }
    }

    #[test]
    fn bytes_of_any_length_come_back_in_both_ways_of_access() {
        round_trip::<Erew>();
        round_trip::<Crew>();
    }

    #[test]
    fn words_move_down_over_themselves() {
        let words = ItemWords::<Erew>::reserve(64).unwrap();
        (0..20).for_each(|at| words.store(at + 3, at as u32));
        words.copy(3, 1, 20);
        assert!((0..20).all(|at| words.load(at + 1) == at as u32));
        words.store_pair(40, u64::MAX - 6);
        assert_eq!(words.load_pair(40), u64::MAX - 6);
        // SAFETY: the mode is exclusive, and nothing is written while the slice is alive.
        assert_eq!(unsafe { words.bytes(1, 8) }, [0, 0, 0, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn memory_that_cannot_be_had_is_an_error() {
        let refused = ItemWords::<Erew>::reserve(usize::MAX).unwrap_err();
        assert!(refused.to_string().contains("memory"), "{refused}");
        assert!(BucketArray::<Erew>::reserve(1 << 50).is_err());
    }
}
