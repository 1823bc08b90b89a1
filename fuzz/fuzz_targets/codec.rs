//! `NodeCodec::decode` with arbitrary bytes, and `NodeCodec::encode` followed by a decode.
//!
//! Strategy: the first byte selects page size, number of pages and codec; the rest is used once as
//! encoded bytes, and once as the content of a node. Invariants: no panic; a successful decode
//! fills the node exactly; encoded content decodes to itself, under a pointer that verifies it, and
//! is never longer than the content; a node that is not compressed is marked as such.
#![no_main]

use alluvium_base::checksum;
use alluvium_storage::{NodeCodec, NodePointer, PageSize};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else {
        return;
    };
    let page_size = PageSize::new(4096 << (choice % 3)).expect("4 to 16 KiB");
    let pages = 1 + (choice >> 2) % 3;
    let codec = [NodeCodec::None, NodeCodec::Lz4, NodeCodec::Zstd][usize::from(choice >> 4) % 3];
    let mut out = vec![0; page_size.node_bytes(pages)];

    let _ = NodeCodec::decode(&pointer(codec, pages, bytes), page_size, bytes, &mut out);

    let mut node = vec![0; out.len()];
    for (index, byte) in node.iter_mut().enumerate() {
        *byte = if bytes.is_empty() {
            0
        } else {
            bytes[index % bytes.len()]
        };
    }
    let mut encoded = Vec::new();
    let used = codec.encode(&node, &mut encoded);
    if used == NodeCodec::None {
        assert!(encoded.is_empty(), "what is not compressed is written as it is");
        encoded.clone_from(&node);
    }
    assert!(encoded.len() <= node.len());
    let pointer = pointer(used, pages, &encoded);
    pointer
        .verify(&encoded)
        .expect("the bytes that the pointer was made for");
    NodeCodec::decode(&pointer, page_size, &encoded, &mut out).expect("what was just encoded");
    assert!(out == node);
});

fn pointer(codec: NodeCodec, pages: u8, encoded: &[u8]) -> NodePointer {
    NodePointer {
        offset: 0,
        birth: 1,
        checksum: checksum(encoded),
        encoded_len: encoded.len() as u32,
        tier: 0,
        pages,
        codec,
    }
}
