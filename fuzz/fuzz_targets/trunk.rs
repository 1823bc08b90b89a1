//! Checkpoint data of the trunk: no input panics, and decoded data encodes to the same bytes.

#![no_main]

use alluvium_storage::{DiskLocation, OnDiskObject, PageSize};
use alluvium_trees::tiered::format::{StoredNode, TreeRoot};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let place = DiskLocation::new(OnDiskObject::Node, "tier-0.data", 0);
    let Some((&choice, bytes)) = input.split_first() else {
        return;
    };
    match choice % 2 {
        0 => {
            if let Ok(form) = StoredNode::decode(bytes, &place, PageSize::MIN) {
                let again = StoredNode::decode(&form.encode(), &place, PageSize::MIN);
                assert_eq!(again.expect("what was read is sound"), form);
            }
        }
        _ => {
            if let Ok(root) = TreeRoot::decode(bytes, &place, PageSize::MIN) {
                assert_eq!(root.encode(), bytes);
            }
        }
    }
});
