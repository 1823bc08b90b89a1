//! Tests that the space of free pages is released to the file system, and allocated again before
//! the pages are used. On a nearly full disk, a file grows as far as possible.

use super::*;
use alluvium_base::ErrorKind;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};

const LARGE: usize = 16 << 10;
const PAGES: u64 = 2000;

fn large() -> PoolOptions {
    PoolOptions {
        page_bytes: LARGE,
        memory_bytes: 32 * LARGE,
        ..options(32)
    }
}

fn create_large(directory: &dyn Directory) -> PagePool {
    PagePool::create_hosted(directory, "pages", 0xa11, large(), validate()).unwrap()
}

fn open_large(directory: &dyn Directory, root: &[u8]) -> PagePool {
    let opened = PagePool::open_hosted(directory, "pages", root, large(), validate(), FreeLists::Whole);
    opened.unwrap().0
}

#[test]
fn space_of_free_pages_goes_back_once_no_root_needs_it_and_is_asked_for_again() {
    let directory = SimDirectory::new(3);
    let pool = create_large(&directory);
    fill(&pool, PAGES);
    let full = pool.write_root(b"", LastRoot::Unknown).unwrap();
    let before = directory.used();
    (0..PAGES)
        .filter(|page| page % 10 != 0)
        .for_each(|page| pool.free(pool.pin_exclusive(page).unwrap()));
    assert!(pool.returnable_bytes() > before / 3);
    let few = pool.write_root(b"", LastRoot::Durable).unwrap();
    assert!(directory.used() > before / 10 * 9, "the root before needs it");
    let image = directory.image(CrashSurvival::Process, 1);
    let gone_back = open_large(&image, &full);
    assert_eq!(get(&gone_back.pin_shared(PAGES - 1).unwrap()), PAGES - 1);
    assert_eq!(gone_back.check_pages().unwrap(), [""; 0]);
    pool.write_root(b"", LastRoot::Durable).unwrap();
    assert_eq!(pool.returnable_bytes(), 0);
    let after = directory.used();
    assert!(after < before / 10 * 8, "{after} of {before} bytes");
    assert_eq!(pool.check_pages().unwrap(), [""; 0]);
    // A root whose pages have holes can be opened, and so can a root that is older than the holes.
    let image = directory.image(CrashSurvival::Process, 1);
    assert_eq!(open_large(&image, &few).free_pages().len(), 1800);
    // A full disk is noticed when pages are allocated, not later when they are written.
    pool.reserve_for(1, PAGES).unwrap();
    directory.set_capacity(directory.used());
    let mut taken = 0;
    let error = loop {
        match pool.allocate() {
            Ok(mut page) => {
                let number = page.number();
                set(&mut page, number);
                taken += 1;
            }
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert!((500..1800).contains(&taken), "{taken} pages had kept their space");
    assert!(pool.reserve(1).is_err() && pool.writable().is_ok());
    directory.set_capacity(u64::MAX);
    pool.reserve(500).unwrap();
    (taken..1800).for_each(|_| {
        let mut page = pool.allocate().unwrap();
        let number = page.number();
        set(&mut page, number);
    });
    let again = pool.write_root(b"", LastRoot::Durable).unwrap();
    drop(pool);
    let pool = open_large(&directory, &again);
    // Pages that were never used have space, and are allocated before pages whose space may have
    // been released.
    let (pages, free) = (pool.statistics().pages, pool.free_pages());
    assert_eq!(pages - free.len() as u64, PAGES);
    assert_eq!(pool.check_pages().unwrap(), [""; 0]);
    (0..pages)
        .filter(|page| !free.contains(page))
        .for_each(|page| assert_eq!(get(&pool.pin_shared(page).unwrap()), page));
}

#[test]
fn a_file_on_a_disk_that_is_nearly_full_grows_by_what_is_needed() {
    let directory = SimDirectory::new(4);
    let pool = create_large(&directory);
    fill(&pool, PAGES);
    pool.write_root(b"", LastRoot::Unknown).unwrap();
    let spare = || (pool.file_bytes() - 8192) / LARGE as u64 - pool.statistics().pages;
    fill(&pool, spare());
    let pages = pool.statistics().pages;
    directory.set_capacity(directory.used() + 100 * LARGE as u64);
    pool.reserve(60).unwrap();
    assert!(pool.reserve(101).is_err());
    fill(&pool, 60);
    assert_eq!(pool.statistics().pages, pages + 60);
    directory.set_capacity(u64::MAX);
    fill(&pool, 500);
    let root = pool.write_root(b"", LastRoot::Durable).unwrap();
    drop(pool);
    let pool = open_large(&directory, &root);
    (0..pages + 560).for_each(|page| assert_eq!(get(&pool.pin_shared(page).unwrap()), page));
    assert_eq!(pool.check_pages().unwrap(), [""; 0]);
}
