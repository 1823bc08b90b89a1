//! Filters of listed fingerprints: `listed::ListedFilter`, its parts and its check.
//!
//! Strategy: the input is used as a raw filter, and it also selects a shape, hashes, and bytes of
//! the resulting filter to overwrite.
//! Invariants: no panic, no endless loop; every inserted hash is found in the undamaged filter and
//! in its parts, whose checks report nothing.
#![no_main]

use alluvium_filters::listed::{ListedFilter, ListedShape, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    read(input);
    let Some(([bits, known, damages], rest)) = input.split_first_chunk() else {
        return;
    };
    let Ok(shape) = ListedShape::new(rest.len() as u64, u32::from(bits % 26)) else {
        return;
    };
    let shape = shape.knowing(u32::from(*known).max(1));
    // Each byte is the distance of a hash from the previous one.
    let (mut hashes, mut hash) = (Vec::new(), 0u64);
    for &byte in rest {
        hash = hash.saturating_add(u64::from(byte & 15) << (byte >> 4 << 2));
        hashes.push(hash);
    }
    let mut bytes = encode(shape, hashes.iter().copied()).expect("sorted hashes");
    let filter = ListedFilter::open(&bytes[..]).expect("just written");
    assert!(filter.check().is_empty(), "{:?}", filter.check());
    let part = filter.part(0..shape.pages().div_ceil(2), |len| vec![0; len]);
    let part = part.expect("pages that are there");
    assert!(part.check().is_empty(), "{:?}", part.check());
    for &hash in hashes.iter().step_by(1 + hashes.len() / 64) {
        assert!(filter.may_hold(hash).expect("sound") && part.may_hold(hash).expect("sound"));
    }
    for damage in rest.rchunks_exact(3).take(usize::from(*damages)) {
        let at = usize::from(u16::from_le_bytes([damage[0], damage[1]])) % bytes.len();
        bytes[at] = damage[2];
    }
    read(&bytes);
});

fn read(bytes: &[u8]) {
    let Ok(filter) = ListedFilter::open(bytes) else {
        return;
    };
    for at in 0..64 {
        let _ = filter.may_hold(at * (u64::MAX / 63));
    }
    let _ = filter.check();
    let pages = filter.pages();
    let last = filter.part(pages.end - 1..pages.end, |len| vec![0; len]);
    let last = last.expect("pages that are there");
    let _ = last.check();
}
