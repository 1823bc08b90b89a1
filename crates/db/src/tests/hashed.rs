//! Keyspaces without order, as a user chooses them.

use super::{memory, pairs, small, tiny};
use crate::simulation::{OpenIn as _, Simulated as _};
use crate::{Error, ErrorKind, HashedOptions, KeyspaceOptions, Structure, WriteBatch};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

fn hashed(options: HashedOptions) -> KeyspaceOptions {
    KeyspaceOptions::new()
        .structure(Structure::Hashed(options))
        .merge_operator("append")
}

#[test]
fn the_index_is_kept_and_one_store_has_one() {
    let directory = memory();
    let db = small().open_in(Arc::clone(&directory)).unwrap();
    let trie = hashed(HashedOptions::trie());
    db.keyspace_with("blobs", &trie)
        .unwrap()
        .put("key", "value")
        .unwrap();
    let error = db
        .keyspace_with("other", &hashed(HashedOptions::pachash()))
        .unwrap_err();
    assert!(matches!(error, Error::OptionsDiffer { .. }), "{error}");
    assert_eq!(db.keyspaces(), ["blobs"], "what was refused is not there");
    db.checkpoint().unwrap();
    db.close().unwrap();
    let db = small().open_in(directory).unwrap();
    let blobs = db.keyspace_with("blobs", &trie).unwrap();
    assert_eq!(blobs.options(), &trie);
    assert_eq!(blobs.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(db.keyspace_with("second", &trie).is_ok());
}

#[test]
fn ordered_calls_say_that_there_is_no_order() {
    let db = small().open_in(memory()).unwrap();
    let k = db.keyspace_with("k", &hashed(HashedOptions::default())).unwrap();
    for number in 0..100 {
        k.put(number.to_string(), "v").unwrap();
    }
    let refused = |error: Error| {
        assert!(matches!(error, Error::NotOrdered { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("\"k\""), "{error}");
    };
    refused(k.iter().next().unwrap().unwrap_err());
    refused(k.range("1".."2").next_back().unwrap().unwrap_err());
    refused(k.prefix("1").next().unwrap().unwrap_err());
    refused(k.keys().next().unwrap().unwrap_err());
    refused(k.first().unwrap_err());
    refused(k.last().unwrap_err());
    let mut sought = k.iter();
    sought.seek("5");
    refused(sought.next().unwrap().unwrap_err());
    refused(k.delete_range("1", Some(b"2")).unwrap_err());
    refused(db.snapshot().iter(&k).next().unwrap().unwrap_err());
    let mut transaction = db.begin();
    transaction.put(&k, "own", "v").unwrap();
    refused(transaction.range(&k, "1".."2").next().unwrap().unwrap_err());
    refused(transaction.delete_range(&k, "1", Some(b"2")).unwrap_err());
    drop(transaction);
    let snapshot = db.snapshot();
    assert_eq!(pairs(&k).len(), 100);
    k.delete_range("", None).unwrap();
    assert_eq!(pairs(&k).len(), 0);
    assert_eq!(snapshot.unordered(&k).count(), 100);
}

#[test]
fn points_transactions_and_expiry_work_across_structures() {
    let db = small().open_in(memory()).unwrap();
    let k = db.keyspace_with("k", &hashed(HashedOptions::default())).unwrap();
    let tree = db.keyspace("tree").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&k, "both", "1").unwrap();
    batch.put(&tree, "both", "1").unwrap();
    db.write(&batch).unwrap();
    k.merge("both", "2").unwrap();
    assert!(k.compare_and_set("new", None, Some(b"1")).unwrap());
    assert!(!k.compare_and_set("new", None, Some(b"2")).unwrap());
    k.put_until("gone", "v", UNIX_EPOCH + Duration::from_secs(1))
        .unwrap();
    db.checkpoint().unwrap();
    let mut first = db.begin();
    let mut second = db.begin();
    for transaction in [&mut first, &mut second] {
        let found = transaction.get(&k, "new").unwrap().unwrap();
        transaction.put(&k, "new", [&found[..], b"+"].concat()).unwrap();
        transaction.put(&tree, "new", "+").unwrap();
    }
    first.commit().unwrap();
    assert!(matches!(second.commit(), Err(Error::Conflict { .. })));
    db.compact().unwrap();
    let many = k.multi_get(["both", "new", "gone", "never"]).unwrap();
    let many: Vec<Option<&[u8]>> = many.iter().map(Option::as_deref).collect();
    assert_eq!(many, [Some(&b"12"[..]), Some(b"1+"), None, None]);
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    assert!(
        db.engine().dictionaries.hashed().sorted_records() == 2,
        "what has expired is gone"
    );
}

#[test]
fn many_memtables_become_few_runs_and_all_is_there_after_a_crash() {
    for options in [HashedOptions::pachash(), HashedOptions::trie()] {
        let directory = memory();
        let db = tiny().open_in(Arc::clone(&directory)).unwrap();
        let k = db.keyspace_with("k", &hashed(options)).unwrap();
        for number in 0..20_000u32 {
            k.put((number * 7919 % 5000).to_be_bytes(), [b'v'; 100]).unwrap();
            if number % 100 == 0 {
                while db.work().unwrap() {}
            }
        }
        db.checkpoint().unwrap();
        while db.work().unwrap() {}
        let young = db.engine().dictionaries.hashed().young();
        assert!(young < 32, "{young}");
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
        k.put("last", "one").unwrap();
        db.abandon();
        drop((k, db));
        let db = tiny().open_existing_in(directory).unwrap();
        let k = db.existing_keyspace("k").unwrap();
        assert_eq!(pairs(&k).len(), 5001);
        let (first, _) = k.unordered().nth(1000).unwrap().unwrap();
        assert_eq!(k.unordered().after(&first).count(), 4000);
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
        db.compact().unwrap();
        let structure = db.engine().dictionaries.hashed();
        assert_eq!((structure.young(), structure.sorted_records()), (0, 5001));
        db.drop_keyspace("k").unwrap();
        db.compact().unwrap();
        let structure = db.engine().dictionaries.hashed();
        assert_eq!((structure.young(), structure.sorted_records()), (0, 0));
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
    }
}
