//! Tests of stores with several levels and several hashed structures, each with other options.

mod damage;
mod histories;

use super::{memory, pairs, small, tiny};
use crate::admin::simulation::{DirectoryOpener as _, SimulationOperations as _};
use crate::db::Db;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::options::{KeyspaceOptions, Structure, TransactionOptions};
use crate::schema::manifest;
use alluvium_base::Purpose;
use alluvium_dictionary::read::DataFiles;
use std::sync::Arc;

fn options(structure: &str) -> KeyspaceOptions {
    KeyspaceOptions::new().structure(structure.parse().unwrap())
}

fn keyspace(db: &Db, name: &str, structure: &str) -> Keyspace {
    db.keyspace_with(name, &options(structure)).unwrap()
}

/// Makes background work and checkpoints until both have nothing left to do.
fn settle(db: &Db) {
    for _ in 0..3 {
        db.checkpoint().unwrap();
        while db.work().unwrap() {}
    }
    db.engine().checkpoint_now().unwrap();
}

/// Returns the numbers of the dictionaries that the durable manifest lists.
fn listed(db: &Db) -> Vec<u32> {
    let store = &db.engine().store;
    let payload = store.superblock().payload;
    let (manifest, _) = manifest::read(DataFiles::of(store), &payload, Purpose::Check).unwrap();
    manifest.dictionaries.iter().map(|entry| entry.id).collect()
}

/// Returns the structures of the statistics, with the names of their keyspaces.
fn in_use(db: &Db) -> Vec<(String, String)> {
    let all = db.stats().dictionaries.into_iter();
    all.map(|one| (one.structure.to_string(), one.keyspaces.join(" ")))
        .collect()
}

fn fill(keyspace: &Keyspace, count: u32) {
    for number in 0..count {
        let value = format!("{} {number}", keyspace.name());
        keyspace.put(number.to_be_bytes(), value).unwrap();
    }
}

#[test]
fn the_last_keyspace_takes_its_dictionary_along() {
    let directory = memory();
    let db = tiny().open_in(Arc::clone(&directory)).unwrap();
    let first = keyspace(&db, "first", "levels,k=4");
    for name in ["second", "third"] {
        fill(&keyspace(&db, name, "levels,k=8"), 300);
    }
    let boa = keyspace(&db, "boa", "hashed,form=boa,lambda=4");
    let trie = keyspace(&db, "trie", "hashed,index=trie");
    for keyspace in [&first, &boa, &trie] {
        fill(keyspace, 300);
    }
    settle(&db);
    assert_eq!(listed(&db), [0, 2, 3, 258, 259]);
    db.drop_keyspace("second").unwrap();
    settle(&db);
    assert_eq!(
        listed(&db),
        [0, 2, 3, 258, 259],
        "another keyspace has these options"
    );
    let before = db.snapshot();
    db.drop_keyspace("third").unwrap();
    db.drop_keyspace("boa").unwrap();
    settle(&db);
    assert_eq!(listed(&db), [0, 2, 3, 258, 259], "a snapshot sees the data");
    drop(before);
    first.put("another", "commit").unwrap();
    settle(&db);
    assert_eq!(listed(&db), [0, 2, 259]);
    let expected = [
        ("levels,samt,k=4".to_owned(), "first".to_owned()),
        ("hashed,index=trie".to_owned(), "trie".to_owned()),
    ];
    assert_eq!(in_use(&db), expected);
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    // The same options find the dictionary that is still in memory, and others get a new one.
    let again = keyspace(&db, "third", "levels,k=8");
    let other = keyspace(&db, "other", "levels,never");
    let numbers = [&again, &other].map(|keyspace| keyspace.definition().dictionary().number);
    assert_eq!(numbers, [1, 2]);
    assert!(pairs(&again).is_empty());
    fill(&other, 5);
    db.close().unwrap();
    let db = tiny().open_in(directory).unwrap();
    assert_eq!(listed(&db), [0, 2, 258, 259, 514]);
    assert_eq!(pairs(&keyspace(&db, "other", "levels,never")).len(), 5);
    assert_eq!(pairs(&keyspace(&db, "trie", "hashed,index=trie")).len(), 300);
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_drop_that_was_not_checkpointed_is_completed_after_a_crash() {
    let directory = memory();
    let db = tiny().open_in(Arc::clone(&directory)).unwrap();
    let kept = keyspace(&db, "kept", "levels,k=4");
    let dropped = keyspace(&db, "dropped", "levels,k=2,f=0");
    for keyspace in [&kept, &dropped] {
        fill(keyspace, 200);
    }
    settle(&db);
    dropped.put("in the log", "only").unwrap();
    db.drop_keyspace("dropped").unwrap();
    db.abandon();
    drop((kept, dropped, db));
    let db = tiny().open_in(Arc::clone(&directory)).unwrap();
    settle(&db);
    assert_eq!(listed(&db), [0, 2]);
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    assert_eq!(pairs(&keyspace(&db, "kept", "levels,k=4")).len(), 200);
}

#[test]
fn the_log_alone_brings_every_keyspace_back_to_its_dictionary() {
    let directory = memory();
    let structures = [
        "levels,k=4",
        "levels,k=8",
        "hashed",
        "hashed,form=bot,lambda=4",
        "levels,k=8",
    ];
    let db = tiny().open_in(Arc::clone(&directory)).unwrap();
    for (number, structure) in structures.iter().enumerate() {
        fill(&keyspace(&db, &number.to_string(), structure), 50);
    }
    db.abandon();
    drop(db);
    for _ in 0..2 {
        let db = tiny().open_in(Arc::clone(&directory)).unwrap();
        for (number, structure) in structures.iter().enumerate() {
            let keyspace = keyspace(&db, &number.to_string(), structure);
            assert_eq!(pairs(&keyspace).len(), 50, "{structure}");
            let value = keyspace.get(7_u32.to_be_bytes()).unwrap();
            assert_eq!(value.as_deref(), Some(format!("{number} 7").as_bytes()));
        }
        settle(&db);
        let runs = db.stats().dictionaries.into_iter();
        let runs: Vec<u64> = runs
            .map(|one| one.levels.map_or(1, |levels| levels.runs))
            .collect();
        assert_eq!(runs, [1, 1, 1, 1], "each dictionary has its own data");
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
        db.close().unwrap();
    }
}

#[test]
fn a_store_has_a_limit_of_dictionaries_and_says_so() {
    let db = tiny().open_in(memory()).unwrap();
    let all: Vec<String> = (2..=64)
        .map(|k| format!("levels,k={k}"))
        .chain(["levels,never".to_owned()])
        .collect();
    for structure in &all {
        fill(&keyspace(&db, structure, structure), 1);
    }
    let refused = db.keyspace_with("one more", &options("levels,cola,r=2"));
    let refused = refused.unwrap_err();
    assert!(matches!(refused, Error::BadOption { .. }), "{refused}");
    let text = refused.to_string();
    assert!(
        text.contains("the store has 64 sets of options for levels"),
        "{text}"
    );
    assert!(text.contains("levels,cola,r=2"), "{text}");
    assert!(db.keyspace_with("shared", &options("levels,k=64")).is_ok());
    fill(&keyspace(&db, "hashed", "hashed"), 1);
    assert_eq!(db.keyspaces().len(), 66, "what was refused is not there");
    db.drop_keyspace("levels,k=7").unwrap();
    settle(&db);
    fill(&keyspace(&db, "one more", "levels,cola,r=2"), 1);
    settle(&db);
    assert_eq!(listed(&db).len(), 1 + 64 + 1);
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn sixteen_dictionaries_fit_the_memory_and_all_are_compacted() {
    let directory = memory();
    let db = small().open_in(Arc::clone(&directory)).unwrap();
    let structures: Vec<String> = (2..=12)
        .map(|k| format!("levels,k={k}"))
        .chain((2..=4).map(|lambda| format!("hashed,form=boa,lambda={}", 1 << lambda)))
        .chain(["hashed".to_owned(), "hashed,form=bot,lambda=2".to_owned()])
        .collect();
    let all: Vec<Keyspace> = structures.iter().map(|one| keyspace(&db, one, one)).collect();
    let memory: u64 = db.stats().dictionaries.iter().map(|one| one.memory_bytes).sum();
    assert_eq!((all.len(), memory), (16, 0), "an empty one takes nothing");
    let budget = db.stats().memory.budget;
    for number in 0..6_000_u32 {
        for keyspace in &all {
            keyspace.put((number * 7919).to_be_bytes(), [b'v'; 100]).unwrap();
        }
        db.work().unwrap();
        if number % 500 == 0 {
            let memory = db.stats().memory;
            assert!(memory.total() <= budget, "{memory:?}");
        }
    }
    settle(&db);
    for one in db.stats().dictionaries {
        let Structure::Levels(_) = &one.structure else {
            continue;
        };
        let levels = one.levels.expect("they are levels");
        assert!(levels.runs <= 24, "{} has {levels:?}", one.structure);
    }
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    assert!(all.iter().all(|keyspace| pairs(keyspace).len() == 6_000));
}

#[test]
fn a_spilled_transaction_reaches_every_dictionary_or_none() {
    let structures = [
        "levels,k=4",
        "levels,k=2,f=0",
        "hashed",
        "hashed,form=boa,lambda=4",
        "tiered",
    ];
    let directory = memory();
    let db = small().open_in(Arc::clone(&directory)).unwrap();
    let all: Vec<Keyspace> = structures.iter().map(|one| keyspace(&db, one, one)).collect();
    all.iter().for_each(|keyspace| fill(keyspace, 10));
    let spill = TransactionOptions::new().memory(16 << 10);
    for is_committed in [false, true] {
        let transaction = db.begin_with(&spill);
        for keyspace in all
            .iter()
            .filter(|keyspace| keyspace.definition().require_order().is_ok())
        {
            transaction
                .delete_range(keyspace, 3_u32.to_be_bytes(), Some(&7_u32.to_be_bytes()))
                .unwrap();
        }
        for number in 100..2_000_u32 {
            for keyspace in &all {
                transaction
                    .put(keyspace, number.to_be_bytes(), "spilled")
                    .unwrap();
            }
        }
        assert!(db.transactions()[0].spilled_bytes > 0);
        for keyspace in &all {
            let own = transaction.get(keyspace, 1_000_u32.to_be_bytes()).unwrap();
            assert_eq!(own.as_deref(), Some(&b"spilled"[..]));
        }
        match is_committed {
            true => transaction.commit().unwrap(),
            false => transaction.rollback(),
        };
        for keyspace in &all {
            let is_ordered = keyspace.definition().require_order().is_ok();
            let deleted = if is_committed && is_ordered { 4 } else { 0 };
            let added = if is_committed { 1_900 } else { 0 };
            assert_eq!(pairs(keyspace).len(), 10 + added - deleted, "{}", keyspace.name());
        }
    }
    db.abandon();
    drop((all, db));
    let db = small().open_in(directory).unwrap();
    for structure in structures {
        let found = pairs(&keyspace(&db, structure, structure)).len();
        let expected = if structure.starts_with("hashed") {
            1_910
        } else {
            1_906
        };
        assert_eq!(found, expected, "{structure}");
    }
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn levels_are_drawn_with_their_options_and_keyspaces() {
    let db = tiny().open_in(memory()).unwrap();
    assert_eq!(db.outline_levels(), []);
    let hot = keyspace(&db, "hot", "levels,k=4");
    for _ in 0..3 {
        fill(&hot, 100);
        db.checkpoint().unwrap();
    }
    fill(&keyspace(&db, "warm", "levels,k=4"), 10);
    fill(&keyspace(&db, "cold", "levels,never"), 10);
    db.checkpoint().unwrap();
    let outlines = db.outline_levels();
    let names: Vec<&[String]> = outlines.iter().map(|one| &one.keyspaces[..]).collect();
    assert_eq!(
        names,
        [&["hot".to_owned(), "warm".to_owned()][..], &["cold".to_owned()]]
    );
    let runs = &outlines[0].shape.levels[0].runs;
    let records: Vec<u64> = runs.iter().map(|run| run.records).collect();
    assert_eq!(records, [100, 100, 100, 10]);
    assert!(
        runs.iter()
            .all(|run| run.bytes > 0 && run.filter_bytes > 0 && run.leaves > 0)
    );
    let drawing = db.draw();
    for line in [
        "levels,samt,k=4: keyspaces hot, warm; 4 runs on 1 levels",
        "levels,never: keyspace cold; 1 runs on 1 levels",
    ] {
        assert!(drawing.lines().any(|drawn| drawn == line), "{drawing}");
    }
    assert!(drawing.contains("  level 0: 4 runs, "), "{drawing}");
    let stats = db.stats().to_string();
    assert!(
        stats.contains("levels,samt,k=4: keyspaces hot, warm, 4 runs on 1 levels"),
        "{stats}"
    );
}
