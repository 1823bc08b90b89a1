//! Leaves, index nodes, footers and heads of long nodes: `run::examine` with arbitrary bytes.
//!
//! Strategy: the first byte selects the page size, the second the number of trailing bytes that
//! overwrite others; the rest is a node. (The seeds are nodes of real runs, so the overwritten
//! bytes lie inside a valid node.) Invariants: no panic, no endless loop, no memory beyond what the
//! node justifies; counts are possible for the node's length.
#![no_main]

use alluvium_storage::PageSize;
use alluvium_trees::run::{NodeDescription, examine};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some(([page, damages], rest)) = input.split_first_chunk() else {
        return;
    };
    let page_size = PageSize::new(4096 << (page % 5)).expect("4 to 64 KiB");
    let damages = usize::from(damages % 16).min(rest.len() / 4);
    let (node, damages) = rest.split_at(rest.len() - 3 * damages);
    let mut node = node.to_vec();
    for damage in damages.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([damage[0], damage[1]])) % node.len();
        node[at] = damage[2];
    }
    match examine(&node, page_size) {
        Ok(NodeDescription::Leaf { keys, records }) => assert!(keys <= records && records <= 1 << 16),
        Ok(NodeDescription::Index { children, .. }) => assert!(children * 8 <= node.len()),
        Ok(NodeDescription::Footer { extents }) => assert!(extents * 17 <= node.len()),
        Ok(NodeDescription::Head { .. }) | Err(_) => {}
    }
});
