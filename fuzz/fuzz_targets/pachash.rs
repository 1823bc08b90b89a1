//! Block indexes of packed stores: `pachash::BlockIndex` and its check.
//!
//! Strategy: the input is used as a raw index, and it also selects object sizes, a shape, and bytes
//! of the resulting index to overwrite.
//! Invariants: no panic, no endless loop; returned blocks lie within the store; in the undamaged
//! index the blocks for a hash include those of its object, and the check reports nothing.
#![no_main]

use alluvium_filters::pachash::{BlockIndex, BlockIndexBuilder, BlockIndexShape};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    read(input);
    let Some(([block_bytes, bins_log, damages], rest)) = input.split_first_chunk() else {
        return;
    };
    // A byte gives an object's size, and the distance of its hash from the previous one.
    let size = |byte: u8| 1 + u64::from(byte % 64) * u64::from(byte / 64 + 1);
    let total = rest.iter().map(|&byte| size(byte)).sum();
    let Ok(shape) = BlockIndexShape::with_bins(total, u32::from(*block_bytes), u32::from(bins_log % 18))
    else {
        return;
    };
    let step = u64::MAX / 255 / (rest.len() as u64 + 1);
    let (mut builder, mut hash, mut at, mut objects) = (BlockIndexBuilder::new(shape), 0, 0, Vec::new());
    for &byte in rest {
        hash += step * u64::from(byte & 0x3f);
        builder.push(hash, size(byte)).expect("a sorted object");
        objects.push((hash, at, at + size(byte)));
        at += size(byte);
    }
    let mut bytes = builder.finish().expect("all bytes");
    let index = BlockIndex::open(&bytes).expect("just written");
    assert!(index.check().is_empty(), "{:?}", index.check());
    for (hash, begin, end) in objects {
        let blocks = index.blocks(hash).expect("sound");
        let block_bytes = u64::from(*block_bytes);
        assert!(blocks.start * block_bytes <= begin && end <= blocks.end * block_bytes);
    }
    for damage in rest.rchunks_exact(3).take(usize::from(*damages)) {
        let at = usize::from(u16::from_le_bytes([damage[0], damage[1]])) % bytes.len();
        bytes[at] = damage[2];
    }
    read(&bytes);
});

fn read(bytes: &[u8]) {
    let Ok(index) = BlockIndex::open(bytes) else {
        return;
    };
    for at in 0..64 {
        if let Ok(blocks) = index.blocks(at * (u64::MAX / 63)) {
            assert!(blocks.start <= blocks.end && blocks.end <= index.shape().blocks());
        }
    }
    let _ = index.check();
}
