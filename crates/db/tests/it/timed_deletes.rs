//! Deletes that take effect at a time: what readers see before and after it, in every structure,
//! with merges, range deletes, snapshots and transactions, and after reopening.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Change, Db, Error, Isolation, Keyspace, KeyspaceOptions, Options, TransactionOptions};
use alluvium_device::memory::MemoryDirectory;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

const STRUCTURES: [&str; 6] = [
    "tiered",
    "levels,k=4",
    "levels,cola,r=2",
    "hashed",
    "paged",
    "volatile,bytes=4M",
];

fn at(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}

/// A store with a clock, and a keyspace that appends.
struct TimedStore {
    clock: Arc<AtomicU64>,
    directory: Arc<MemoryDirectory>,
    db: Option<Db>,
    keyspace: Option<Keyspace>,
    structure: &'static str,
}

impl TimedStore {
    fn new(structure: &'static str) -> TimedStore {
        let mut store = TimedStore {
            clock: Arc::new(AtomicU64::new(1000)),
            directory: Arc::new(MemoryDirectory::new()),
            db: None,
            keyspace: None,
            structure,
        };
        store.open();
        store
    }

    fn open(&mut self) {
        (self.keyspace, self.db) = (None, None);
        let now = Arc::clone(&self.clock);
        let options = Options::new().memory(16 << 20).workers(0);
        let options = options.clocked(move || now.load(Ordering::Relaxed));
        let db = options.open_in(self.directory.clone()).unwrap();
        let options = KeyspaceOptions::new()
            .structure(self.structure.parse().unwrap())
            .merge_operator("append");
        self.keyspace = Some(db.keyspace_with("texts", &options).unwrap());
        self.db = Some(db);
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn texts(&self) -> &Keyspace {
        self.keyspace.as_ref().unwrap()
    }

    fn is_kept(&self) -> bool {
        !self.structure.starts_with("volatile")
    }

    fn get(&self, key: &str) -> Option<String> {
        let value = self.texts().get(key).unwrap();
        value.map(|value| String::from_utf8(value.to_vec()).unwrap())
    }

    /// Moves all records to the structure, and runs the background work.
    fn settle(&self) {
        self.db().checkpoint().unwrap();
        while self.db().work().unwrap() {}
    }
}

/// Writes a key for each order of puts, merges and timed deletes.
fn fill(texts: &Keyspace) {
    texts.put("put", "a").unwrap();
    texts.delete_at("put", at(2000)).unwrap();
    texts.put("put again", "a").unwrap();
    texts.delete_at("put again", at(2000)).unwrap();
    texts.put("put again", "b").unwrap();
    texts.put("merged", "a").unwrap();
    texts.merge("merged", "b").unwrap();
    texts.delete_at("merged", at(2000)).unwrap();
    texts.merge("merged", "c").unwrap();
    texts.delete_at("merged", at(3000)).unwrap();
    texts.merge("merged", "d").unwrap();
    texts.put("earlier", "a").unwrap();
    texts.delete_at("earlier", at(3000)).unwrap();
    texts.delete_at("earlier", at(2000)).unwrap();
    texts.put("later", "a").unwrap();
    texts.delete_at("later", at(2000)).unwrap();
    texts.delete_at("later", at(3000)).unwrap();
    texts.put_until("expiring", "a", at(1500)).unwrap();
    texts.merge("expiring", "b").unwrap();
    texts.delete_at("expiring", at(2000)).unwrap();
    texts.delete_at("absent", at(2000)).unwrap();
    texts.delete_at("created", at(2000)).unwrap();
    texts.merge("created", "a").unwrap();
    texts.put("passed", "a").unwrap();
    texts.delete_at("passed", at(900)).unwrap();
    texts.merge("passed", "b").unwrap();
}

/// The value of each key at the times 1000, 1500, 2000 and 3000.
const EXPECTED: [(&str, [Option<&str>; 4]); 9] = [
    ("put", [Some("a"), Some("a"), None, None]),
    ("put again", [Some("b"); 4]),
    ("merged", [Some("abcd"), Some("abcd"), Some("cd"), Some("d")]),
    ("earlier", [Some("a"), Some("a"), None, None]),
    ("later", [Some("a"), Some("a"), None, None]),
    ("expiring", [Some("ab"), Some("b"), None, None]),
    ("absent", [None; 4]),
    ("created", [Some("a"); 4]),
    ("passed", [Some("b"); 4]),
];

fn compare(store: &TimedStore, moment: usize) {
    store
        .clock
        .store([1000, 1500, 2000, 3000][moment], Ordering::Relaxed);
    for (key, values) in EXPECTED {
        let found = store.get(key);
        assert_eq!(found.as_deref(), values[moment], "{key}, {}", store.structure);
    }
    let pairs = store.texts().unordered().map(|pair| pair.unwrap().0);
    let mut found: Vec<String> = pairs.map(|key| String::from_utf8(key).unwrap()).collect();
    found.sort_unstable();
    let present = EXPECTED.iter().filter(|(_, values)| values[moment].is_some());
    let mut expected: Vec<&str> = present.map(|(key, _)| *key).collect();
    expected.sort_unstable();
    assert_eq!(found, expected, "{}", store.structure);
}

#[test]
fn a_value_is_deleted_at_its_time_and_not_before() {
    for structure in STRUCTURES {
        let mut store = TimedStore::new(structure);
        fill(store.texts());
        compare(&store, 0);
        if store.is_kept() {
            store.open();
        }
        compare(&store, 1);
        store.settle();
        compare(&store, 1);
        compare(&store, 2);
        store.settle();
        if store.is_kept() {
            store.open();
        }
        compare(&store, 2);
        compare(&store, 3);
        if store.is_kept() {
            store.db().compact().unwrap();
        }
        compare(&store, 3);
        assert_eq!(store.db().check().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn the_messages_of_a_key_are_written_in_any_number_of_steps() {
    // Each bit of `steps` says whether a memtable ends after one of the writes.
    for structure in STRUCTURES {
        for steps in 0..32 {
            let store = TimedStore::new(structure);
            let (texts, mut write) = (store.texts(), 0);
            let mut settle = || {
                if steps >> write & 1 == 1 {
                    store.settle();
                }
                write += 1;
            };
            texts.put_until("key", "a", at(4000)).unwrap();
            settle();
            texts.merge("key", "b").unwrap();
            settle();
            texts.delete_at("key", at(2000)).unwrap();
            settle();
            texts.merge("key", "c").unwrap();
            settle();
            texts.delete_at("key", at(3000)).unwrap();
            settle();
            for (ms, value) in [(1000, Some("abc")), (2000, Some("c")), (3000, None)] {
                store.clock.store(ms, Ordering::Relaxed);
                let found = store.get("key");
                assert_eq!(found.as_deref(), value, "{structure}, {steps:b}, {ms} ms");
                store.settle();
            }
        }
    }
}

#[test]
fn a_range_delete_and_a_timed_delete_do_not_undo_each_other() {
    for structure in ["tiered", "levels,k=4", "paged"] {
        let store = TimedStore::new(structure);
        let texts = store.texts();
        texts.put("a", "old").unwrap();
        texts.put("b", "old").unwrap();
        store.settle();
        texts.delete_at("a", at(2000)).unwrap();
        texts.delete_range("a", Some(b"c")).unwrap();
        texts.delete_at("b", at(2000)).unwrap();
        texts.merge("b", "new").unwrap();
        for ms in [1000, 2000] {
            store.clock.store(ms, Ordering::Relaxed);
            for _ in 0..2 {
                assert_eq!((store.get("a"), store.get("b").as_deref()), (None, Some("new")));
                store.settle();
            }
        }
    }
}

#[test]
fn snapshots_follow_the_clock_and_later_deletes_do_not_reach_them() {
    let store = TimedStore::new("tiered");
    let texts = store.texts();
    texts.put("a", "1").unwrap();
    texts.put("b", "1").unwrap();
    texts.delete_at("a", at(2000)).unwrap();
    let snapshot = store.db().snapshot();
    texts.delete_at("b", at(2000)).unwrap();
    store.clock.store(2000, Ordering::Relaxed);
    for _ in 0..2 {
        assert!(snapshot.get(texts, "a").unwrap().is_none());
        assert_eq!(snapshot.get(texts, "b").unwrap().unwrap(), b"1");
        assert!(store.get("b").is_none());
        store.settle();
    }
}

#[test]
fn space_is_freed_once_the_time_has_come() {
    for structure in ["tiered", "levels,k=4", "paged", "hashed"] {
        let store = TimedStore::new(structure);
        for number in 0..2000u32 {
            store.texts().put(number.to_be_bytes(), [7; 500]).unwrap();
        }
        store.settle();
        for number in 0..2000u32 {
            store.texts().delete_at(number.to_be_bytes(), at(2000)).unwrap();
        }
        store.settle();
        assert_eq!(store.texts().unordered().count(), 2000, "{structure}");
        store.clock.store(2000, Ordering::Relaxed);
        assert_eq!(store.texts().unordered().count(), 0, "{structure}");
        store.db().compact().unwrap();
        store.settle();
        let left = store.texts().approximate_len().unwrap();
        assert!(left < 20, "{structure}: {left} records are left");
    }
}

#[test]
fn a_timed_delete_conflicts_as_a_delete_does() {
    let store = TimedStore::new("tiered");
    let (db, texts) = (store.db(), store.texts());
    texts.put("key", "a").unwrap();
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let options = TransactionOptions::new().isolation(isolation);
        let (one, other) = (db.begin_with(&options), db.begin_with(&options));
        assert!(one.get(texts, "key").unwrap().is_some());
        one.put(texts, "key", "b").unwrap();
        other.delete_at(texts, "key", at(2000)).unwrap();
        other.commit().unwrap();
        assert!(
            matches!(one.commit(), Err(Error::Conflict { .. })),
            "{isolation:?}"
        );
    }
}

#[test]
fn followers_are_told_of_timed_deletes_and_of_the_merges_around_them() {
    let store = TimedStore::new("tiered");
    let (db, texts) = (store.db(), store.texts());
    let mut changes = db.changes_since(db.sequence()).unwrap();
    let transaction = db.begin();
    transaction.merge(texts, "key", "a").unwrap();
    transaction.delete_at(texts, "key", at(2000)).unwrap();
    transaction.merge(texts, "key", "b").unwrap();
    assert_eq!(transaction.get(texts, "key").unwrap().unwrap(), b"ab");
    transaction.commit().unwrap();
    let set = changes.next().unwrap().unwrap();
    let merge = |operand: &str| Change::Merge {
        keyspace: "texts".into(),
        key: "key".into(),
        operand: operand.into(),
    };
    let delete = Change::DeleteAt {
        keyspace: "texts".into(),
        key: "key".into(),
        time: at(2000),
    };
    assert_eq!(set.changes, [merge("a"), delete, merge("b")]);
}
