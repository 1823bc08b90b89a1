//! A leaf below an insertion buffer: no input causes a panic, and decoded leaves encode to the same
//! bytes.
//!
//! The input is a page without its checksum, which is prepended.

#![no_main]

use alluvium_base::checksum::checksum;
use alluvium_storage::{Place, Structure};
use libfuzzer_sys::fuzz_target;
use research_trees::insertion::format::{decode, encode, fits};

fuzz_target!(|input: &[u8]| {
    let place = Place::new(Structure::Node, "leaves", 0);
    assert!(decode(input, 1, 2, &place).is_err() || input.len() >= 16);
    // Page 0 of the tree with the id 0 has the seed 0.
    let page = [&checksum(input).to_le_bytes(), input].concat();
    let Ok(records) = decode(&page, 0, 0, &place) else {
        return;
    };
    assert!(records.iter().all(|(key, value)| fits(key, value, page.len())));
    let mut again = vec![0; page.len()];
    encode(&records, 0, 0, &mut again);
    assert_eq!(
        decode(&again, 0, 0, &place).expect("what was read is sound"),
        records
    );
});
