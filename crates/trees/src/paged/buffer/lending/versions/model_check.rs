//! Model-checked tests of readers without latches, concurrent with writers and with threads that
//! copy pages. The model checker runs a test under every schedule, and with every value that the
//! memory model allows a load to return, up to a bound on the number of preemptions:
//!
//! ```text
//! RUSTFLAGS="--cfg alluvium_model_check" CARGO_TARGET_DIR=target/model LOOM_MAX_PREEMPTIONS=3 \
//!     cargo test -p alluvium-trees --features couplings --lib --release model_check
//! ```
//!
//! A latch is a lock of the model checker. It protects ordinary memory, which a reader without a
//! latch never accesses.

use super::*;
use loom::sync::{Arc, RwLock};
use loom::thread;

const PAGE: u64 = 7;
const OTHER: u64 = 8;

/// A frame whose page has two words.
struct ModelFrame {
    latch: RwLock<[u64; 2]>,
    version: FrameVersion,
    owner: AtomicU64,
    snapshot: PageSnapshot,
}

fn bytes(words: [u64; 2]) -> Vec<u8> {
    let byte = |word: u64| (0..8).map(move |at| (word >> (8 * at)) as u8);
    words.into_iter().flat_map(byte).collect()
}

impl ModelFrame {
    fn new(words: [u64; 2]) -> ModelFrame {
        let framed = ModelFrame {
            latch: RwLock::new(words),
            version: FrameVersion::new(0),
            owner: AtomicU64::new(PAGE),
            snapshot: PageSnapshot::new(16),
        };
        framed.copy();
        framed
    }

    fn copy(&self) {
        let words = self.latch.read().unwrap();
        self.snapshot.fill(self.version.get(), &bytes(*words));
    }

    /// Changes both words of the page, one after the other.
    fn write(&self, words: [u64; 2]) {
        let mut page = self.latch.write().unwrap();
        self.version.raise();
        page[0] = words[0];
        page[1] = words[1];
    }

    /// Reads both words of the page as a reader without a latch does. Returns `None` if the result
    /// is not valid.
    fn read(&self) -> Option<[u64; 2]> {
        let version = self.snapshot.prove(&self.version, &self.owner, PAGE)?;
        let words = [self.snapshot.word(0), self.snapshot.word(1)];
        self.version.is_still(version).then_some(words)
    }
}

#[test]
fn a_reader_sees_one_version_of_a_page() {
    loom::model(|| {
        let frame = Arc::new(ModelFrame::new([1, 1]));
        let other = Arc::clone(&frame);
        let writing = thread::spawn(move || {
            other.write([2, 2]);
            other.copy();
        });
        if let Some(words) = frame.read() {
            assert!(words == [1, 1] || words == [2, 2], "torn: {words:?}");
        }
        writing.join().unwrap();
        assert_eq!(frame.read(), Some([2, 2]));
    });
}

#[test]
fn two_copiers_and_a_writer_leave_the_words_of_the_last_version() {
    loom::model(|| {
        let frame = Arc::new(ModelFrame::new([1, 1]));
        let other = Arc::clone(&frame);
        let writing = thread::spawn(move || {
            other.write([2, 2]);
            other.copy();
        });
        frame.copy();
        writing.join().unwrap();
        if let Some(words) = frame.read() {
            assert_eq!(words, [2, 2]);
        }
    });
}

#[test]
fn a_message_that_moves_to_a_child_is_seen_in_one_of_both() {
    loom::model(|| {
        let (parent, child) = (ModelFrame::new([5, 5]), ModelFrame::new([0, 0]));
        let nodes = Arc::new((parent, child));
        let others = Arc::clone(&nodes);
        let moving = thread::spawn(move || {
            let (parent, child) = &*others;
            // The parent stays latched until the message is in the child (PE4).
            let mut from = parent.latch.write().unwrap();
            parent.version.raise();
            *from = [0, 0];
            child.write([5, 5]);
            drop(from);
            child.copy();
            parent.copy();
        });
        let (parent, child) = &*nodes;
        // As in a descent, read the child's version before validating the parent's version.
        if let Some(above) = parent.snapshot.prove(&parent.version, &parent.owner, PAGE) {
            let first = parent.snapshot.word(0);
            if parent.version.is_still(above)
                && first == 0
                && let Some(below) = child.snapshot.prove(&child.version, &child.owner, PAGE)
                && parent.version.is_still(above)
            {
                let second = child.snapshot.word(0);
                assert!(
                    !child.version.is_still(below) || second == 5,
                    "the message is lost"
                );
            }
            if parent.version.is_still(above)
                && first == 5
                && let Some(below) = child.snapshot.prove(&child.version, &child.owner, PAGE)
                && parent.version.is_still(above)
            {
                let second = child.snapshot.word(0);
                assert!(
                    !child.version.is_still(below) || second == 0,
                    "the message is there twice"
                );
            }
        }
        moving.join().unwrap();
    });
}

#[test]
fn a_frame_that_gets_another_page_is_not_taken_for_the_first() {
    loom::model(|| {
        let frame = Arc::new(ModelFrame::new([1, 1]));
        let other = Arc::clone(&frame);
        let evicting = thread::spawn(move || {
            // The page leaves the frame. Another page is read into the frame and copied.
            other.version.raise();
            other.owner.store(u64::MAX, Ordering::Release);
            let mut page = other.latch.write().unwrap();
            other.version.raise();
            other.owner.store(OTHER, Ordering::Release);
            *page = [9, 9];
            drop(page);
            other.copy();
        });
        if let Some(words) = frame.read() {
            assert_eq!(words, [1, 1], "words of another page");
        }
        evicting.join().unwrap();
        assert_eq!(frame.read(), None);
    });
}

#[test]
fn a_page_that_was_changed_in_another_frame_is_not_read_in_the_first() {
    loom::model(|| {
        let nodes = Arc::new((ModelFrame::new([5, 5]), ModelFrame::new([0, 0])));
        let others = Arc::clone(&nodes);
        let moving = thread::spawn(move || {
            let (first, child) = &*others;
            // The parent leaves its frame, and its content is then moved to the child from another
            // frame.
            first.version.raise();
            first.owner.store(u64::MAX, Ordering::Release);
            child.write([5, 5]);
            child.copy();
        });
        let (first, child) = &*nodes;
        if let Some(above) = first.snapshot.prove(&first.version, &first.owner, PAGE)
            && let Some(below) = child.snapshot.prove(&child.version, &child.owner, PAGE)
            && first.version.is_still(above)
        {
            let second = child.snapshot.word(0);
            assert!(!child.version.is_still(below) || second == 0, "it is there twice");
        }
        moving.join().unwrap();
    });
}

#[test]
fn a_snapshot_that_another_frame_gets_is_not_taken_for_the_first_ones() {
    loom::model(|| {
        // Both frames have the same version, and the second frame has no snapshot. It now borrows
        // the first frame's snapshot.
        let frames = Arc::new((
            ModelFrame::new([1, 1]),
            ModelFrame::new([9, 9]),
            AtomicU64::new(0),
        ));
        let others = Arc::clone(&frames);
        let lending = thread::spawn(move || {
            let (first, second, lent) = &*others;
            first.version.raise();
            first.owner.store(u64::MAX, Ordering::Release);
            first.snapshot.clear();
            lent.store(1, Ordering::Release);
            let words = second.latch.read().unwrap();
            first.snapshot.fill(second.version.get(), &bytes(*words));
        });
        let (first, second, lent) = &*frames;
        if let Some(words) = first.read() {
            assert_eq!(words, [1, 1], "words of the second");
        }
        if lent.load(Ordering::Acquire) == 1
            && let Some(version) = first.snapshot.prove(&second.version, &second.owner, PAGE)
        {
            let words = [first.snapshot.word(0), first.snapshot.word(1)];
            assert!(
                !second.version.is_still(version) || words == [9, 9],
                "words of the first"
            );
        }
        lending.join().unwrap();
    });
}
