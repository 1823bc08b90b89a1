//! On-device formats of a hashed structure: leaves, run descriptions, routing filters, lists of
//! routing trees, and the list in a checkpoint. No input panics, and decoded values encode to the
//! same bytes.

#![no_main]

use alluvium_hashes::hashed::format::Contents;
use alluvium_hashes::hashed::leaf::Entries;
use alluvium_hashes::hashed::lists::{Description, format::Sketches};
use alluvium_hashes::hashed::routing;
use alluvium_hashes::hashed::run::Meta;
use alluvium_hashes::hashed::trees;
use alluvium_storage::{PageSize, Place, Structure};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let at = || Place::new(Structure::Node, "tier-0.data", 0);
    if let Ok(mut entries) = Entries::open(input, at, PageSize::MIN) {
        while let Ok(Some(entry)) = entries.next(at) {
            let _ = entry.key.hash(7);
        }
    }
    if let Ok(contents) = Contents::decode(input, &at(), PageSize::MIN) {
        let again = Contents::decode(&contents.encode(), &at(), PageSize::MIN);
        assert_eq!(again.expect("what was read is sound"), contents);
    }
    if let Ok(meta) = Meta::decode(input, &at(), PageSize::MIN) {
        let _ = meta.leaf(0);
        let again = Meta::decode(&meta.encode(), &at(), PageSize::MIN);
        assert_eq!(again.expect("what was read is sound"), meta);
    }
    if let Ok(meta) = routing::Meta::decode(input, &at(), PageSize::MIN) {
        let group = meta.shape.group(0x0123_4567_89ab_cdef);
        assert_eq!(meta.shape.prefix(group.first), meta.shape.prefix(group.last));
        let again = routing::Meta::decode(&meta.encode(), &at(), PageSize::MIN);
        assert_eq!(again.expect("what was read is sound"), meta);
    }
    if let Ok(meta) = trees::Meta::decode(input, &at(), PageSize::MIN) {
        let entry = meta.head.entry(0x0123_4567_89ab_cdef, 0);
        assert!(entry.prefix < 1 << meta.head.prefix_bits());
        let again = trees::Meta::decode(&meta.encode(), &at(), PageSize::MIN);
        assert_eq!(again.expect("what was read is sound"), meta);
    }
    if let Ok(sketches) = Sketches::open(input, &at()) {
        for from in [0, 1 << 9, 1 << 39] {
            let mut left = 1 << 12;
            let _ = sketches.each_from(from, &at(), &mut |_| {
                left -= 1;
                left > 0
            });
        }
    }
});
