//! Tests of copies made while pages are being overwritten, of roots written while other threads
//! hold page latches, and of readers after a failed write.

use super::*;
use crate::paged::error::too_many_pages;
use alluvium_device::DeviceOperation;
use alluvium_device::simulated::{InjectedFault, SimDirectory};
use std::sync::atomic::{AtomicBool, Ordering};

const PAGES: u64 = 200;

fn hosted(directory: &dyn Directory, frames: usize) -> PagePool {
    let pool = PagePool::create_hosted(directory, "pages", 0xa11, options(frames), validate()).unwrap();
    fill(&pool, PAGES);
    pool
}

fn set_all(pool: &PagePool, value: u64) {
    for page in 0..PAGES {
        set(&mut pool.pin_exclusive(page).unwrap(), value + page);
    }
}

fn require_all(directory: &dyn Directory, root: &[u8], value: u64) {
    let (pool, _) = PagePool::open_hosted(
        directory,
        "pages",
        root,
        options(16),
        validate(),
        FreeLists::Whole,
    )
    .unwrap();
    for page in 0..PAGES {
        assert_eq!(get(&pool.pin_shared(page).unwrap()), value + page, "page {page}");
    }
    assert_eq!(pool.check_pages().unwrap(), [""; 0]);
}

fn copy(pool: &PagePool, root: &[u8], into: &dyn Directory) -> Result<()> {
    pool.copy_hosted(root, into, &mut |_| Ok(()))
}

#[test]
fn a_copy_has_the_root_that_was_held_whatever_was_written_since() {
    for frames in [16, 64, 512] {
        let directory = MemoryDirectory::new();
        let pool = hosted(&directory, frames);
        set_all(&pool, 1000);
        let first = pool.write_root(b"", LastRoot::Unknown).unwrap();
        set_all(&pool, 2000);
        let second = pool.write_root(b"", LastRoot::Durable).unwrap();
        pool.hold();
        // Each root becomes durable before the next one is written, so without the call of `hold`
        // the images of older roots would be dropped.
        for round in 3..8 {
            set_all(&pool, 1000 * round);
            pool.write_root(b"", LastRoot::Durable).unwrap();
        }
        set_all(&pool, 9000);
        pool.write_dirty().unwrap();
        for (root, value) in [(&first, 1000), (&second, 2000)] {
            let target = MemoryDirectory::new();
            copy(&pool, root, &target).unwrap();
            require_all(&target, root, value);
            assert_eq!(pool.pinned(), 0);
        }
        let last = pool.write_root(b"", LastRoot::Durable).unwrap();
        let held_bytes = pool.journal_bytes();
        pool.release();
        for _ in 0..3 {
            pool.write_root(b"", LastRoot::Durable).unwrap();
        }
        assert!(pool.journal_bytes() < held_bytes / 4, "{held_bytes} bytes before");
        drop(pool);
        let refused = PagePool::open_hosted(
            &directory,
            "pages",
            &first,
            options(16),
            validate(),
            FreeLists::Whole,
        );
        assert!(refused.is_err(), "what was held is forgotten");
        let refused = PagePool::open_hosted(
            &directory,
            "pages",
            &last,
            options(16),
            validate(),
            FreeLists::Whole,
        );
        assert!(refused.is_err(), "{refused:?}");
    }
}

#[test]
fn a_copy_is_made_while_another_thread_writes() {
    let directory = MemoryDirectory::new();
    let pool = hosted(&directory, 24);
    set_all(&pool, 1000);
    let root = pool.write_root(b"", LastRoot::Unknown).unwrap();
    pool.hold();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 2;
            while !is_over.load(Ordering::Acquire) {
                set_all(&pool, 1000 * round);
                pool.write_root(b"", LastRoot::Durable).unwrap();
                round += 1;
            }
        });
        for _ in 0..6 {
            let target = MemoryDirectory::new();
            copy(&pool, &root, &target).unwrap();
            require_all(&target, &root, 1000);
        }
        is_over.store(true, Ordering::Release);
    });
    pool.release();
}

#[test]
fn a_copy_that_fails_or_is_ended_says_so_and_other_roots_are_refused() {
    let directory = MemoryDirectory::new();
    let pool = hosted(&directory, 64);
    let root = pool.write_root(b"", LastRoot::Unknown).unwrap();
    pool.hold();
    let ended = pool.copy_hosted(&root, &MemoryDirectory::new(), &mut |_| Err(too_many_pages(1)));
    assert!(
        ended
            .unwrap_err()
            .to_string()
            .contains("its maximum size of 1 pages")
    );
    for operation in [
        DeviceOperation::Create,
        DeviceOperation::Grow,
        DeviceOperation::Write,
        DeviceOperation::Sync,
    ] {
        let target = SimDirectory::new(3);
        target.inject(InjectedFault::failing(operation));
        assert!(copy(&pool, &root, &target).is_err(), "{operation}");
    }
    let other =
        PagePool::create_hosted(&MemoryDirectory::new(), "pages", 0xb0b, options(8), validate()).unwrap();
    let foreign = other.write_root(b"", LastRoot::Unknown).unwrap();
    assert!(copy(&pool, &foreign, &MemoryDirectory::new()).is_err());
    assert!(copy(&pool, &root[1..], &MemoryDirectory::new()).is_err());
    let used = MemoryDirectory::new();
    copy(&pool, &root, &used).unwrap();
    assert!(copy(&pool, &root, &used).is_err(), "files are there");
    pool.release();
}

#[test]
fn a_page_that_another_thread_has_latched_is_waited_for_before_a_root_is_handed_out() {
    for round in 0..20u64 {
        let directory = MemoryDirectory::new();
        let pool = hosted(&directory, 512);
        set_all(&pool, 1000);
        let page = round * 7 % PAGES;
        let latched = pool.pin_exclusive(page).unwrap();
        let root = std::thread::scope(|scope| {
            let standing = scope.spawn(|| pool.write_root(b"", LastRoot::Unknown).unwrap());
            // The thread must still be waiting after everything else has been written. The bound on
            // the loop matters only if the test fails.
            let mut looks = 0;
            while !standing.is_finished() && looks < 2000 {
                looks += 1;
                std::thread::yield_now();
            }
            assert!(!standing.is_finished(), "page {page} was left dirty");
            drop(latched);
            standing.join().unwrap()
        });
        drop(pool);
        require_all(&directory, &root, 1000);
    }
}

#[test]
fn after_a_failed_write_readers_go_on_and_what_was_changed_stays() {
    for operation in [DeviceOperation::Write, DeviceOperation::Sync] {
        let directory = SimDirectory::new(4);
        let pool = hosted(&directory, 16);
        set_all(&pool, 1000);
        pool.write_root(b"", LastRoot::Unknown).unwrap();
        directory.inject(InjectedFault::failing(operation).sticky());
        // Change somewhat more pages than fit into memory.
        for page in 0..40 {
            set(&mut pool.pin_exclusive(page).unwrap(), 5000 + page);
        }
        assert!(pool.writable().is_err(), "{operation}");
        assert!(pool.write_root(b"", LastRoot::Unknown).is_err());
        for _ in 0..2 {
            for page in 0..PAGES {
                let expected = if page < 40 { 5000 } else { 1000 };
                assert_eq!(
                    get(&pool.pin_shared(page).unwrap()),
                    expected + page,
                    "{operation}"
                );
            }
        }
        assert_eq!(pool.pinned(), 0);
    }
}

#[test]
fn a_read_that_fails_once_is_made_again() {
    let directory = SimDirectory::new(6);
    let pool = hosted(&directory, 16);
    let root = pool.write_root(b"", LastRoot::Unknown).unwrap();
    drop(pool);
    let (pool, _) = PagePool::open_hosted(
        &directory,
        "pages",
        &root,
        options(16),
        validate(),
        FreeLists::Whole,
    )
    .unwrap();
    directory.inject(InjectedFault::failing(DeviceOperation::Read));
    assert_eq!(get(&pool.pin_shared(9).unwrap()), 9);
    directory.inject(InjectedFault::failing(DeviceOperation::Read).sticky());
    assert!(matches!(pool.pin_shared(10), Err(Error::Device(_))));
}
