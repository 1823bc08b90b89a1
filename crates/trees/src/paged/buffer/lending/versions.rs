//! Page versions, and snapshots of a page's content at one version. They allow reads without a
//! latch or a pin.
//!
//! A writer changes the bytes of a page as ordinary memory, so reading them concurrently would be a
//! data race even if the result were discarded. Reads without a latch therefore use a copy of the
//! page in atomic words, which is made under a shared latch:
//!
//! ```text
//!   writer   exclusive latch · version + 1 · changes
//!   copier   shared latch · the words of version v · "of v"
//!   reader   v = version · "of v"? · frame of the page? · words · version = v?
//! ```
//!
//! A reader notices if the words were overwritten while it was reading them. The thread that copied
//! the new words had already seen a later version, so a reader that sees one of these words also
//! sees that version. When a page leaves its frame, the frame's version is incremented before the
//! page can change in another frame.
//!
//! Frames that exchange snapshots must have different versions at all times. Suppose that a reader
//! is suspended while its snapshot is lent to another frame. If both frames had the same version,
//! the reader could take the other frame's words for those of its own page.

use crate::sync::{AtomicU64, Ordering, fence};

/// The version of a snapshot that has no content.
const NONE: u64 = u64::MAX;
/// The version of a snapshot while it is being written.
const CHANGING: u64 = u64::MAX - 1;
/// Size of a word in bytes.
const WORD: usize = 8;
const _: () = assert!(WORD * 8 == u64::BITS as usize, "words are numbers");

/// The version of a frame's page. It is incremented whenever the frame's latch is acquired
/// exclusively or a page leaves the frame.
#[derive(Debug)]
pub(in crate::paged::buffer) struct FrameVersion(AtomicU64);

impl FrameVersion {
    pub(in crate::paged::buffer) fn new(first: u64) -> FrameVersion {
        FrameVersion(AtomicU64::new(first))
    }

    /// Returns the first version of the frame with the number `frame` in a pool of `frames` frames.
    /// First versions are so far apart that two frames never reach the same version: even in the
    /// largest pool, one frame would have to be latched 2^31 times while no other frame is latched.
    pub(in crate::paged::buffer) fn first_of(frame: usize, frames: usize) -> u64 {
        assert!(frame < frames, "frames are numbered");
        (u64::MAX / 2 / frames as u64) * frame as u64
    }

    /// Returns the version. Call this before reading the content.
    pub(in crate::paged::buffer) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Increments the version before a change. The caller must hold the exclusive latch, or know
    /// that no thread holds the latch.
    pub(in crate::paged::buffer) fn raise(&self) {
        // A later reader may see data that was changed together with this page, under a latch or in
        // a snapshot. It then also sees the new version.
        let before = self.0.fetch_add(1, Ordering::Release);
        assert!(before < CHANGING - 1, "versions are counted");
    }

    /// Returns whether the version is still `version`. Call this after reading the content.
    pub(in crate::paged::buffer) fn is_still(&self, version: u64) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == version
    }
}

/// The content of a page at one version.
#[derive(Debug)]
pub(in crate::paged::buffer) struct PageSnapshot {
    /// The version of the page from which `words` was copied.
    of: AtomicU64,
    words: Box<[AtomicU64]>,
}

impl PageSnapshot {
    /// Creates a snapshot that has no content.
    pub(in crate::paged::buffer) fn new(content_bytes: usize) -> PageSnapshot {
        assert!(content_bytes > 0, "a page has content");
        let words = content_bytes.div_ceil(WORD);
        PageSnapshot {
            of: AtomicU64::new(NONE),
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Copies a page's content at `version` into the snapshot. The caller must hold the page's
    /// latch in shared mode. If another thread is already copying the page, this does nothing.
    pub(in crate::paged::buffer) fn fill(&self, version: u64, content: &[u8]) {
        assert!(
            content.len().div_ceil(WORD) == self.words.len(),
            "a snapshot is of one page"
        );
        let before = self.of.load(Ordering::Relaxed);
        if before == version || before == CHANGING {
            return;
        }
        let begun = self
            .of
            .compare_exchange(before, CHANGING, Ordering::Acquire, Ordering::Relaxed);
        if begun.is_err() {
            return;
        }
        // A reader that sees one of the words stored below also sees the version that was set
        // before them.
        fence(Ordering::Release);
        let (whole, rest) = content.as_chunks::<WORD>();
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        for (word, bytes) in self.words.iter().zip(whole) {
            word.store(number(bytes), Ordering::Relaxed);
        }
        if let Some(last) = self.words.get(whole.len()) {
            last.store(number(rest), Ordering::Relaxed);
        }
        self.of.store(version, Ordering::Release);
    }

    /// Removes the content, which must happen before the snapshot is lent to another frame, because
    /// that frame may have the same version. The previous frame's version must already have been
    /// incremented, and no thread may be copying its page.
    pub(in crate::paged::buffer) fn clear(&self) {
        let before = self.of.swap(NONE, Ordering::AcqRel);
        assert!(before != CHANGING, "who copies a page has pinned it");
    }

    /// Returns the word at index `at`, or 0 if the index is past the content. The word is valid
    /// only if the version is unchanged afterwards.
    pub(in crate::paged::buffer) fn word(&self, at: usize) -> u64 {
        self.words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Returns a frame's version if the snapshot has the same version and the frame contains the
    /// page, and `None` otherwise.
    ///
    /// The load order matters: the frame's page number is loaded after the snapshot's version, so
    /// that it is the page number at that version.
    pub(in crate::paged::buffer) fn prove(
        &self,
        version: &FrameVersion,
        owner: &AtomicU64,
        page: u64,
    ) -> Option<u64> {
        let now = version.get();
        let is_of = self.of.load(Ordering::Acquire) == now;
        (is_of && owner.load(Ordering::Acquire) == page).then_some(now)
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_has_the_bytes_of_its_page_and_is_of_one_version() {
        let (snapshot, version, owner) = (PageSnapshot::new(21), FrameVersion::new(0), AtomicU64::new(7));
        assert_eq!(snapshot.prove(&version, &owner, 7), None, "nothing was copied");
        let content: Vec<u8> = (1..=21).collect();
        snapshot.fill(version.get(), &content);
        assert_eq!(snapshot.prove(&version, &owner, 8), None, "another page");
        assert_eq!(snapshot.prove(&version, &owner, 7), Some(0));
        let words = &snapshot;
        let bytes = |at: usize| (0..8).map(move |byte| (words.word(at) >> (8 * byte)) as u8);
        let all: Vec<u8> = (0..3).flat_map(bytes).collect();
        assert_eq!((&all[..21], &all[21..]), (&content[..], &[0; 3][..]));
    }

    #[test]
    fn a_page_that_was_changed_has_no_snapshot_until_it_is_copied_again() {
        let (snapshot, version, owner) = (PageSnapshot::new(8), FrameVersion::new(0), AtomicU64::new(7));
        snapshot.fill(version.get(), &[1; 8]);
        let seen = snapshot.prove(&version, &owner, 7).unwrap();
        assert!(version.is_still(seen));
        version.raise();
        assert!(!version.is_still(seen) && snapshot.prove(&version, &owner, 7).is_none());
        snapshot.fill(version.get(), &[2; 8]);
        assert_eq!(snapshot.prove(&version, &owner, 7), Some(1));
        assert_eq!(snapshot.word(0) & 255, 2);
        assert_eq!(snapshot.word(1), 0, "past the content");
    }
}

#[cfg(all(test, alluvium_model_check))]
mod model_check;
