//! What a file of pages and its journal have: superblocks, roots, pages, nodes, records, and what a
//! tree keeps of a key. No bytes panic, and what is read is written the same again.

#![no_main]

use alluvium_trees::paged;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = paged::decode(input);
});
