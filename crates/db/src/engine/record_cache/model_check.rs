//! Model check of the order in which the cache and the tree are changed and read:
//!
//! ```text
//! RUSTFLAGS="--cfg alluvium_model_check" CARGO_TARGET_DIR=target/model \
//!     cargo test --release -p alluvium --lib model_check
//! ```
//!
//! The model uses the actual cache. The tree, the memtables and the visible sequence number are
//! minimal models that satisfy E2. The model deliberately makes each ordering mistake that the real
//! code avoids, and the model checker must detect it.

use super::RecordCache;
use super::sync::{AtomicU64, Mutex, Ordering};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::key::LookupKey;
use std::sync::Arc;

/// Ordering mistakes that the model checker must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlantedMistake {
    None,
    /// A reader offers a value to the cache without comparing `begun`.
    KeepsUnasked,
    /// The tree publishes a version before the cache has invalidated and updated its records.
    PublishesFirst,
    /// The cache invalidates and updates records before it raises `begun`.
    ForgetsFirst,
    /// A reader uses a cached value without comparing `begun`.
    AnswersUnasked,
    /// A reader that has found merge operands applies them to a cached record that may be newer
    /// than its version of the tree.
    FoldsUponAnything,
}

const KEYS: [&[u8]; 2] = [b"river", b"lake"];

/// Model of a store with two keys. Commit n adds n to the first key's value and puts the value n
/// for the second key, so both values are known at every sequence number.
struct CoherenceModel {
    /// The memtables from newest to oldest, each with its base and its commits.
    memtables: Mutex<Vec<(SequenceNumber, Vec<SequenceNumber>)>>,
    /// The cut of the published version of the tree.
    version: AtomicU64,
    visible: AtomicU64,
    records: RecordCache,
    mistake: PlantedMistake,
}

fn sum(through: SequenceNumber) -> u64 {
    through * (through + 1) / 2
}

impl CoherenceModel {
    fn new(mistake: PlantedMistake) -> CoherenceModel {
        CoherenceModel {
            memtables: Mutex::new(vec![(1, Vec::new())]),
            version: AtomicU64::new(1),
            visible: AtomicU64::new(1),
            records: RecordCache::new(64 << 10, 1),
            mistake,
        }
    }

    /// Commits a merge into the first key and a put of the second key.
    fn commit(&self) {
        let sequence = self.visible.load(Ordering::SeqCst) + 1;
        self.memtables.lock()[0].1.push(sequence);
        self.visible.store(sequence, Ordering::SeqCst);
    }

    /// Seals the newest memtable and flushes it to the tree.
    fn incorporate(&self) {
        let cut = self.visible.load(Ordering::SeqCst);
        self.memtables.lock().insert(0, (cut, Vec::new()));
        let forget = || {
            self.records.forget(LookupKey::new(KEYS[0]));
            let newest = cut.to_string();
            self.records
                .renew(LookupKey::new(KEYS[1]), newest.as_bytes(), true, || true);
        };
        match self.mistake {
            PlantedMistake::PublishesFirst => {
                self.version.store(cut, Ordering::SeqCst);
                self.records.raise(cut);
                forget();
            }
            PlantedMistake::ForgetsFirst => {
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

    /// Reads both keys. Returns the read position and the two values.
    fn read(&self) -> (SequenceNumber, [u64; 2]) {
        let place = self.visible.load(Ordering::SeqCst);
        let memtables = self.memtables.lock().clone();
        let cut = self.version.load(Ordering::SeqCst);
        let above: Vec<SequenceNumber> = memtables
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

    /// Returns a key's value below the memtables, which contain either no message for the key or
    /// only merge operands. The value comes from the cache if it is cached there. Otherwise it is
    /// `tree`, the value in the tree.
    fn below(
        &self,
        key: &[u8],
        cut: SequenceNumber,
        place: SequenceNumber,
        is_untouched: bool,
        tree: u64,
    ) -> u64 {
        let mut seen = if is_untouched { place } else { place.min(cut) };
        if self.mistake == PlantedMistake::AnswersUnasked {
            seen = SequenceNumber::MAX;
        } else if self.mistake == PlantedMistake::FoldsUponAnything {
            seen = place;
        }
        let mut value = Vec::new();
        if self.records.get(LookupKey::new(key), seen, &mut value) {
            let text = std::str::from_utf8(&value).unwrap();
            return text.parse().unwrap();
        }
        if is_untouched {
            let seen = match self.mistake {
                PlantedMistake::KeepsUnasked => SequenceNumber::MAX,
                _ => place,
            };
            self.records
                .offer(LookupKey::new(key), tree.to_string().as_bytes(), seen);
        }
        tree
    }
}

/// Runs two readers and a thread that commits and flushes. Each reader must see exactly the commits
/// up to its read position.
fn story(mistake: PlantedMistake) {
    let world = Arc::new(CoherenceModel::new(mistake));
    let _ = world.read();
    let spawn = |work: fn(&CoherenceModel)| {
        let world = Arc::clone(&world);
        shuttle::thread::spawn(move || work(&world))
    };
    let reads: fn(&CoherenceModel) = |world| {
        for _ in 0..3 {
            let (place, found) = world.read();
            assert_eq!(found, [sum(place), place], "at {place}");
        }
    };
    let changes: fn(&CoherenceModel) = |world| {
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

fn is_found(mistake: PlantedMistake) -> bool {
    let found = std::panic::catch_unwind(|| shuttle::check_random(move || story(mistake), 20_000));
    found.is_err()
}

#[test]
fn model_check_a_reader_sees_what_was_committed_up_to_his_place() {
    shuttle::check_random(|| story(PlantedMistake::None), 20_000);
    shuttle::check_pct(|| story(PlantedMistake::None), 5_000, 3);
}

#[test]
fn model_check_what_is_kept_unasked_is_found() {
    assert!(is_found(PlantedMistake::KeepsUnasked));
}

#[test]
fn model_check_what_is_published_before_it_is_forgotten_is_found() {
    assert!(is_found(PlantedMistake::PublishesFirst));
}

#[test]
fn model_check_what_is_forgotten_before_it_is_announced_is_found() {
    assert!(is_found(PlantedMistake::ForgetsFirst));
}

#[test]
fn model_check_what_is_answered_unasked_is_found() {
    assert!(is_found(PlantedMistake::AnswersUnasked));
}

#[test]
fn model_check_what_is_folded_upon_something_newer_is_found() {
    assert!(is_found(PlantedMistake::FoldsUponAnything));
}
