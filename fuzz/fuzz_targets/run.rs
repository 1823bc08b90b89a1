//! Leaves, index nodes, footers and heads of long nodes: `run::examine` against any bytes.
//!
//! Strategy: the first byte chooses the page size, the second how many of the last bytes overwrite
//! others; the rest is a node. (The seeds are nodes of real runs, so that what is overwritten is
//! inside a sound one.) Invariants: no panic, no endless loop, no memory that the node does not
//! justify; counts are ones that the node's length can hold.
#![no_main]

use alluvium_storage::PageSize;
use alluvium_trees::run::{Examined, examine};
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
        Ok(Examined::Leaf { keys, records }) => assert!(keys <= records && records <= 1 << 16),
        Ok(Examined::Index { children, .. }) => assert!(children * 8 <= node.len()),
        Ok(Examined::Footer { extents }) => assert!(extents * 17 <= node.len()),
        Ok(Examined::Head { .. }) | Err(_) => {}
    }
});
