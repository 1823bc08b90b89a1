//! The layers of an unattached ingest, compared with a reference after each change.

use crate::under_way::UnderWay;
use crate::world::Workload;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_trees::tiered::{TieredTree, TreeOptions};
use std::sync::Arc;

#[test]
fn layers_say_what_was_written_to_them_and_not_taken_back() {
    for seed in 0..4 {
        let directory = Arc::new(MemoryDirectory::new());
        let store = Arc::new(Store::create(directory, &StoreOptions::default(), b"").unwrap());
        let provisional = || store.usage().0.total().provisional_bytes;
        let workload = Workload {
            keys: 400,
            ..Workload::default()
        };
        let options = TreeOptions {
            schema: crate::schema::schema_with(0, workload.codec, Some(1000)),
            ..TreeOptions::default()
        };
        let tree = TieredTree::create(Arc::clone(&store), options);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut layers = UnderWay::new(tree.ingest(AllocationClass::Normal).unwrap());
        let key_of = |number: u32| format!("{number:08}").into_bytes();
        for slice in 0..80 {
            match random.u32(..5) {
                0 => layers.take_back(&mut random),
                _ => layers.write_layer(&mut random, &workload, slice, key_of).unwrap(),
            }
            for number in 0..workload.keys {
                layers.compare(&key_of(number), slice).unwrap();
            }
            let (one, other) = (random.u32(..workload.keys), random.u32(..workload.keys));
            let range = KeyRange::new(&key_of(one), Some(&key_of(other)));
            for direction in [MergeDirection::Forward, MergeDirection::Backward] {
                layers.compare_walk(&range, direction, slice).unwrap();
            }
        }
        assert!(provisional() > 0);
        drop(layers);
        assert_eq!(provisional(), 0, "what is dropped leaves nothing");
    }
}
