//! Checkpoint data of an ordered map: no input panics, and decoded data encodes to the same bytes.

#![no_main]

use alluvium_dictionary::blob::BlobRoot;
use alluvium_storage::{DiskLocation, OnDiskObject, PageSize};
use alluvium_trees::map::format::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let place = DiskLocation::new(OnDiskObject::Node, "tier-0.data", 0);
    if let Ok(root) = BlobRoot::decode(input, &place, PageSize::MIN) {
        let bytes = root.encode();
        let again = BlobRoot::decode(&bytes, &place, PageSize::MIN);
        assert_eq!(again.expect("what was read is sound"), root);
    }
    if let Ok(keys) = decode(input, &place) {
        let again = decode(&encode(&keys), &place);
        assert_eq!(again.expect("what was read is sound"), keys);
    }
});
