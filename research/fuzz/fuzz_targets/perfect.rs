//! Indexes of perfect hash functions: `perfect::PerfectHashIndex` and its check.
//!
//! Strategy: the input is used as an encoded index. It is also used to choose keys of nine bytes
//! and the bytes of their index that are then overwritten. Invariants: no panic, no endless loop;
//! places are within the key's bucket; in the undamaged index, every key has the place that the
//! builder returned, and the check reports no errors.
#![no_main]

use libfuzzer_sys::fuzz_target;
use research_filters::perfect::{Builder, Index};

fuzz_target!(|input: &[u8]| {
    read(input, &[[0x5a; 9]]);
    let Some(([buckets, damages], rest)) = input.split_first_chunk() else {
        return;
    };
    let mut keys: Vec<[u8; 9]> = rest
        .chunks_exact(2)
        .take(1000)
        .map(|two| {
            let mut key = [0x5a; 9];
            key[usize::from(two[1] % 8)] = two[0];
            key[8] = two[1];
            key
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    let mut places = Vec::new();
    let sink =
        |first: u64, of_keys: &[u8]| places.extend(of_keys.iter().map(|place| first + u64::from(*place)));
    let mut builder = Builder::new(9, 1 + u64::from(*buckets), sink).expect("a shape");
    let mut held = Vec::new();
    for key in &keys {
        // A bucket may be full.
        if builder.push(key).is_ok() {
            held.push(*key);
        }
    }
    let mut bytes = builder.finish().expect("distinct keys");
    let index = Index::open(9, &bytes).expect("just written");
    assert!(index.check().is_empty(), "{:?}", index.check());
    for (key, place) in held.iter().zip(&places) {
        assert_eq!(index.lookup(key).expect("sound"), Some(*place));
    }
    for damage in rest.rchunks_exact(3).take(usize::from(*damages)) {
        let at = usize::from(u16::from_le_bytes([damage[0], damage[1]])) % bytes.len();
        bytes[at] = damage[2];
    }
    read(&bytes, &held);
});

fn read(bytes: &[u8], keys: &[[u8; 9]]) {
    let Ok(index) = Index::open(9, bytes) else {
        return;
    };
    for key in keys {
        if let Ok(Some(place)) = index.lookup(key) {
            let items = index.items(index.bucket_of(key)).expect("a bucket with a place");
            assert!(items.contains(&place));
        }
    }
    let _ = index.check();
    let mut builder = Builder::new(9, index.buckets(), |_, _| {}).expect("a shape that was read");
    let _ = builder.copy(&index, 0);
}
