//! `NodePointer::decode` with arbitrary bytes.
//!
//! Strategy: the first byte selects the page size; the rest is decoded as consecutive pointers.
//! Invariants: no panic; accepted input encodes to exactly the same bytes; its lengths are possible
//! in a store, so that a damaged pointer never sizes an allocation.
#![no_main]

use alluvium_base::bytes::ByteReader;
use alluvium_storage::{DiskLocation, NodePointer, OnDiskObject, PageSize};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else {
        return;
    };
    let page_size = PageSize::new(4096 << (choice % 5)).expect("4 to 64 KiB");
    let place = DiskLocation::new(OnDiskObject::Node, "fuzz", 0);
    let mut reader = ByteReader::new(bytes);
    loop {
        let at = reader.position();
        let Ok(pointer) = NodePointer::decode(&mut reader, &place, page_size) else {
            return;
        };
        let mut encoded = Vec::new();
        pointer.encode(&mut encoded);
        assert_eq!(encoded, bytes[at..reader.position()]);
        assert!((1..=16).contains(&pointer.pages));
        assert!(pointer.read_len() <= page_size.node_bytes(16));
        assert!(pointer.offset.checked_add(pointer.read_len() as u64).is_some());
        assert!(pointer.verify(&bytes[..at]).is_err() || pointer.encoded_len as usize <= at);
    }
});
