//! What a file of an affine dictionary has: slots, maps of extents, roots, indexes, segments and
//! sub-blocks. No bytes panic, and what is read is written the same again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use research_trees::affine;

fuzz_target!(|input: &[u8]| {
    let _ = affine::decode(input);
});
