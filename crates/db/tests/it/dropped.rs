//! Iterators dropped before their end.

use alluvium::Options;

#[test]
fn a_walk_that_is_left_in_the_middle_does_not_keep_the_store_from_closing() {
    let place = tempfile::tempdir().unwrap();
    let options = Options::new().memory(32 << 20);
    let db = options.open(place.path()).unwrap();
    let keyspace = db.keyspace("default").unwrap();
    for i in 0..20_000u32 {
        keyspace.put(format!("{i:08}"), [b'v'; 100]).unwrap();
    }
    drop(keyspace);
    db.close().unwrap();
    for steps in [1, 100, 700, 5000] {
        let db = options.open(place.path()).unwrap();
        let keyspace = db.keyspace("default").unwrap();
        let mut iter = keyspace.iter();
        for _ in 0..steps {
            iter.next().unwrap().unwrap();
        }
        drop(iter);
        db.close().unwrap();
    }
}
