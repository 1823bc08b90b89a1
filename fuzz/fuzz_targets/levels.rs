//! Checkpoint data of levels of runs: no input panics, and decoded data encodes to the same bytes.

#![no_main]

use alluvium_dictionary::blob::Root;
use alluvium_storage::{PageSize, Place, Structure};
use alluvium_trees::levels::format::Contents;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let place = Place::new(Structure::Node, "tier-0.data", 0);
    if let Ok(root) = Root::decode(input, &place, PageSize::MIN) {
        let bytes = root.encode();
        let again = Root::decode(&bytes, &place, PageSize::MIN);
        assert_eq!(again.expect("what was read is sound"), root);
    }
    if let Ok(contents) = Contents::decode(input, &place, PageSize::MIN) {
        let again = Contents::decode(&contents.encode(), &place, PageSize::MIN);
        assert_eq!(again.expect("what was read is sound"), contents);
    }
});
