//! `MapletRoot::decode` and `MapletBody::decode` of a maplet's directory with arbitrary bytes.
//!
//! Strategy: the first bytes give the expected location of the root; the rest is used as the root,
//! padded to whole pages, and also as the body assembled from parts. Invariants: no panic; no more
//! memory than the bytes justify; accepted input encodes to exactly the same bytes, names its own
//! extent last, and has one checksum for each page.
#![no_main]

use alluvium_storage::{NodeCodec, NodePointer, PageSize};
use alluvium_trees::maplet::format::{MapletBody, MapletRoot};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some(([unit, page, tier], bytes)) = input.split_first_chunk() else {
        return;
    };
    let mut node = bytes.to_vec();
    node.resize(bytes.len().next_multiple_of(4096).clamp(4096, 65536), 0);
    let pointer = NodePointer {
        offset: u64::from(*unit) << 17 | u64::from(*page % 32) << 12,
        birth: 1,
        checksum: 0,
        encoded_len: node.len() as u32,
        tier: tier % 8,
        pages: (node.len() / 4096) as u8,
        codec: NodeCodec::None,
    };
    let Ok(root) = MapletRoot::decode(&node, &pointer, PageSize::MIN) else {
        return;
    };
    let last = root.stretches.last().expect("an extent with the root");
    assert!(last.extent.range().contains(&pointer.offset));
    let _ = MapletBody::decode(bytes, &root, &pointer.place());
    let body = if root.parts.is_empty() {
        let Ok(body) = root.body_in(&node, &pointer) else {
            return;
        };
        assert_eq!(body.checksums.len(), root.pages as usize);
        body.encode()
    } else {
        Vec::new()
    };
    let mut again = root.encode(&body, PageSize::MIN);
    again.resize(node.len(), 0);
    assert!(again == node);
});
