//! The time at which a key loses its value, read and changed, in every structure, from memtables
//! and from disk, with merges and timed deletes.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Db, ErrorKind, Keyspace, KeyspaceOptions, Options, TransactionOptions, WriteBatch};
use alluvium_device::memory::MemoryDirectory;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

const STRUCTURES: [&str; 7] = [
    "tiered",
    "levels,k=4",
    "levels,cola,r=2",
    "hashed",
    "hashed,form=boa,lambda=4",
    "paged",
    "volatile,bytes=4M",
];

fn at(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}

fn store(structure: &str) -> (Arc<AtomicU64>, Db, Keyspace) {
    let clock = Arc::new(AtomicU64::new(1000));
    let now = Arc::clone(&clock);
    let options = Options::new().memory(16 << 20).workers(0);
    let options = options.clocked(move || now.load(Ordering::Relaxed));
    let db = options.open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let options = KeyspaceOptions::new()
        .structure(structure.parse().unwrap())
        .merge_operator("append");
    let keyspace = db.keyspace_with("texts", &options).unwrap();
    (clock, db, keyspace)
}

/// Flushes everything and works until nothing is left to do.
fn settle(db: &Db) {
    db.checkpoint().unwrap();
    while db.work().unwrap() {}
}

fn found(keyspace: &Keyspace, key: &str) -> Option<(String, Option<SystemTime>)> {
    let found = keyspace.get_with_expiry(key).unwrap();
    found.map(|(value, ends)| (value.try_into().unwrap(), ends))
}

fn some(value: &str, ends: Option<u64>) -> Option<(String, Option<SystemTime>)> {
    Some((value.to_owned(), ends.map(at)))
}

#[test]
fn the_time_is_that_of_the_value_and_of_timed_deletes_with_nothing_newer() {
    for structure in STRUCTURES {
        for flushes in [false, true] {
            let (clock, db, texts) = store(structure);
            let flush = || {
                if flushes {
                    settle(&db);
                }
            };
            texts.put("stays", "a").unwrap();
            texts.put_until("ends", "b", at(3000)).unwrap();
            texts.put_until("grows", "c", at(3000)).unwrap();
            texts.put_until("is deleted", "d", at(3000)).unwrap();
            texts.put("is deleted later", "e").unwrap();
            texts.put("comes back", "f").unwrap();
            flush();
            texts.merge("grows", "+").unwrap();
            texts.delete_at("is deleted", at(2000)).unwrap();
            texts.delete_at("is deleted later", at(2500)).unwrap();
            texts.delete_at("comes back", at(2500)).unwrap();
            flush();
            texts.merge("comes back", "+").unwrap();
            flush();
            let here = format!("{structure}, {flushes}");
            assert_eq!(found(&texts, "stays"), some("a", None), "{here}");
            assert_eq!(found(&texts, "ends"), some("b", Some(3000)), "{here}");
            assert_eq!(
                found(&texts, "grows"),
                some("c+", None),
                "{here}: the operand stays"
            );
            assert_eq!(found(&texts, "is deleted"), some("d", Some(2000)), "{here}");
            assert_eq!(found(&texts, "is deleted later"), some("e", Some(2500)), "{here}");
            assert_eq!(found(&texts, "comes back"), some("f+", None), "{here}");
            assert_eq!(found(&texts, "absent"), None);
            assert_eq!(texts.expires_at("ends").unwrap(), Some(at(3000)));
            assert_eq!(texts.expires_at("stays").unwrap(), None);
            let before = db.snapshot();
            clock.store(2999, Ordering::Relaxed);
            assert_eq!(found(&texts, "ends"), some("b", Some(3000)), "{here}");
            clock.store(3000, Ordering::Relaxed);
            for (key, left) in [
                ("ends", None),
                ("grows", Some("+")),
                ("is deleted", None),
                ("comes back", Some("+")),
            ] {
                assert_eq!(
                    found(&texts, key),
                    left.and_then(|value| some(value, None)),
                    "{here}, {key}"
                );
            }
            assert_eq!(texts.expires_at("ends").unwrap(), None);
            let stays = before.get_with_expiry(&texts, "stays").unwrap().unwrap();
            assert_eq!((stays.0, stays.1), ("a".as_bytes().to_vec().into(), None));
        }
    }
}

#[test]
fn another_time_replaces_the_one_before_and_none_makes_the_value_stay() {
    for structure in STRUCTURES {
        let (clock, db, texts) = store(structure);
        texts.put("a", "1").unwrap();
        texts.merge("a", "2").unwrap();
        settle(&db);
        assert!(texts.expire_at("a", at(3000)).unwrap());
        assert_eq!(found(&texts, "a"), some("12", Some(3000)), "{structure}");
        settle(&db);
        assert!(texts.expire_at("a", at(5000)).unwrap(), "later");
        assert_eq!(found(&texts, "a"), some("12", Some(5000)), "{structure}");
        assert!(texts.expire_at("a", at(4000)).unwrap(), "earlier");
        clock.store(3999, Ordering::Relaxed);
        assert!(texts.persist("a").unwrap());
        assert!(!texts.persist("a").unwrap(), "it stays anyway");
        clock.store(9000, Ordering::Relaxed);
        assert_eq!(found(&texts, "a"), some("12", None), "{structure}");
        // A timed delete is undone as well, and a time that has passed deletes.
        texts.delete_at("a", at(9500)).unwrap();
        assert!(texts.persist("a").unwrap());
        clock.store(9600, Ordering::Relaxed);
        settle(&db);
        assert_eq!(found(&texts, "a"), some("12", None), "{structure}");
        assert!(texts.expire_at("a", at(10)).unwrap());
        assert_eq!(found(&texts, "a"), None);
        assert!(!texts.persist("a").unwrap() && !texts.expire_at("a", at(99_999)).unwrap());
        settle(&db);
        assert_eq!(found(&texts, "a"), None, "{structure}");
    }
}

#[test]
fn an_exchange_with_a_time_compares_what_is_there_now() {
    for structure in STRUCTURES {
        let (clock, _db, texts) = store(structure);
        assert!(
            texts
                .compare_and_set_until("lock", None, "one", at(2000))
                .unwrap()
        );
        assert!(
            !texts
                .compare_and_set_until("lock", None, "two", at(9000))
                .unwrap()
        );
        assert_eq!(found(&texts, "lock"), some("one", Some(2000)), "{structure}");
        clock.store(2000, Ordering::Relaxed);
        assert!(
            texts
                .compare_and_set_until("lock", None, "two", at(9000))
                .unwrap()
        );
        assert!(
            texts
                .compare_and_set("lock", Some(b"two"), Some(b"three"))
                .unwrap()
        );
        assert_eq!(found(&texts, "lock"), some("three", None), "{structure}");
    }
}

/// Returns the numbers of the keys that have a value at a time.
fn alive(clock: &AtomicU64, now: u64, keyspace: &Keyspace) -> Vec<u8> {
    clock.store(now, Ordering::Relaxed);
    let all = keyspace.unordered().map(|pair| pair.unwrap().0[0]);
    let mut all: Vec<u8> = all.collect();
    all.sort_unstable();
    all
}

#[test]
fn a_default_applies_to_every_way_of_putting_and_to_nothing_else() {
    for structure in STRUCTURES {
        let clock = Arc::new(AtomicU64::new(1000));
        let directory = Arc::new(MemoryDirectory::new());
        let open = || {
            let now = Arc::clone(&clock);
            let options = Options::new().memory(16 << 20).workers(0);
            let options = options.clocked(move || now.load(Ordering::Relaxed));
            let db = options.open_in(directory.clone()).unwrap();
            let brief = KeyspaceOptions::new()
                .structure(structure.parse().unwrap())
                .merge_operator("append")
                .default_expiry(Duration::from_millis(500));
            (db.keyspace_with("brief", &brief).unwrap(), db)
        };
        let (brief, db) = open();
        brief.ingest([([0], "ingest")]).unwrap();
        brief.put([1], "put").unwrap();
        let mut batch = WriteBatch::new();
        batch.put(&brief, [2], "batch").unwrap();
        db.write(&batch).unwrap();
        for (number, memory) in [(3, 1 << 20), (4, 1)] {
            // The second one spills.
            let transaction = db.begin_with(&TransactionOptions::new().memory(memory));
            transaction.put(&brief, [number], "transaction").unwrap();
            assert!(
                transaction
                    .compare_and_set(&brief, [number + 2], None, Some(b"set"))
                    .unwrap()
            );
            transaction.commit().unwrap();
        }
        assert!(brief.compare_and_set([7], None, Some(b"set")).unwrap());
        brief.merge([8], "operand").unwrap();
        brief.put_until([9], "own time", at(9000)).unwrap();
        brief.put([10], "deleted").unwrap();
        assert!(brief.compare_and_set([10], Some(b"deleted"), None).unwrap());
        brief.put([11], "kept").unwrap();
        assert!(brief.persist([11]).unwrap());
        assert_eq!(brief.expires_at([1]).unwrap(), Some(at(1500)), "{structure}");
        let all = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11];
        assert_eq!(alive(&clock, 1499, &brief), all, "{structure}");
        let (brief, _db) = match structure.starts_with("volatile") {
            true => (brief, db),
            false => {
                drop(brief);
                db.close().unwrap();
                open()
            }
        };
        assert_eq!(brief.options().default_expiry, Some(Duration::from_millis(500)));
        assert_eq!(alive(&clock, 1499, &brief), all, "{structure}, opened again");
        assert_eq!(alive(&clock, 1500, &brief), [8, 9, 11], "{structure}");
        brief.put([12], "later").unwrap();
        assert_eq!(alive(&clock, 1999, &brief), [8, 9, 11, 12], "{structure}");
        assert_eq!(alive(&clock, 2000, &brief), [8, 9, 11], "{structure}");
    }
}

#[test]
fn a_changed_time_never_brings_an_older_value_back() {
    for structure in ["tiered", "hashed", "paged"] {
        let (_, db, texts) = store(structure);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let others = [false, true].map(|persists| {
                let (texts, is_over) = (&texts, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let _changed = match persists {
                            true => texts.persist("n").unwrap(),
                            false => texts.expire_at("n", at(1 << 40)).unwrap(),
                        };
                    }
                })
            });
            for number in 0..2000u32 {
                let value = number.to_string();
                texts.put("n", &value).unwrap();
                assert_eq!(texts.get("n").unwrap().unwrap(), value, "{structure}");
            }
            is_over.store(true, Ordering::Relaxed);
            others.into_iter().for_each(|thread| thread.join().unwrap());
        });
        assert_eq!(texts.get("n").unwrap().unwrap(), "1999");
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn errors_are_those_of_reads_and_writes() {
    let (_, db, texts) = store("tiered");
    let long = vec![7; 100_000];
    assert_eq!(
        texts.expire_at(&long, at(5000)).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    db.drop_keyspace("texts").unwrap();
    for error in [
        texts.expires_at("a").unwrap_err(),
        texts.expire_at("a", at(5000)).unwrap_err(),
        texts.persist("a").unwrap_err(),
        texts.compare_and_set_until("a", None, "b", at(5000)).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Dropped);
    }
}
