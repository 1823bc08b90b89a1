//! Versions of pages, and snapshots of a page's content at one version: what is read without a
//! latch and without a pin.
//!
//! A writer changes the bytes of a page as plain memory. No other thread may look at them
//! meanwhile, not even to throw away what it saw: that is a data race. So what is read without
//! a latch is a copy in atomic words, which was made under a shared latch:
//!
//! ```text
//!   writer   exclusive latch · version + 1 · changes
//!   copier   shared latch · the words of version v · "of v"
//!   reader   v = version · "of v"? · frame of the page? · words · version = v?
//! ```
//!
//! Whatever the words were written over with in between, their copier came behind a later
//! version, and a reader that saw one of its words sees that version, too. A page that leaves its
//! frame has another version from then on: what is done to it in another frame comes later.
//!
//! Frames that lend a snapshot to each other have different versions at all times. A reader who
//! slept while its snapshot went to another frame would take its words for those of its page
//! if both frames happened to have the same version.

use crate::sync::{AtomicU64, Ordering, fence};

/// The version of no content.
const NONE: u64 = u64::MAX;
/// That of words that are being written.
const CHANGING: u64 = u64::MAX - 1;
/// Bytes of a word.
const WORD: usize = 8;
const _: () = assert!(WORD * 8 == u64::BITS as usize, "words are numbers");

/// How often the latch of a frame was held exclusively, or a page taken out of it.
#[derive(Debug)]
pub(in crate::paged::buffer) struct Version(AtomicU64);

impl Version {
    pub(in crate::paged::buffer) fn new(first: u64) -> Version {
        Version(AtomicU64::new(first))
    }

    /// Returns the first version of a frame among `frames`, so far from those of the others that
    /// two are never the same: a frame would have to be latched 2^31 times at least, in the largest
    /// pool, while no other is.
    pub(in crate::paged::buffer) fn first_of(frame: usize, frames: usize) -> u64 {
        assert!(frame < frames, "frames are numbered");
        (u64::MAX / 2 / frames as u64) * frame as u64
    }

    /// Returns the version, before what it is the version of is read.
    pub(in crate::paged::buffer) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Raises it, before anything is changed. The caller holds the exclusive latch, or knows that
    /// nothing holds a latch.
    pub(in crate::paged::buffer) fn raise(&self) {
        // Who later reads what was changed with this page, latched or in a snapshot, sees it.
        let before = self.0.fetch_add(1, Ordering::Release);
        assert!(before < CHANGING - 1, "versions are counted");
    }

    /// Returns whether it is the same still, after what it is the version of was read.
    pub(in crate::paged::buffer) fn is_still(&self, version: u64) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == version
    }
}

/// The content of a page at one version.
#[derive(Debug)]
pub(in crate::paged::buffer) struct Snapshot {
    /// Which version the words are of.
    of: AtomicU64,
    words: Box<[AtomicU64]>,
}

impl Snapshot {
    /// Returns one of no content.
    pub(in crate::paged::buffer) fn new(content_bytes: usize) -> Snapshot {
        assert!(content_bytes > 0, "a page has content");
        let words = content_bytes.div_ceil(WORD);
        Snapshot {
            of: AtomicU64::new(NONE),
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Copies the content of a page, whose latch the caller holds shared, so that it is of
    /// `version`. Nothing is done while another thread does the same.
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
        // Who sees one of the words sees the version that was raised before them.
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

    /// Makes it one of no content, before another frame gets it, whose version may be the same. The
    /// version of the frame that had it was raised, and nothing copies its page.
    pub(in crate::paged::buffer) fn clear(&self) {
        let before = self.of.swap(NONE, Ordering::AcqRel);
        assert!(before != CHANGING, "who copies a page has pinned it");
    }

    /// Returns a word; 0 past the content. What it is of shows when the version is looked at
    /// again.
    pub(in crate::paged::buffer) fn word(&self, at: usize) -> u64 {
        self.words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Returns the version of a frame if the snapshot is of it, and the frame is that of a page.
    ///
    /// The order matters: behind words of a version, the frame's owner at that version is seen.
    pub(in crate::paged::buffer) fn prove(
        &self,
        version: &Version,
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
        let (snapshot, version, owner) = (Snapshot::new(21), Version::new(0), AtomicU64::new(7));
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
        let (snapshot, version, owner) = (Snapshot::new(8), Version::new(0), AtomicU64::new(7));
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
