//! `superblock::format::SuperblockSlot::decode`, `tiers::format::TierMark::decode` and
//! `tiers::list::TierList::decode` with arbitrary bytes.
//!
//! Strategy: the first byte selects the slot for which the rest is decoded, and whether the rest
//! first gets the length and the checksum of a slot, so that the fields after the checksum are
//! reached too. All decoders read the same bytes. Invariants: no panic; accepted input survives
//! encoding and decoding unchanged, and a superblock is accepted only in its own slot.
#![no_main]

use alluvium_base::checksum;
use alluvium_storage::superblock::format::{SLOT_BYTES, SLOTS, SuperblockSlot};
use alluvium_storage::tiers::format::TierMark;
use alluvium_storage::tiers::list::TierList;
use alluvium_storage::{DiskLocation, OnDiskObject};
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
    let place = DiskLocation::new(OnDiskObject::TierMark, "tier", 0);
    if let Ok(mark) = TierMark::decode(&bytes, &place) {
        assert_eq!(TierMark::decode(&mark.encode(), &place).ok(), Some(mark));
    }
    let place = DiskLocation::new(OnDiskObject::TierList, "tiers", 0);
    if let Ok(list) = TierList::decode(&bytes, &place) {
        assert_eq!(TierList::decode(&list.encode(), &place).ok(), Some(list));
    }
    if let SuperblockSlot::Valid(superblock) = SuperblockSlot::decode(&bytes, slot) {
        let again = superblock.encode(slot);
        assert!(
            matches!(SuperblockSlot::decode(&again, slot), SuperblockSlot::Valid(read) if read == superblock)
        );
        for other in (0..SLOTS).filter(|other| *other != slot) {
            assert!(matches!(
                SuperblockSlot::decode(&again, other),
                SuperblockSlot::Bad(_)
            ));
        }
    }
});
