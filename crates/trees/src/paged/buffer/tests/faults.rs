//! Tests of damaged pages, pages of another store, full disks, and device failures.

use super::*;
use alluvium_base::{ErrorKind, Purpose};
use alluvium_device::simulated::{InjectedFailure, InjectedFault, SimDirectory};
use alluvium_device::{AlignedBuffer, DeviceOperation, FileOptions};

/// Changes bytes of a store's file directly, bypassing its pool.
fn overwrite(directory: &dyn Directory, offset: u64, change: impl FnOnce(&mut AlignedBuffer)) {
    let file = directory.open("pages", FileOptions::DIRECT).unwrap();
    let mut bytes = file.read_at(offset, PAGE, Purpose::Other).unwrap();
    change(&mut bytes);
    file.write_at(offset, bytes, Purpose::Other).unwrap();
}

fn stored(identity: u128) -> MemoryDirectory {
    let directory = MemoryDirectory::new();
    let pool = PagePool::create(&directory, "pages", identity, options(8), validate()).unwrap();
    fill(&pool, 40);
    pool.checkpoint(&[]).unwrap();
    directory
}

#[test]
fn a_flipped_bit_in_a_page_is_damage_that_names_the_page() {
    let directory = stored(7);
    overwrite(&directory, 8192 + 5 * 512, |page| page[100] ^= 4);
    let (pool, _) = open(&directory, 8);
    let error = pool.pin_shared(5).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(
        error
            .to_string()
            .contains("damaged node in pages at offset 10752"),
        "{error}"
    );
    assert_eq!(
        pool.pin_shared(5).unwrap_err().kind(),
        ErrorKind::Damaged,
        "again"
    );
    assert_eq!(get(&pool.pin_shared(6).unwrap()), 6);
    assert_eq!(pool.check_pages().unwrap().len(), 1);
    assert_eq!(pool.pinned(), 0);
}

#[test]
fn a_valid_page_of_another_store_is_refused() {
    let (one, two) = (stored(7), stored(8));
    let file = two.open("pages", FileOptions::DIRECT).unwrap();
    let page = file.read_at(8192 + 3 * 512, PAGE, Purpose::Other).unwrap();
    overwrite(&one, 8192 + 3 * 512, |bytes| bytes.copy_from_slice(&page));
    let (pool, _) = open(&one, 8);
    let error = pool.pin_shared(3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    let (expected, found) = (
        format!("pages of store {:032x}", 7),
        format!("page 3 of store {:032x}", 8),
    );
    let error = error.to_string();
    assert!(error.contains(&expected) && error.contains(&found), "{error}");
}

#[test]
fn a_page_at_another_place_or_with_other_content_is_refused() {
    let directory = stored(7);
    let file = directory.open("pages", FileOptions::DIRECT).unwrap();
    let page = file.read_at(8192 + 3 * 512, PAGE, Purpose::Other).unwrap();
    overwrite(&directory, 8192 + 4 * 512, |bytes| bytes.copy_from_slice(&page));
    let (pool, _) = open(&directory, 8);
    assert_eq!(pool.pin_shared(4).unwrap_err().kind(), ErrorKind::Damaged);
    pool.pin_exclusive(6).unwrap()[0] = 9;
    pool.checkpoint(&[]).unwrap();
    (10..30).for_each(|page| drop(pool.pin_shared(page).unwrap()));
    let error = pool.pin_shared(6).unwrap_err();
    assert!(error.to_string().contains("a page of kind 9"), "{error}");
}

#[test]
fn damaged_superblocks_are_no_store() {
    let directory = stored(7);
    overwrite(&directory, 0, |bytes| bytes[30] ^= 1);
    overwrite(&directory, 4096, |bytes| bytes[30] ^= 1);
    let error = PagePool::open(&directory, "pages", options(8), validate()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAStore);
}

#[test]
fn a_file_that_was_cut_is_damaged() {
    let directory = stored(7);
    directory
        .open("pages", FileOptions::DIRECT)
        .unwrap()
        .truncate(8192 + 512)
        .unwrap();
    let error = PagePool::open(&directory, "pages", options(8), validate()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
}

#[test]
fn a_full_disk_changes_nothing_and_the_pool_goes_on() {
    let directory = SimDirectory::new(1);
    let pool = create(&directory, 8);
    fill(&pool, 64);
    pool.checkpoint(&[]).unwrap();
    directory.set_capacity(directory.used());
    let error = pool.allocate().map(|page| page.number()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert_eq!(pool.reserve(1).unwrap_err().kind(), ErrorKind::Full);
    // Overwriting pages of the checkpoint needs space in the journal, which cannot grow either.
    (0..8).for_each(|page| set(&mut pool.pin_exclusive(page).unwrap(), 70 + page));
    // Readers can still use the spare frames.
    assert_eq!(get(&pool.pin_shared(20).unwrap()), 20);
    assert_eq!(pool.checkpoint(&[]).unwrap_err().kind(), ErrorKind::Full);
    directory.set_capacity(1 << 40);
    pool.checkpoint(&[]).unwrap();
    let (pool, _) = open(&directory, 8);
    for page in 0..64 {
        assert_eq!(
            get(&pool.pin_shared(page).unwrap()),
            if page < 8 { page + 70 } else { page }
        );
    }
}

#[test]
fn after_a_failed_write_or_sync_changes_are_refused_until_the_file_is_opened() {
    for operation in [DeviceOperation::Write, DeviceOperation::Sync] {
        let directory = SimDirectory::new(1);
        let pool = create(&directory, 8);
        fill(&pool, 64);
        pool.checkpoint(b"good").unwrap();
        set(&mut pool.pin_exclusive(1).unwrap(), 99);
        directory.inject(InjectedFault::new(operation, InjectedFailure::Io));
        assert!(pool.checkpoint(b"bad").is_err());
        directory.clear_faults();
        assert_eq!(pool.checkpoint(b"bad").unwrap_err().kind(), ErrorKind::Poisoned);
        assert!(pool.allocate().is_err() && pool.reserve(1).is_err());
        assert_eq!(get(&pool.pin_shared(2).unwrap()), 2, "reads go on");
        let (pool, meta) = open(&directory.reopen(), 8);
        assert_eq!(meta, b"good");
        assert_eq!(get(&pool.pin_shared(1).unwrap()), 1, "after {operation}");
    }
}

#[test]
fn a_failed_read_is_an_error_and_the_next_read_tries_again() {
    let directory = SimDirectory::new(1);
    let pool = create(&directory, 8);
    fill(&pool, 64);
    // A read that fails only once is retried immediately.
    directory.inject(InjectedFault::new(DeviceOperation::Read, InjectedFailure::Io));
    assert_eq!(get(&pool.pin_shared(3).unwrap()), 3);
    directory.inject(InjectedFault::new(DeviceOperation::Read, InjectedFailure::Io).sticky());
    assert_eq!(pool.pin_shared(1).unwrap_err().kind(), ErrorKind::Device);
    directory.clear_faults();
    assert_eq!(get(&pool.pin_shared(1).unwrap()), 1);
    directory.inject(InjectedFault::new(
        DeviceOperation::Read,
        InjectedFailure::FlippedBits(3),
    ));
    assert_eq!(pool.pin_exclusive(2).unwrap_err().kind(), ErrorKind::Damaged);
    assert_eq!(get(&pool.pin_shared(2).unwrap()), 2);
    assert_eq!(pool.pinned(), 0);
}
