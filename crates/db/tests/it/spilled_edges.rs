//! Spilled operands at the beginning of a keyspace. Their key, the empty one, is the end of the
//! range that the keyspace before it occupies, and so of a delete of all keys there.

use alluvium::simulation::{DirectoryOpener as _, StoreScale};
use alluvium::{KeyspaceOptions, Options};
use alluvium_device::memory::MemoryDirectory;
use std::sync::Arc;

#[test]
fn an_operand_of_the_empty_key_counts_once() {
    for last in 0..40u32 {
        for deletes in [false, true] {
            let options = Options::new().simulated(StoreScale::small(7, 16 << 10, 384 << 10), || 1_000_000);
            let db = options
                .workers(0)
                .open_in(Arc::new(MemoryDirectory::new()))
                .unwrap();
            let append = KeyspaceOptions::new().merge_operator("append");
            let before = db.keyspace_with("before", &append).unwrap();
            let behind = db.keyspace_with("behind", &append).unwrap();
            let transaction = db.begin();
            transaction.merge(&behind, "", "once").unwrap();
            for number in 0..last {
                transaction.put(&before, number.to_be_bytes(), [7; 100]).unwrap();
            }
            let seen = transaction.get(&behind, "").unwrap().unwrap();
            assert_eq!(seen, "once", "after {last} puts");
            let _mark = transaction.savepoint();
            if deletes {
                transaction.delete_range(&before, "", None).unwrap();
            }
            for number in 0..40u32 {
                transaction
                    .put(&before, (number + 1000).to_be_bytes(), [7; 100])
                    .unwrap();
                let seen = transaction.get(&behind, "").unwrap().unwrap();
                assert_eq!(seen, "once", "after {last} and {number} puts, {deletes}");
                let all: Vec<_> = transaction.iter(&behind).map(Result::unwrap).collect();
                assert_eq!(all[0].1, "once", "walk after {last} and {number} puts, {deletes}");
            }
            transaction.commit().unwrap();
            assert_eq!(behind.get("").unwrap().unwrap(), "once", "{last}, {deletes}");
            let all: Vec<_> = behind.iter().map(Result::unwrap).collect();
            assert_eq!(all[0].1, "once", "scan of {last}, {deletes}");
        }
    }
}
