//! Indexes of data at rest: their headers, and blocks of records.
//!
//! Strategy: the input is used as a raw index file, and as a raw block.
//! Invariants: no panic; decoded values encode to the same bytes.
#![no_main]

use alluvium_hashes::index::format::{IndexFileHeader, open_block, seal_block};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok((header, index)) = IndexFileHeader::decode(input) {
        let again = header.encode(index);
        assert_eq!(again, input[..again.len()]);
        assert!(header.shape.block_records() > 0);
    }
    let id = open_block(3, input, 7);
    // A block is at least as long as its checksum.
    if input.len() < 8 {
        assert!(id.is_err());
        return;
    }
    let mut block = input.to_vec();
    let used = block.len().saturating_sub(8);
    let sealed = seal_block(3, &mut block, used, 7);
    if let Ok(id) = id {
        assert_eq!((id, &block[..]), (sealed, input));
    }
});
