//! Approximate sizes of a keyspace.

use alluvium::Options;
use alluvium::simulation::DirectoryOpener as _;
use alluvium_device::memory::MemoryDirectory;
use std::sync::Arc;

#[test]
fn a_keyspace_knows_about_how_much_there_is_of_it_in_memory_and_on_disk() {
    let db = Options::new()
        .memory(16 << 20)
        .open_in(Arc::new(MemoryDirectory::new()))
        .unwrap();
    let (large, small) = (db.keyspace("large").unwrap(), db.keyspace("small").unwrap());
    for number in 0..20_000u32 {
        large.put(number.to_be_bytes(), [7; 100]).unwrap();
    }
    small.put("one", "1").unwrap();
    small.delete("two").unwrap();
    assert_eq!(large.approximate_len().unwrap(), 20_000);
    assert_eq!(small.approximate_len().unwrap(), 1, "a delete is no key");
    db.checkpoint().unwrap();
    assert_eq!(large.approximate_len().unwrap(), 20_000);
    assert_eq!(small.approximate_len().unwrap(), 1);
    let bytes = large.size_on_disk().unwrap();
    assert!((20_000 * 104..20_000 * 140).contains(&bytes), "{bytes}");
    assert!(small.size_on_disk().unwrap() < 64 << 10);
    for number in 20_000..20_100u32 {
        large.put(number.to_be_bytes(), [7; 100]).unwrap();
    }
    assert_eq!(large.approximate_len().unwrap(), 20_100);
    assert_eq!(large.size_on_disk().unwrap(), bytes, "memory is not on the disk");
    db.drop_keyspace("small").unwrap();
    assert!(small.approximate_len().is_err() && small.size_on_disk().is_err());
    let kept = large.clone();
    db.close().unwrap();
    assert!(kept.approximate_len().is_err());
}
