//! Model check of the ordering of cache and tree operations:
//!
//! ```text
//! RUSTFLAGS="--cfg alluvium_model_check" CARGO_TARGET_DIR=target/model \
//!     cargo test --release -p alluvium --lib model_check
//! ```
//!
//! The cache is the real one; tree, memtables and watermark are minimal models that satisfy E2.
//! Each mistake that the ordering prevents is planted once, and the checker must find it.

use super::Records;
use super::sync::{AtomicU64, Mutex, Ordering};
use alluvium_base::Sequence;
use alluvium_dictionary::key::Key;
use std::sync::Arc;

/// Mistakes in the ordering, which the checker must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// A reader offers a value without a check of `begun`.
    KeepsUnasked,
    /// The tree publishes before the cache has invalidated and renewed.
    PublishesFirst,
    /// The cache invalidates and renews before it raises `begun`.
    ForgetsFirst,
    /// A reader is answered without a check of `begun`.
    AnswersUnasked,
    /// A reader that has found merges assumes that the kept record is not newer than its version.
    FoldsUponAnything,
}

const KEYS: [&[u8]; 2] = [b"river", b"lake"];

/// Commit n adds n to the first key and puts n for the second, so both values are known at every
/// sequence number.
struct World {
    /// Newest first: the base of each memtable and its commits.
    memtables: Mutex<Vec<(Sequence, Vec<Sequence>)>>,
    /// The cut of the published version.
    version: AtomicU64,
    visible: AtomicU64,
    records: Records,
    mistake: Mistake,
}

fn sum(through: Sequence) -> u64 {
    through * (through + 1) / 2
}

impl World {
    fn new(mistake: Mistake) -> World {
        World {
            memtables: Mutex::new(vec![(1, Vec::new())]),
            version: AtomicU64::new(1),
            visible: AtomicU64::new(1),
            records: Records::new(64 << 10, 1),
            mistake,
        }
    }

    /// Commits a merge for the first key and a put for the second.
    fn commit(&self) {
        let sequence = self.visible.load(Ordering::SeqCst) + 1;
        self.memtables.lock()[0].1.push(sequence);
        self.visible.store(sequence, Ordering::SeqCst);
    }

    /// Seals the newest memtable and flushes it.
    fn incorporate(&self) {
        let cut = self.visible.load(Ordering::SeqCst);
        self.memtables.lock().insert(0, (cut, Vec::new()));
        let forget = || {
            self.records.forget(Key::new(KEYS[0]));
            let newest = cut.to_string();
            self.records
                .renew(Key::new(KEYS[1]), newest.as_bytes(), true, || true);
        };
        match self.mistake {
            Mistake::PublishesFirst => {
                self.version.store(cut, Ordering::SeqCst);
                self.records.raise(cut);
                forget();
            }
            Mistake::ForgetsFirst => {
                forget();
                self.records.raise(cut);
                self.version.store(cut, Ordering::SeqCst);
            }
            _ => {
                self.records.raise(cut);
                forget();
                self.version.store(cut, Ordering::SeqCst);
            }
        }
        self.memtables.lock().pop();
    }

    /// Returns the read position and both values.
    fn read(&self) -> (Sequence, [u64; 2]) {
        let place = self.visible.load(Ordering::SeqCst);
        let memtables = self.memtables.lock().clone();
        let cut = self.version.load(Ordering::SeqCst);
        let above: Vec<Sequence> = memtables
            .iter()
            .filter(|(base, _)| *base >= cut)
            .flat_map(|(_, commits)| commits.iter().copied())
            .filter(|&commit| commit <= place)
            .collect();
        let tree = place.min(cut);
        let merged = self.below(KEYS[0], cut, place, above.is_empty(), sum(tree));
        let put = match above.iter().max() {
            Some(&newest) => newest,
            None => self.below(KEYS[1], cut, place, true, tree),
        };
        (place, [merged + above.iter().sum::<u64>(), put])
    }

    /// Returns the value below the memtables, which contain no message for the key or only merges.
    /// It comes from the cache, or else from the tree, whose value is `tree`.
    fn below(&self, key: &[u8], cut: Sequence, place: Sequence, is_untouched: bool, tree: u64) -> u64 {
        let mut seen = if is_untouched { place } else { place.min(cut) };
        if self.mistake == Mistake::AnswersUnasked {
            seen = Sequence::MAX;
        } else if self.mistake == Mistake::FoldsUponAnything {
            seen = place;
        }
        let mut value = Vec::new();
        if self.records.get(Key::new(key), seen, &mut value) {
            let text = std::str::from_utf8(&value).unwrap();
            return text.parse().unwrap();
        }
        if is_untouched {
            let seen = match self.mistake {
                Mistake::KeepsUnasked => Sequence::MAX,
                _ => place,
            };
            self.records
                .offer(Key::new(key), tree.to_string().as_bytes(), seen);
        }
        tree
    }
}

/// Two readers, a writer and the background. Each reader must see exactly the commits up to its
/// read position.
fn story(mistake: Mistake) {
    let world = Arc::new(World::new(mistake));
    let _ = world.read();
    let spawn = |work: fn(&World)| {
        let world = Arc::clone(&world);
        shuttle::thread::spawn(move || work(&world))
    };
    let reads: fn(&World) = |world| {
        for _ in 0..3 {
            let (place, found) = world.read();
            assert_eq!(found, [sum(place), place], "at {place}");
        }
    };
    let changes: fn(&World) = |world| {
        for _ in 0..2 {
            world.commit();
            world.incorporate();
        }
        world.commit();
    };
    let threads = [spawn(changes), spawn(reads), spawn(reads)];
    for thread in threads {
        thread.join().unwrap();
    }
    reads(&world);
}

fn is_found(mistake: Mistake) -> bool {
    let found = std::panic::catch_unwind(|| shuttle::check_random(move || story(mistake), 20_000));
    found.is_err()
}

#[test]
fn model_check_a_reader_sees_what_was_committed_up_to_his_place() {
    shuttle::check_random(|| story(Mistake::None), 20_000);
    shuttle::check_pct(|| story(Mistake::None), 5_000, 3);
}

#[test]
fn model_check_what_is_kept_unasked_is_found() {
    assert!(is_found(Mistake::KeepsUnasked));
}

#[test]
fn model_check_what_is_published_before_it_is_forgotten_is_found() {
    assert!(is_found(Mistake::PublishesFirst));
}

#[test]
fn model_check_what_is_forgotten_before_it_is_announced_is_found() {
    assert!(is_found(Mistake::ForgetsFirst));
}

#[test]
fn model_check_what_is_answered_unasked_is_found() {
    assert!(is_found(Mistake::AnswersUnasked));
}

#[test]
fn model_check_what_is_folded_upon_something_newer_is_found() {
    assert!(is_found(Mistake::FoldsUponAnything));
}
