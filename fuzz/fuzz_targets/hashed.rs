//! On-device formats of a hashed structure: leaves, run descriptions, routing filters, lists of
//! routing trees, and the list in a checkpoint. No input panics, and decoded values encode to the
//! same bytes.

#![no_main]

use alluvium_hashes::hashed::format::HashedContents;
use alluvium_hashes::hashed::leaf::LeafEntryIter;
use alluvium_hashes::hashed::lists::{PagedDescription, format::SketchPage};
use alluvium_hashes::hashed::routing;
use alluvium_hashes::hashed::run::RunDescription;
use alluvium_hashes::hashed::trees;
use alluvium_storage::{DiskLocation, OnDiskObject, PageSize};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let at = || DiskLocation::new(OnDiskObject::Node, "tier-0.data", 0);
    if let Ok(mut entries) = LeafEntryIter::open(input, at, PageSize::MIN) {
        while let Ok(Some(entry)) = entries.next(at) {
            let _ = entry.key.hash(7);
        }
    }
    if let Ok(contents) = HashedContents::decode(input, &at(), PageSize::MIN) {
        let again = HashedContents::decode(&contents.encode(), &at(), PageSize::MIN);
        assert_eq!(again.expect("what was read is sound"), contents);
    }
    if let Ok(meta) = RunDescription::decode(input, &at(), PageSize::MIN) {
        let _ = meta.leaf(0);
        let again = RunDescription::decode(&meta.encode(), &at(), PageSize::MIN);
        assert_eq!(again.expect("what was read is sound"), meta);
    }
    if let Ok(meta) = routing::RoutingFilterDescription::decode(input, &at(), PageSize::MIN) {
        let group = meta.shape.group(0x0123_4567_89ab_cdef);
        assert_eq!(meta.shape.prefix(group.first), meta.shape.prefix(group.last));
        let again = routing::RoutingFilterDescription::decode(&meta.encode(), &at(), PageSize::MIN);
        assert_eq!(again.expect("what was read is sound"), meta);
    }
    if let Ok(meta) = trees::RoutingListDescription::decode(input, &at(), PageSize::MIN) {
        let entry = meta.head.entry(0x0123_4567_89ab_cdef, 0);
        assert!(entry.prefix < 1 << meta.head.prefix_bits());
        let again = trees::RoutingListDescription::decode(&meta.encode(), &at(), PageSize::MIN);
        assert_eq!(again.expect("what was read is sound"), meta);
    }
    if let Ok(sketches) = SketchPage::open(input, &at()) {
        for from in [0, 1 << 9, 1 << 39] {
            let mut left = 1 << 12;
            let _ = sketches.each_from(from, &at(), &mut |_| {
                left -= 1;
                left > 0
            });
        }
    }
});
