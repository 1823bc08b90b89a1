//! Records of SILT's logs, and slots of its stores.
//!
//! Strategy: the first byte of the input is the number of bytes of a slot; the rest is used as an
//! encoded log and as an encoded slot. Invariants: no panic, no endless loop; decoded records and
//! slots encode to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use research_hashes::silt::log::Scan;
use research_hashes::silt::slots::Layout;

fuzz_target!(|input: &[u8]| {
    let Some((&slot_bytes, rest)) = input.split_first() else {
        return;
    };
    let (mut scan, mut again) = (Scan::new(1, rest), Vec::new());
    for (_, record) in scan.by_ref() {
        record.encode(1, &mut again).expect("as long as it was");
    }
    assert_eq!(again.len() as u64, scan.position());
    let layout = Layout {
        store: 1,
        slot_bytes: slot_bytes.into(),
    };
    if let Ok(slot) = layout.decode(rest, 0) {
        let mut again = Vec::new();
        layout
            .encode(slot.as_ref(), &mut again)
            .expect("as long as it was");
        assert_eq!(again, rest);
    }
});
