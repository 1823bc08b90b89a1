//! Pages of every size with every compression, holding both tiny and huge values.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Compression, KeyspaceOptions, Options};
use alluvium_device::memory::MemoryDirectory;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns a value that compresses to some fraction of its length.
fn value(random: &mut fastrand::Rng) -> Vec<u8> {
    let len = match random.u8(..10) {
        0 => 0,
        1..6 => random.usize(..60),
        6..8 => random.usize(..5000),
        _ => random.usize(120_000..400_000),
    };
    let noise = random.usize(..=8);
    let byte = |at: usize| match at / 64 % 8 < noise {
        true => random.u8(..),
        false => 0,
    };
    (0..len).map(byte).collect()
}

#[test]
fn tiny_and_huge_values_come_back_from_pages_of_every_size() {
    let compressions = [Compression::None, Compression::Lz4, Compression::Zstd];
    for (seed, page) in [4096u32, 8192, 16384, 32768, 65536].into_iter().enumerate() {
        let mut random = fastrand::Rng::with_seed(seed as u64);
        let options = Options::new().memory(64 << 20).page_size(page).workers(0);
        let directory = Arc::new(MemoryDirectory::new());
        let db = options.open_in(directory.clone()).unwrap();
        let mut models: Vec<BTreeMap<Vec<u8>, Vec<u8>>> = vec![BTreeMap::new(); compressions.len()];
        for (number, model) in models.iter_mut().enumerate() {
            let options = KeyspaceOptions::new().compression(compressions[number]);
            let keyspace = db.keyspace_with(&number.to_string(), &options).unwrap();
            for step in 0..60 {
                let key = random.u8(..40).to_string().into_bytes();
                let value = value(&mut random);
                keyspace.put(&key, &value).unwrap();
                model.insert(key, value);
                // A memtable with one value becomes a run whose only long node has its own extent.
                if step % 8 == 0 {
                    db.checkpoint().unwrap();
                }
            }
        }
        db.compact().unwrap();
        assert_eq!(db.check().unwrap(), Vec::<String>::new(), "pages of {page}");
        db.close().unwrap();
        let db = options.open_existing_in(directory).unwrap();
        for (number, model) in models.iter().enumerate() {
            let keyspace = db.existing_keyspace(&number.to_string()).unwrap();
            assert_eq!(keyspace.iter().count(), model.len());
            for (key, value) in model {
                assert!(
                    keyspace.get(key).unwrap().unwrap() == value[..],
                    "pages of {page}"
                );
            }
        }
    }
}
