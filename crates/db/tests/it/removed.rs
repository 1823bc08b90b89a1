//! Stores whose files are removed while they are open.

use alluvium::{Db, Durability, ErrorKind, Options};

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
            std::fs::remove_dir_all(&path).unwrap();
        } else {
            let names = std::fs::read_dir(&path).unwrap();
            for entry in names.map(|entry| entry.unwrap()) {
                let name = entry.file_name().into_string().unwrap();
                if name.starts_with("log-") {
                    std::fs::remove_file(entry.path()).unwrap();
                }
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
