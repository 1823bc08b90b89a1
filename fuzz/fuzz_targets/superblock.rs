//! `superblock::format::Slot::decode` against any bytes.
//!
//! Strategy: the first byte says for which slot the rest is read, and whether it is first given the
//! length and the checksum of a slot, so that the fields behind the checksum are reached too.
//! Invariants: no panic; what is accepted is read back equal from its own encoding, and from its
//! own slot only.
#![no_main]

use alluvium_base::checksum;
use alluvium_storage::superblock::format::{SLOT_BYTES, SLOTS, Slot};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else {
        return;
    };
    let slot = usize::from(choice >> 1) % SLOTS;
    let mut bytes = bytes.to_vec();
    if choice % 2 == 1 {
        bytes.resize(SLOT_BYTES - 8, 0);
        let sum = checksum(&bytes);
        bytes.extend(sum.to_le_bytes());
    }
    if let Slot::Valid(superblock) = Slot::decode(&bytes, slot) {
        let again = superblock.encode(slot);
        assert!(matches!(Slot::decode(&again, slot), Slot::Valid(read) if read == superblock));
        for other in (0..SLOTS).filter(|other| *other != slot) {
            assert!(matches!(Slot::decode(&again, other), Slot::Bad(_)));
        }
    }
});
