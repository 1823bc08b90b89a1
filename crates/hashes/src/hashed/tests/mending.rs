//! Tests with a damaged hash store that only one of two parts has merged.

use super::{
    AllocationClass, Dictionary, HashedOptions, HashedStructure, IndexKind, LookupKey, MemoryDirectory,
    Memtable, MemtableSlice, Message, StepProgress, StoreOptions, StructureContext, home_in, small,
};
use alluvium_base::Purpose;
use alluvium_device::{Directory, FileOptions};
use std::sync::Arc;

/// Creates a structure with two parts and several hash stores. The first part has merged all of
/// them and the second none.
fn half_taken() -> (Arc<dyn Directory>, StructureContext, HashedStructure) {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let home = home_in(Arc::clone(&directory), &StoreOptions::default());
    let options = HashedOptions {
        parts_log: 1,
        least_young: 9,
        most_young: 9,
        ..small(IndexKind::PaCHash)
    };
    let hashed = HashedStructure::create(home.clone(), options, 0).unwrap();
    for store in 0..3u64 {
        let memtable = Memtable::new(1 << 20);
        for number in 0..1000 {
            let at = 1000 * store + number + 1;
            memtable
                .insert(&number.to_be_bytes(), Message::put(at, &at.to_be_bytes()))
                .unwrap();
        }
        let share = MemtableSlice::whole(Arc::new(memtable), 1000 * (store + 1));
        let mut taking = hashed.incorporate(share, AllocationClass::Normal).unwrap();
        while taking.poll(1000).unwrap() == StepProgress::More {}
        taking.publish().unwrap();
    }
    hashed.compact_part(b"").unwrap();
    let mut step = hashed.next_step().unwrap().unwrap();
    while step.poll(1000).unwrap() == StepProgress::More {}
    assert_eq!(hashed.version().parts[0].upto, 3);
    assert_eq!(
        (hashed.version().parts[1].upto, hashed.hash_store_count()),
        (0, 3)
    );
    (directory, home, hashed)
}

/// Changes a byte, on the device, in a leaf of the newest hash store.
fn damage(directory: &Arc<dyn Directory>, hashed: &HashedStructure, leaf: u64) {
    let offset = hashed.version().young[0].run.leaf(leaf).unwrap().offset;
    let file = directory.open("tier-0.data", FileOptions::BUFFERED).unwrap();
    let mut bytes = file.read_at(offset, 4096, Purpose::Check).unwrap();
    bytes[2000] ^= 4;
    file.write_at(offset, bytes, Purpose::Check).unwrap();
}

fn records_of_part(hashed: &HashedStructure, part: usize) -> usize {
    let of = |number: &u64| {
        hashed
            .options()
            .part_of(hashed.hash_of(LookupKey::new(&number.to_be_bytes())))
    };
    (0..1000u64).filter(|number| of(number) == part).count()
}

#[test]
fn records_that_a_part_has_taken_are_not_lost_with_their_hash_store() {
    let (directory, _home, hashed) = half_taken();
    damage(&directory, &hashed, 0);
    let mended = hashed.repair().unwrap();
    assert_eq!((mended.runs, mended.gone), (1, Vec::new()));
    let young = hashed.version().young[0].run.records();
    assert!(
        young >= records_of_part(&hashed, 1) as u64 && young < 1000,
        "{young}"
    );
    assert_eq!(hashed.repair().unwrap().runs, 0, "all is sound now");
}

#[test]
fn records_that_wait_are_lost_with_their_hash_store_and_named_by_their_hashes() {
    let (directory, _home, hashed) = half_taken();
    let last = hashed.version().young[0].run.leaves() - 1;
    damage(&directory, &hashed, last);
    let mended = hashed.repair().unwrap();
    assert_eq!((mended.runs, mended.gone.len()), (1, 1), "{:?}", mended.gone);
    let what = &mended.gone[0].what;
    let lost = 1000 - hashed.version().young[0].run.records();
    assert!(what.starts_with(&format!("{lost} of 1000 records")), "{what}");
    assert!(what.contains("to ffffffffffffffff"), "{what}");
}

#[test]
fn of_a_gap_that_both_parts_share_only_what_waits_is_named() {
    let (directory, _home, hashed) = half_taken();
    let leaves = hashed.version().young[0].run.leaves();
    (0..leaves).for_each(|leaf| damage(&directory, &hashed, leaf));
    let mended = hashed.repair().unwrap();
    assert_eq!(mended.gone.len(), 1, "{:?}", mended.gone);
    let what = &mended.gone[0].what;
    assert!(what.starts_with("up to 1000 of 1000 records"), "{what}");
    assert!(
        what.contains("from 8000000000000000 to ffffffffffffffff"),
        "{what}"
    );
}
