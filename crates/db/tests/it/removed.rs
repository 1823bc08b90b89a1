//! Stores whose files are removed while they are open.

use alluvium::{Db, Durability, ErrorKind, Options};
use alluvium_device::Directory as _;
use alluvium_device::file::FileDirectory;

#[test]
fn a_store_whose_directory_was_removed_takes_no_more_commits_and_says_why() {
    for remove_all in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("store");
        let options = Options::new().memory(16 << 20).workers(0);
        let db: Db = options.durability(Durability::Process).open(&path).unwrap();
        let keyspace = db.keyspace("rivers").unwrap();
        keyspace.put("Elbe", "1094 km").unwrap();
        db.sync().unwrap();
        if remove_all {
            place.close().unwrap();
        } else {
            let directory = FileDirectory::open(&path).unwrap();
            let names = directory.list().unwrap().into_iter();
            for name in names.filter(|name| name.starts_with("log-")) {
                directory.remove(&name).unwrap();
            }
        }
        let told = db.sync().unwrap_err();
        assert!(told.to_string().contains("was removed"), "{told}");
        let refused = keyspace.put("Oder", "840 km").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Poisoned);
        assert!(refused.to_string().contains("was removed"), "{refused}");
        assert_eq!(keyspace.get("Elbe").unwrap().unwrap(), b"1094 km");
        assert!(db.close().is_err());
    }
}
