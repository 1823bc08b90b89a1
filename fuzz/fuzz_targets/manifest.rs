//! Manifests: no input panics, and a decoded manifest encodes to the same bytes.

#![no_main]

use alluvium::simulation::format::manifest::{Manifest, SuperblockPayload};
use alluvium_storage::{DiskLocation, OnDiskObject, PageSize};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let place = DiskLocation::new(OnDiskObject::Superblock, "superblock", 0);
    if let Ok(payload) = SuperblockPayload::decode(input, &place, PageSize::MIN) {
        let again = SuperblockPayload::decode(&payload.encode(), &place, PageSize::MIN);
        assert_eq!(again.expect("what was read is sound"), payload);
    }
    if let Ok(manifest) = Manifest::decode(input, &place) {
        let again = Manifest::decode(&manifest.encode(), &place);
        assert_eq!(again.expect("what was read is sound"), manifest);
    }
});
