//! Indexes of entropy-coded tries: `trie::TrieIndex`, its update and its check.
//!
//! Strategy: the input is used as a raw index, and it also selects a shape, keys of nine bytes, and
//! bytes of the resulting index to overwrite.
//! Invariants: no panic, no endless loop, no memory beyond what the bytes justify; in the undamaged
//! index every key leads to its item or block, and the check reports nothing.
#![no_main]

use alluvium_filters::Error;
use alluvium_filters::trie::{BatchChange, TrieCodes, TrieIndex, TrieIndexBuilder, TrieShape};
use libfuzzer_sys::fuzz_target;
use std::ops::Range;
use std::sync::OnceLock;

/// Created once, because an input takes only microseconds.
fn codes(hmax: u32) -> &'static TrieCodes {
    static CODES: [OnceLock<TrieCodes>; 3] = [const { OnceLock::new() }; 3];
    let (at, hmax) = [(0, 64), (1, 5), (2, 200)][(hmax % 3) as usize];
    CODES[at].get_or_init(|| TrieCodes::new(hmax))
}

fuzz_target!(|input: &[u8]| {
    read(codes(0), input, &[]);
    let Some(([hmax, block_items, buckets, damages], rest)) = input.split_first_chunk() else {
        return;
    };
    let codes = codes((*hmax).into());
    let shape = TrieShape {
        hmax: codes.hmax(),
        block_items: 1 + u32::from(block_items % 40),
        ..TrieShape::new(9)
    };
    // The input supplies two bytes of each key: one at position 0 to 7, and the last one.
    let mut keys: Vec<[u8; 9]> = rest
        .chunks_exact(2)
        .map(|two| {
            let mut key = [0x5a; 9];
            key[usize::from(two[1] % 8)] = two[0];
            key[8] = two[1];
            key
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    let mut builder = TrieIndexBuilder::new(codes, shape, 1 + u64::from(*buckets)).expect("a shape");
    for key in &keys {
        builder.push(key).expect("keys in order");
    }
    let mut bytes = builder.finish();
    let index = TrieIndex::open(codes, 9, &bytes).expect("just written");
    assert!(index.check().is_empty(), "{:?}", index.check());
    for (item, key) in (0..).zip(&keys) {
        let found = index.lookup(key).expect("sound");
        assert_eq!(found, Some(item / u64::from(shape.block_items)));
    }
    for damage in rest.rchunks_exact(3).take(usize::from(*damages)) {
        let at = usize::from(u16::from_le_bytes([damage[0], damage[1]])) % bytes.len();
        bytes[at] = damage[2];
    }
    read(codes, &bytes, &keys);
});

fn read(codes: &TrieCodes, bytes: &[u8], keys: &[[u8; 9]]) {
    let Ok(index) = TrieIndex::open(codes, 9, bytes) else {
        return;
    };
    let _ = index.check();
    for key in keys {
        index.prefetch(key);
        let _ = index.lookup(key);
    }
    let change = [([0x5a; 9], BatchChange::Put)];
    let read = |items: Range<u64>| -> Result<Vec<[u8; 9]>, Error> {
        let (begin, end) = (items.start as usize, items.end as usize);
        Ok(keys.get(begin..end).unwrap_or_default().to_vec())
    };
    let _ = index.update(codes, &change, read);
}
