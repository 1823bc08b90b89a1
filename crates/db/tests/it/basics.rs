//! Basic use of the store.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{
    CompactionFilter, Compression, Durability, Error, FilterCandidate, FilterVerdict, KeyspaceOptions,
    OpenMode, Options, WriteBatch,
};
use alluvium_device::memory::MemoryDirectory;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

fn small() -> Options {
    Options::new().memory(16 << 20)
}

#[test]
fn what_was_put_is_there_after_an_opening() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    {
        let db = small().mode(OpenMode::New).open(&path).unwrap();
        let keyspace = db.keyspace("numbers").unwrap();
        for number in 0..100_000u32 {
            keyspace
                .put(number.to_be_bytes(), format!("the number {number}"))
                .unwrap();
        }
        keyspace
            .delete_range(10u32.to_be_bytes(), Some(&20u32.to_be_bytes()))
            .unwrap();
    }
    let db = small().mode(OpenMode::Existing).open(&path).unwrap();
    let keyspace = db.existing_keyspace("numbers").unwrap();
    for number in [0, 1, 9, 20, 50_000, 99_999u32] {
        let value = keyspace.get(number.to_be_bytes()).unwrap().unwrap();
        assert_eq!(value, format!("the number {number}").as_bytes());
    }
    assert_eq!(keyspace.get(15u32.to_be_bytes()).unwrap(), None);
    assert_eq!(keyspace.iter().count(), 99_990);
    let last = keyspace.iter().next_back().unwrap().unwrap();
    assert_eq!(last.0, 99_999u32.to_be_bytes());
}

#[test]
fn keyspaces_are_apart_and_come_and_go() {
    let directory = Arc::new(MemoryDirectory::new());
    let db = small().open_in(directory.clone()).unwrap();
    for number in 0..300 {
        let keyspace = db.keyspace(&format!("space {number:03}")).unwrap();
        keyspace.put("key", number.to_string()).unwrap();
    }
    assert_eq!(db.keyspaces().len(), 300);
    let old = db.keyspace("space 007").unwrap();
    db.drop_keyspace("space 007").unwrap();
    assert!(matches!(old.get("key"), Err(Error::KeyspaceDropped { .. })));
    assert!(matches!(old.put("key", "x"), Err(Error::KeyspaceDropped { .. })));
    assert!(matches!(
        db.existing_keyspace("space 007"),
        Err(Error::NoSuchKeyspace { .. })
    ));
    assert_eq!(db.keyspace("space 007").unwrap().get("key").unwrap(), None);
    db.rename_keyspace("space 008", "eight").unwrap();
    assert!(matches!(
        db.rename_keyspace("space 009", "eight"),
        Err(Error::KeyspaceExists { .. })
    ));
    db.close().unwrap();
    let db = small().open_in(directory).unwrap();
    assert_eq!(db.keyspaces().len(), 300);
    assert_eq!(
        db.existing_keyspace("eight")
            .unwrap()
            .get("key")
            .unwrap()
            .unwrap(),
        b"8"
    );
    assert_eq!(
        db.existing_keyspace("space 299")
            .unwrap()
            .get("key")
            .unwrap()
            .unwrap(),
        b"299"
    );
}

#[test]
fn a_batch_is_seen_whole_and_in_its_order() {
    let db = small().open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let (one, two) = (db.keyspace("one").unwrap(), db.keyspace("two").unwrap());
    let mut batch = WriteBatch::new().durability(Durability::Disk);
    batch.put(&one, "a", "1").unwrap().put(&two, "a", "2").unwrap();
    batch
        .delete_range(&one, "a", None)
        .unwrap()
        .put(&one, "b", "3")
        .unwrap();
    assert_eq!(batch.len(), 4);
    db.write(&batch).unwrap();
    assert_eq!(one.get("a").unwrap(), None);
    assert_eq!(one.get("b").unwrap().unwrap(), b"3");
    assert_eq!(two.get("a").unwrap().unwrap(), b"2");
    let other = small().open_in(Arc::new(MemoryDirectory::new())).unwrap();
    assert!(matches!(other.write(&batch), Err(Error::OtherStore)));
}

#[test]
fn merges_fold_across_memtables_and_the_tree() {
    let db = small().open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let sums = db
        .keyspace_with("sums", &KeyspaceOptions::new().merge_operator("add"))
        .unwrap();
    for turn in 1..=4i64 {
        for key in 0..100u8 {
            sums.merge([key], turn.to_le_bytes()).unwrap();
        }
        if turn % 2 == 0 {
            db.checkpoint().unwrap();
        }
    }
    assert_eq!(sums.get([7]).unwrap().unwrap(), &10i64.to_le_bytes());
    assert!(sums.iter().all(|pair| pair.unwrap().1 == 10i64.to_le_bytes()));
    assert!(matches!(
        sums.merge("x", "not a number"),
        Err(Error::BadOperand { .. })
    ));
    let plain = db.keyspace("plain").unwrap();
    assert!(matches!(plain.merge("x", "y"), Err(Error::NoOperator { .. })));
}

#[test]
fn a_snapshot_stays_as_it_was_while_writing_goes_on() {
    let directory = Arc::new(MemoryDirectory::new());
    let db = small().open_in(directory.clone()).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    for key in 0..1000u32 {
        keyspace.put(key.to_be_bytes(), "old").unwrap();
    }
    let before = db.snapshot();
    db.create_snapshot("monday").unwrap();
    let mut walk = keyspace.iter();
    assert_eq!(walk.next().unwrap().unwrap().1, b"old");
    for round in 0..3 {
        for key in 0..1000u32 {
            keyspace.put(key.to_be_bytes(), format!("new {round}")).unwrap();
        }
        keyspace.delete_range("", Some(&[0, 0, 1])).unwrap();
        db.checkpoint().unwrap();
    }
    assert!(walk.all(|pair| pair.unwrap().1 == b"old"));
    assert_eq!(before.iter(&keyspace).count(), 1000);
    assert_eq!(
        before.get(&keyspace, 3u32.to_be_bytes()).unwrap().unwrap(),
        b"old"
    );
    assert_eq!(keyspace.get(3u32.to_be_bytes()).unwrap(), None);
    assert_eq!(keyspace.iter().count(), 744);
    drop((before, walk, keyspace));
    db.close().unwrap();
    let db = small().open_in(directory).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let monday = db.open_snapshot("monday").unwrap();
    assert!(monday.iter(&keyspace).all(|pair| pair.unwrap().1 == b"old"));
    assert_eq!(monday.iter(&keyspace).count(), 1000);
    db.remove_snapshot("monday").unwrap();
    assert!(matches!(
        db.open_snapshot("monday"),
        Err(Error::NoSuchSnapshot { .. })
    ));
}

#[test]
fn an_iterator_meets_itself_in_the_middle() {
    let db = small().open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    for key in ["a", "ab", "b", "ba", "bb", "c"] {
        keyspace.put(key, key).unwrap();
    }
    let keys = |iter: alluvium::Iter| -> Vec<String> {
        iter.map(|pair| String::from_utf8(pair.unwrap().0).unwrap())
            .collect()
    };
    assert_eq!(keys(keyspace.prefix("b")), ["b", "ba", "bb"]);
    assert_eq!(keys(keyspace.prefix([0xff])), [""; 0]);
    assert_eq!(keys(keyspace.range("ab"..="ba")), ["ab", "b", "ba"]);
    assert_eq!(keys(keyspace.range("ba".."b")), [""; 0]);
    let mut both = keyspace.iter();
    let mut found = Vec::new();
    loop {
        let (front, back) = (both.next(), both.next_back());
        let none = front.is_none() && back.is_none();
        found.extend([front, back].into_iter().flatten().map(|pair| pair.unwrap().0));
        if none {
            break;
        }
    }
    assert_eq!(found, [&b"a"[..], b"c", b"ab", b"bb", b"b", b"ba"]);
    let mut from = keyspace.iter();
    from.seek("bb");
    assert_eq!(keys(from), ["bb", "c"]);
}

#[test]
fn a_condition_lets_one_of_many_through() {
    let db = small().open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let counters = db.keyspace("counters").unwrap();
    counters.put("n", 0u64.to_le_bytes()).unwrap();
    const THREADS: u64 = 4;
    const EACH: u64 = 300;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    loop {
                        let found = counters.get("n").unwrap().unwrap();
                        let next = u64::from_le_bytes(found[..].try_into().unwrap()) + 1;
                        if counters
                            .compare_and_set("n", Some(&found), Some(&next.to_le_bytes()))
                            .unwrap()
                        {
                            break;
                        }
                    }
                }
            });
        }
    });
    assert_eq!(
        counters.get("n").unwrap().unwrap(),
        &(THREADS * EACH).to_le_bytes()
    );
    assert!(
        counters
            .compare_and_set("n", Some(&(THREADS * EACH).to_le_bytes()), None)
            .unwrap()
    );
    assert!(!counters.contains("n").unwrap());
}

#[test]
fn a_value_expires() {
    let db = small().open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let now = SystemTime::now();
    keyspace
        .put_until("gone", "x", now - Duration::from_secs(1))
        .unwrap();
    keyspace
        .put_until("there", "x", now + Duration::from_secs(3600))
        .unwrap();
    assert!(!keyspace.contains("gone").unwrap() && keyspace.contains("there").unwrap());
    db.checkpoint().unwrap();
    assert_eq!(keyspace.iter().count(), 1);
}

#[test]
fn writers_do_the_work_where_nobody_else_does() {
    let db = small()
        .workers(0)
        .open_in(Arc::new(MemoryDirectory::new()))
        .unwrap();
    let keyspace = db.keyspace("k").unwrap();
    for key in 0..200_000u32 {
        keyspace.put(key.to_be_bytes(), [7; 50]).unwrap();
    }
    assert!(db.stats().sealed_memtables <= 3);
    assert!(db.stats().tree.incorporations > 5);
    while db.work().unwrap() {}
    assert_eq!(keyspace.iter().count(), 200_000);
}

#[test]
fn a_value_larger_than_a_memtable_is_kept() {
    let directory = Arc::new(MemoryDirectory::new());
    let db = small().open_in(directory.clone()).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let large: Vec<u8> = (0..3 << 20).map(|at: u32| (at % 251) as u8).collect();
    keyspace.put("before", "x").unwrap();
    keyspace.put("large", &large).unwrap();
    keyspace.put("after", "x").unwrap();
    assert_eq!(keyspace.get("large").unwrap().unwrap(), &large[..]);
    drop((db, keyspace));
    let db = small().open_in(directory).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    assert_eq!(keyspace.get("large").unwrap().unwrap(), &large[..]);
    assert_eq!(keyspace.iter().count(), 3);
}

#[test]
fn what_is_too_long_is_refused_with_its_bounds() {
    let db = small().open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let long = vec![b'x'; alluvium::MAX_KEY];
    keyspace.put(&long, "fits").unwrap();
    assert_eq!(keyspace.get(&long).unwrap().unwrap(), b"fits");
    let too_long = vec![b'x'; alluvium::MAX_KEY + 1];
    assert!(matches!(
        keyspace.put(&too_long, ""),
        Err(Error::TooLong { what: "key", .. })
    ));
    assert_eq!(keyspace.get(&too_long).unwrap(), None);
    assert!(matches!(
        db.keyspace(&"x".repeat(2000)),
        Err(Error::TooLong { what: "name", .. })
    ));
    assert!(matches!(
        Options::new().memory(1).open_in(Arc::new(MemoryDirectory::new())),
        Err(Error::BadOption { option: "memory", .. })
    ));
}

#[test]
fn a_store_that_another_has_open_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    let db = small().open(&path).unwrap();
    assert!(matches!(small().open(&path), Err(Error::Storage(_))));
    assert!(small().mode(OpenMode::New).open(&path).is_err());
    db.clone().close().unwrap();
    let keyspace = db.keyspace("k");
    assert!(matches!(keyspace, Err(Error::Closed)));
    drop(db);
    small().mode(OpenMode::Existing).open(&path).unwrap();
    assert!(
        small()
            .mode(OpenMode::Existing)
            .open(place.path().join("nothing"))
            .is_err()
    );
}

#[test]
fn a_store_that_was_moved_opens() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    small()
        .open(&from)
        .unwrap()
        .keyspace("k")
        .unwrap()
        .put("a", "b")
        .unwrap();
    let moved = std::process::Command::new("mv").arg(&from).arg(&to).status();
    assert!(moved.unwrap().success());
    let db = small().mode(OpenMode::Existing).open(&to).unwrap();
    assert_eq!(db.keyspace("k").unwrap().get("a").unwrap().unwrap(), b"b");
}

/// Removes values that begin with an `x`.
#[derive(Debug)]
struct ForgetsX;

impl CompactionFilter for ForgetsX {
    fn decide(&self, candidate: &FilterCandidate<'_>) -> FilterVerdict {
        assert!(candidate.key.len() == 4, "without the keyspace");
        if candidate.value.starts_with(b"x") {
            FilterVerdict::Remove
        } else {
            FilterVerdict::Keep
        }
    }
}

#[test]
fn a_keyspace_has_its_own_compression_filter_and_threshold() {
    let directory = Arc::new(MemoryDirectory::new());
    let options = small().register_compaction_filter("forgets x", Arc::new(ForgetsX));
    let db = options.open_in(directory.clone()).unwrap();
    let filtered = KeyspaceOptions::new()
        .compaction_filter("forgets x")
        .compression(Compression::Zstd);
    let filtered = db.keyspace_with("filtered", &filtered).unwrap();
    let plain = db
        .keyspace_with("plain", &KeyspaceOptions::new().value_threshold(100))
        .unwrap();
    for key in 0..20_000u32 {
        let value = if key % 2 == 0 { "x forgotten" } else { "kept" };
        filtered.put(key.to_be_bytes(), value).unwrap();
        plain.put(key.to_be_bytes(), value).unwrap();
    }
    plain.put("large", [7; 200]).unwrap();
    let before = db.snapshot();
    db.compact().unwrap();
    assert_eq!(
        before.iter(&filtered).count(),
        20_000,
        "a filter takes nothing from a snapshot"
    );
    drop(before);
    db.compact().unwrap();
    assert_eq!(filtered.iter().count(), 10_000);
    assert_eq!(plain.iter().count(), 20_001);
    drop((filtered, plain));
    db.close().unwrap();
    assert!(matches!(
        small().open_in(directory.clone()),
        Err(Error::NotRegistered {
            what: "compaction filter",
            ..
        })
    ));
    assert_eq!(
        options.open_in(directory).unwrap().keyspaces(),
        ["filtered", "plain"]
    );
    let most = KeyspaceOptions::new().value_threshold(1 << 20);
    let db = small().open_in(Arc::new(MemoryDirectory::new())).unwrap();
    assert!(matches!(
        db.keyspace_with("k", &most),
        Err(Error::BadOption { .. })
    ));
}

#[test]
fn the_memory_that_is_asked_for_is_kept_to_and_changes_while_open() {
    let db = Options::new()
        .memory(64 << 20)
        .open_in(Arc::new(MemoryDirectory::new()))
        .unwrap();
    let keyspace = db.keyspace("k").unwrap();
    for key in 0..100_000u32 {
        keyspace.put(key.to_be_bytes(), [7; 100]).unwrap();
    }
    let used = db.stats().memory;
    assert!(used.total() <= used.budget && used.budget == 64 << 20, "{used:?}");
    db.set_memory(48 << 20).unwrap();
    let less = db.stats().memory;
    assert!(less.pages < used.pages && less.total() <= 48 << 20, "{less:?}");
    assert!(matches!(db.set_memory(1 << 20), Err(Error::BadOption { .. })));
    assert_eq!(keyspace.iter().count(), 100_000);
    db.set_memory(128 << 20).unwrap();
    let more = db.stats().memory;
    assert!(more.pages > used.pages);
    db.set_external_memory(32 << 20).unwrap();
    let beside = db.stats().memory;
    assert_eq!(beside.external, 32 << 20);
    assert!(beside.total() <= 128 << 20, "{beside:?}");
    assert!(
        beside.pages + beside.records < more.pages + more.records,
        "{beside:?}"
    );
    db.set_external_memory(0).unwrap();
    let after = db.stats().memory;
    assert!(
        after.pages + after.records > beside.pages + beside.records,
        "{after:?}"
    );
}

#[test]
fn what_writing_took_is_given_back_when_nobody_writes() {
    let directory = Arc::new(MemoryDirectory::new());
    let db = Options::new().memory(64 << 20).open_in(directory).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    // Memtables have 4 MiB. The first call fills more than three, the second one and a half.
    let write = |keys: std::ops::Range<u32>| {
        keys.for_each(|key| keyspace.put(key.to_be_bytes(), [7; 100]).unwrap());
    };
    write(0..200_000);
    db.checkpoint().unwrap();
    let (before, checkpoints) = (db.stats().memory, db.stats().checkpoints);
    write(0..35_000);
    // Nothing but the passage of time frees the memory or triggers the checkpoint.
    let begun = Instant::now();
    loop {
        let stats = db.stats();
        let is_given_back = stats.memory.memtables < 8 << 20 && stats.memory.pages > before.pages;
        if is_given_back && stats.checkpoints > checkpoints {
            break;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{stats:?}, before {before:?}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_store_that_nobody_looks_after_keeps_room_for_what_is_written() {
    let directory = Arc::new(MemoryDirectory::new());
    let options = Options::new().memory(64 << 20).workers(0);
    let db = options.create_in(directory).unwrap();
    let before = db.stats().memory;
    db.set_memory(65 << 20).unwrap();
    db.set_memory(64 << 20).unwrap();
    let after = db.stats().memory;
    assert!(after.pages <= before.pages, "{before:?}, {after:?}");
}

#[test]
fn names_that_lists_cannot_show_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let db = small().open(place.path()).unwrap();
    let bad = |result: Result<(), Error>| match result {
        Err(Error::BadOption { option: "name", why }) => why,
        other => panic!("{other:?}"),
    };
    db.keyspace("Řeka: a b").unwrap();
    for name in ["", "a\nb", "\t", "\x1b[31m", "a\u{9b}"] {
        let tried = [
            db.keyspace(name).map(|_| ()),
            db.keyspace_with(name, &KeyspaceOptions::new()).map(|_| ()),
            db.rename_keyspace("Řeka: a b", name),
            db.create_snapshot(name).map(|_| ()),
        ];
        for why in tried.map(bad) {
            assert!(
                why.contains("character") && !why.contains(char::is_control),
                "{why}"
            );
        }
    }
    assert_eq!(db.keyspaces(), ["Řeka: a b"]);
    assert!(db.snapshots().is_empty());
}
