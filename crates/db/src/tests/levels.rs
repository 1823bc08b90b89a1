//! Tests of keyspaces in levels of runs through the public interface.

use super::{levels_of, memory, pairs, small, tiny};
use crate::admin::simulation::{DirectoryOpener as _, SimulationOperations as _};
use crate::error::Error;
use crate::options::{KeyspaceOptions, LevelsOptions, Structure};
use std::sync::Arc;

fn levels(options: LevelsOptions) -> KeyspaceOptions {
    KeyspaceOptions::new().structure(Structure::Levels(options))
}

#[test]
fn each_set_of_options_has_levels_of_its_own() {
    let directory = memory();
    let db = small().open_in(Arc::clone(&directory)).unwrap();
    let eight = levels(LevelsOptions::samt(8));
    let trial = db.keyspace_with("trial", &eight).unwrap();
    trial.put("key", "value").unwrap();
    for bad in [
        LevelsOptions::samt(1),
        LevelsOptions::samt(0),
        LevelsOptions::cola(1),
    ] {
        let error = db.keyspace_with("bad", &levels(bad)).unwrap_err();
        assert!(
            error.to_string().contains("give a number from 2 to 64"),
            "{error}"
        );
    }
    let cola = levels(LevelsOptions::cola(3));
    let other = db.keyspace_with("other", &cola).unwrap();
    other.put("key", "other").unwrap();
    assert!(matches!(
        db.keyspace_with("trial", &KeyspaceOptions::new()),
        Err(Error::OptionsDiffer { .. })
    ));
    assert_eq!(
        db.keyspaces(),
        ["other", "trial"],
        "what was refused is not there"
    );
    db.rename_keyspace("trial", "renamed").unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let db = small().open_in(directory).unwrap();
    let trial = db.keyspace_with("renamed", &eight).unwrap();
    assert_eq!(trial.options(), &eight);
    assert_eq!(trial.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(db.keyspace_with("second", &eight).is_ok());
    let other = db.keyspace_with("other", &cola).unwrap();
    assert_eq!(other.get("key").unwrap().as_deref(), Some(&b"other"[..]));
    let options = db.stats().dictionaries.into_iter();
    let options: Vec<_> = options
        .map(|one| (one.structure.to_string(), one.keyspaces))
        .collect();
    let names = |all: &[&str]| all.iter().map(|&name| name.to_owned()).collect::<Vec<String>>();
    let expected = [
        ("levels,samt,k=8".to_owned(), names(&["renamed", "second"])),
        ("levels,cola,r=3".to_owned(), names(&["other"])),
    ];
    assert_eq!(options, expected);
}

#[test]
fn many_memtables_become_few_runs_and_all_is_there_after_a_crash() {
    let directory = memory();
    let db = tiny().open_in(Arc::clone(&directory)).unwrap();
    let k = db.keyspace_with("k", &levels(LevelsOptions::samt(2))).unwrap();
    let value = [b'v'; 100];
    for number in 0..20_000u32 {
        k.put((number * 7919 % 5000).to_be_bytes(), value).unwrap();
        if number % 100 == 0 {
            while db.work().unwrap() {}
        }
    }
    db.checkpoint().unwrap();
    while db.work().unwrap() {}
    let runs = levels_of(&db).runs();
    assert!(runs.len() > 2 && runs.iter().all(|runs| *runs <= 2), "{runs:?}");
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    k.put("last", "one").unwrap();
    db.abandon();
    drop((k, db));
    let db = tiny().open_existing_in(directory).unwrap();
    let found = pairs(&db.existing_keyspace("k").unwrap());
    assert_eq!(found.len(), 5001);
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    db.compact().unwrap();
    let runs = levels_of(&db).runs();
    assert_eq!(runs.iter().sum::<usize>(), 1, "{runs:?}");
    db.drop_keyspace("k").unwrap();
    db.compact().unwrap();
    let runs = levels_of(&db).runs();
    assert_eq!(runs.iter().sum::<usize>(), 0, "{runs:?}");
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn what_is_stitched_is_kept_and_another_scan_unit_has_its_own_levels() {
    let directory = memory();
    let db = tiny().open_in(Arc::clone(&directory)).unwrap();
    let eight = levels(LevelsOptions::samt(2).stitch(0).scan_unit(8));
    let k = db.keyspace_with("k", &eight).unwrap();
    for number in 0..8_000u64 {
        k.put((number / 500).to_be_bytes().repeat(2), b"first").unwrap();
        k.put([number.to_be_bytes(), number.to_be_bytes()].concat(), [b'v'; 100])
            .unwrap();
        if number % 100 == 0 {
            while db.work().unwrap() {}
        }
    }
    db.checkpoint().unwrap();
    while db.work().unwrap() {}
    let stitched = levels_of(&db).stitched();
    assert!(stitched > 20, "{stitched} leaves were taken over");
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    let before = pairs(&k);
    drop(k);
    db.checkpoint().unwrap();
    db.close().unwrap();
    let db = tiny().open_in(directory).unwrap();
    for (number, other) in (0..).zip([
        LevelsOptions::samt(2).stitch(0).scan_unit(4),
        LevelsOptions::samt(2).stitch(0),
        LevelsOptions::samt(2),
    ]) {
        let error = db.keyspace_with("k", &levels(other.clone())).unwrap_err();
        assert!(matches!(error, Error::OptionsDiffer { .. }), "{error}");
        assert!(error.to_string().contains("samt,k=2,f=0,scan=8"), "{error}");
        let own = db
            .keyspace_with(&format!("other {number}"), &levels(other))
            .unwrap();
        assert_eq!(own.definition().dictionary().number, 1 + number);
    }
    let k = db.keyspace_with("k", &eight).unwrap();
    assert_eq!(pairs(&k), before);
    assert!(db.keyspace_with("second", &eight).is_ok());
}
