//! The parts of the contract that backups need: large transfers, copies between files, locks, and
//! overlay directories.

use crate::contract::{OTHER, assert_block, block, filled};
use crate::places::Place;
use alluvium_device::{AlignedBuffer, CacheMode, Directory, Error, IoBatch, OverlayDirectory};
use std::sync::Arc;

pub(crate) fn a_lock_is_exclusive_until_it_is_dropped(place: &Place) {
    let lock = place.directory.lock("LOCK").unwrap();
    match place.directory.lock("LOCK") {
        Err(Error::Locked { file, holder }) => {
            assert_eq!(file, "LOCK");
            assert_eq!(holder, Some(std::process::id()));
        }
        other => panic!("locked twice: {other:?}"),
    }
    place.directory.lock("another").unwrap();
    drop(lock);
    place.directory.lock("LOCK").unwrap();
}

pub(crate) fn a_shared_lock_is_shared_and_keeps_out_whoever_wants_it_alone(place: &Place) {
    let directory = &place.directory;
    let first = directory.lock_shared("LOCK").unwrap();
    let second = directory.lock_shared("LOCK").unwrap();
    assert!(matches!(directory.lock("LOCK"), Err(Error::Locked { .. })));
    drop(first);
    assert!(matches!(directory.lock("LOCK"), Err(Error::Locked { .. })));
    drop(second);
    let alone = directory.lock("LOCK").unwrap();
    assert!(matches!(directory.lock_shared("LOCK"), Err(Error::Locked { .. })));
    drop(alone);
    directory.lock_shared("LOCK").unwrap();
}

pub(crate) fn a_range_is_copied_from_a_file_of_any_directory(place: &Place) {
    const BLOCKS: u64 = (9 << 20) / 512 + 3;
    let elsewhere = Place::memory(CacheMode::Direct);
    for source in [filled(place, "from", BLOCKS), filled(&elsewhere, "from", BLOCKS)] {
        let name = format!("to {source:p}");
        let target = place.directory.create(&name, place.options).unwrap();
        target.grow(BLOCKS * 512).unwrap();
        target
            .copy_from(&*source, 512..(BLOCKS - 1) * 512, OTHER)
            .unwrap();
        for number in (1..BLOCKS - 1).step_by(97).chain([BLOCKS - 2]) {
            assert_block(number, &target.read_at(number * 512, 512, OTHER).unwrap());
        }
        for number in [0, BLOCKS - 1] {
            let found = target.read_at(number * 512, 512, OTHER).unwrap();
            assert!(found.iter().all(|&byte| byte == 0), "{number}");
        }
        let beyond = target.copy_from(&*source, 0..(BLOCKS + 1) * 512, OTHER);
        assert!(matches!(beyond, Err(Error::PastEnd { .. })));
    }
}

pub(crate) fn large_transfers_arrive_whole(place: &Place) {
    let file = place.directory.create("f", place.options).unwrap();
    file.grow(32 << 20).unwrap();
    let mut batch = IoBatch::new();
    for number in 0..8u64 {
        let mut buffer = AlignedBuffer::zeroed(4 << 20);
        for (at, bytes) in buffer.chunks_mut(512).enumerate() {
            bytes.fill((number as u8) << 5 | (at as u8 & 31));
        }
        batch.write(number * (4 << 20), buffer, OTHER);
    }
    file.run(batch).unwrap();
    let mut batch = IoBatch::new();
    for number in 0..8u64 {
        batch.read(number * (4 << 20), AlignedBuffer::zeroed(4 << 20), OTHER);
    }
    for (number, buffer) in file.run(batch).unwrap().iter().enumerate() {
        for (at, bytes) in buffer.chunks(512).enumerate() {
            let wanted = (number as u8) << 5 | (at as u8 & 31);
            assert!(
                bytes.iter().all(|&byte| byte == wanted),
                "block {at} of buffer {number}"
            );
        }
    }
}

#[test]
fn what_lies_over_another_directory_never_changes_it() {
    let below = Place::memory(CacheMode::Direct);
    filled(&below, "kept", 64);
    filled(&below, "removed", 1);
    let before = below.directory.counters().snapshot().total().writes;
    let overlay: Arc<dyn Directory> = Arc::new(OverlayDirectory::new(Arc::clone(&below.directory)).unwrap());
    let file = overlay.open("kept", below.options).unwrap();
    file.write_at(7 * 512, block(99), OTHER).unwrap();
    file.punch_hole(16 * 512..24 * 512).unwrap();
    file.truncate(40 * 512).unwrap();
    file.grow(128 * 512).unwrap();
    file.write_at(20 * 512, block(98), OTHER).unwrap();
    overlay.remove("removed").unwrap();
    overlay.rename("kept", "moved").unwrap();
    overlay.sync().unwrap();
    let moved = overlay.open("moved", below.options).unwrap();
    for number in 0..128 {
        let found = moved.read_at(number * 512, 512, OTHER).unwrap();
        match number {
            7 => assert_block(99, &found),
            20 => assert_block(98, &found),
            16..24 | 40.. => assert!(found.iter().all(|&byte| byte == 0), "{number}"),
            _ => assert_block(number, &found),
        }
    }
    assert_eq!(below.directory.list().unwrap(), ["kept", "removed"]);
    let kept = below.directory.open("kept", below.options).unwrap();
    for number in 0..64 {
        assert_block(number, &kept.read_at(number * 512, 512, OTHER).unwrap());
    }
    let after = below.directory.counters().snapshot().total().writes;
    assert_eq!(before, after);
    let _lock = overlay.lock("LOCK").unwrap();
    assert!(
        below.directory.lock("LOCK").is_err(),
        "a reader keeps writers out"
    );
    below.directory.lock_shared("LOCK").unwrap();
}
