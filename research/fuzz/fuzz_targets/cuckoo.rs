//! Filters of cuckoo tags: `cuckoo::CuckooFilter`.
//!
//! Strategy: the input is used as an encoded filter. It is also used to choose a shape, the keys
//! inserted into a table, and the bytes of the table's filter that are then overwritten.
//! Invariants: no panic, no endless loop; the undamaged filter contains every inserted key, and its
//! check reports no errors.
#![no_main]

use alluvium_filters::hash;
use libfuzzer_sys::fuzz_target;
use research_filters::cuckoo::{Filter, Shape, Table, encode};

fuzz_target!(|input: &[u8]| {
    read(input);
    let Some(([bits, tag_bits, damages], rest)) = input.split_first_chunk() else {
        return;
    };
    let tag_bits = 1 + u32::from(tag_bits % 15);
    let shape = match bits % 2 {
        0 => Shape::alternate(tag_bits.min(8)),
        _ => Shape::xor(u32::from(bits / 2 % 8), tag_bits),
    };
    let mut table = Table::new(shape.expect("bits within bounds"), 1);
    let mut held = Vec::new();
    for (offset, key) in (0..).zip(rest.chunks_exact(2)) {
        if table.insert(hash(0, key), offset).is_ok() {
            held.push(hash(0, key));
        }
    }
    let mut bytes = encode(&table);
    let filter = Filter::open(&bytes).expect("just written");
    assert!(filter.check().is_empty(), "{:?}", filter.check());
    assert!(held.iter().all(|&hash| filter.may_hold(hash)));
    for damage in rest.rchunks_exact(3).take(usize::from(*damages)) {
        let at = usize::from(u16::from_le_bytes([damage[0], damage[1]])) % bytes.len();
        bytes[at] = damage[2];
    }
    read(&bytes);
});

fn read(bytes: &[u8]) {
    let Ok(filter) = Filter::open(bytes) else {
        return;
    };
    for key in 0..64u8 {
        let hash = hash(0, &[key, key]);
        assert_eq!(filter.may_hold(hash), filter.candidates(hash).next().is_some());
    }
    let _ = filter.check();
}
