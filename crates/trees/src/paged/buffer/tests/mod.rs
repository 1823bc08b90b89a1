//! Tests of the pool: comparison with a model, races, device failures and crashes.
//!
//! *Scope*: pages that each contain a number.
//!
//! *Must not depend on*: trees.

mod copies;
mod crashes;
mod damaged_journal;
mod faults;
mod hosted;
mod races;
mod shards;
mod space;
#[cfg(feature = "couplings")]
mod ways;

use super::*;
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_storage::Error;
use std::sync::Arc;
use std::time::Duration;

/// Size of a page in these tests.
const PAGE: usize = 512;
/// Writes the content of a page that is in use: the byte 1, followed by a number of 8 bytes.
fn set(page: &mut [u8], value: u64) {
    page[0] = 1;
    page[1..9].copy_from_slice(&value.to_le_bytes());
}

fn get(page: &[u8]) -> u64 {
    assert_eq!(page[0], 1, "a page in use");
    u64::from_le_bytes(page[1..9].try_into().unwrap())
}

fn options(frames: usize) -> PoolOptions {
    PoolOptions {
        page_bytes: PAGE,
        memory_bytes: frames * PAGE,
        policy: QueuePolicy::Fifo,
        longest_wait: Duration::from_millis(100),
        #[cfg(feature = "couplings")]
        pins: PinPolicy::Optimistic,
        shards: 1,
    }
}

fn validate() -> Arc<PageValidator> {
    Arc::new(|content: &[u8]| match content[0] {
        1 | 255 => Ok(()),
        other => Err(format!("a page of kind {other}")),
    })
}

fn create(directory: &dyn Directory, frames: usize) -> PagePool {
    PagePool::create(directory, "pages", 0xa11, options(frames), validate()).unwrap()
}

fn open(directory: &dyn Directory, frames: usize) -> (PagePool, Vec<u8>) {
    PagePool::open(directory, "pages", options(frames), validate()).unwrap()
}

/// Allocates pages, and sets each page's value to its page number.
fn fill(pool: &PagePool, pages: u64) {
    for _ in 0..pages {
        let mut page = pool.allocate().unwrap();
        let number = page.number();
        set(&mut page, number);
    }
}

#[test]
fn pages_beyond_memory_are_written_and_read_again() {
    let directory = MemoryDirectory::new();
    let pool = create(&directory, 8);
    fill(&pool, 500);
    for number in (0..500).rev() {
        assert_eq!(get(&pool.pin_shared(number).unwrap()), number);
    }
    let counted = pool.statistics();
    assert!(counted.writes >= 492 && counted.reads >= 492, "{counted:?}");
    assert_eq!(
        (counted.pages, counted.images),
        (500, 0),
        "pages are new since the checkpoint"
    );
    assert_eq!(pool.pinned(), 0);
}

#[test]
fn a_checkpoint_is_opened_with_what_was_kept_and_its_free_lists() {
    let directory = MemoryDirectory::new();
    let pool = create(&directory, 16);
    fill(&pool, 200);
    for number in [3, 90, 91, 4, 199] {
        pool.free(pool.pin_exclusive(number).unwrap());
    }
    pool.checkpoint(b"root 7").unwrap();
    // These changes are not part of the checkpoint.
    set(&mut pool.pin_exclusive(5).unwrap(), 1 << 40);
    fill(&pool, 300);
    drop(pool);
    let (pool, meta) = open(&directory, 16);
    assert_eq!(meta, b"root 7");
    assert_eq!(pool.free_pages(), [3, 4, 90, 91, 199]);
    for number in (0..200).filter(|number| ![3, 90, 91, 4, 199].contains(number)) {
        assert_eq!(get(&pool.pin_shared(number).unwrap()), number);
    }
    assert!(pool.pin_shared(200).is_err(), "a page that was never in use");
    assert_eq!(pool.check_pages().unwrap(), [""; 0]);
    let again: Vec<u64> = (0..6).map(|_| pool.allocate().unwrap().number()).collect();
    assert_eq!(again, [4, 3, 91, 90, 199, 200]);
}

#[test]
fn when_all_frames_are_pinned_the_wait_ends_with_an_error() {
    let directory = MemoryDirectory::new();
    let pool = create(&directory, 8);
    fill(&pool, 20);
    let held: Vec<_> = (0..8).map(|number| pool.pin_shared(number).unwrap()).collect();
    assert_eq!(pool.pinned(), 8);
    let error = pool.pin_shared(9).unwrap_err().to_string();
    assert!(
        error.contains("all 8 frames of the page buffer are pinned"),
        "{error}"
    );
    assert_eq!(get(&pool.pin_shared(3).unwrap()), 3, "hits need no frame");
    let result = pool.allocate().map(|page| page.number());
    assert!(result.unwrap_err().to_string().contains("are pinned"));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| pool.pin_shared(9).map(|page| get(&page)));
        drop(held);
        assert_eq!(waiting.join().unwrap().unwrap(), 9, "it waited");
    });
    // The page number that was allocated without a frame has not been lost.
    pool.checkpoint(&[]).unwrap();
    assert_eq!(pool.free_pages(), [20]);
    let (pool, _) = open(&directory, 8);
    assert_eq!(pool.free_pages(), [20]);
}

#[test]
fn a_scan_does_not_evict_pages_that_were_touched_twice() {
    let directory = MemoryDirectory::new();
    let pool = create(&directory, 16);
    fill(&pool, 200);
    for _ in 0..2 {
        (0..8).for_each(|number| drop(pool.pin_shared(number).unwrap()));
    }
    (20..180).for_each(|number| drop(pool.pin_shared(number).unwrap()));
    let before = pool.statistics().reads;
    (0..8).for_each(|number| drop(pool.pin_shared(number).unwrap()));
    assert_eq!(pool.statistics().reads, before, "all of them are in memory");
}

#[test]
fn the_file_grows_by_segments() {
    let directory = alluvium_device::simulated::SimDirectory::new(1);
    let pool = create(&directory, 8);
    let growths = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = Arc::clone(&growths);
    directory.on_operation(move |point| {
        if point.operation == alluvium_device::DeviceOperation::Grow && point.file == "pages" {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    });
    fill(&pool, 3000);
    // 64 × (1.25^k − 1) / 0.25 ≥ 3000 from k = 11.4 onwards.
    assert_eq!(growths.load(std::sync::atomic::Ordering::Relaxed), 12);
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let directory = MemoryDirectory::new();
    let wrong = |options| PagePool::create(&directory, "pages", 1, options, validate()).map(drop);
    for page_bytes in [0, 256, 1000, 128 << 10] {
        let refused = wrong(PoolOptions {
            page_bytes,
            ..options(8)
        });
        assert!(matches!(
            refused,
            Err(Error::BadOption {
                option: "page_bytes",
                ..
            })
        ));
    }
    let refused = wrong(options(7));
    assert!(matches!(
        refused,
        Err(Error::BadOption {
            option: "memory_bytes",
            ..
        })
    ));
}

#[test]
fn a_page_that_is_allocated_again_is_empty() {
    let directory = MemoryDirectory::new();
    let pool = create(&directory, 8);
    fill(&pool, 40);
    for others in [0, 20] {
        pool.free(pool.pin_exclusive(7).unwrap());
        // Allocate the page again, either while it is still in its frame or after its eviction.
        (10..10 + others).for_each(|page| drop(pool.pin_shared(page).unwrap()));
        let mut page = pool.allocate().unwrap();
        assert!(page.number() == 7 && page.iter().all(|byte| *byte == 0));
        set(&mut page, 7);
    }
}

#[test]
fn threads_that_allocate_and_free_never_get_the_same_page() {
    let directory = MemoryDirectory::new();
    let pool = create(&directory, 64);
    std::thread::scope(|scope| {
        for seed in 0..8u64 {
            let pool = &pool;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed);
                let mut mine: Vec<u64> = Vec::new();
                for _ in 0..1500 {
                    if mine.len() > 40 || (!mine.is_empty() && rng.bool()) {
                        let number = mine.swap_remove(rng.usize(..mine.len()));
                        let page = pool.pin_exclusive(number).unwrap();
                        assert_eq!(get(&page), seed, "page {number} has one owner");
                        pool.free(page);
                    } else {
                        let mut page = pool.allocate().unwrap();
                        set(&mut page, seed);
                        mine.push(page.number());
                    }
                }
            });
        }
    });
    pool.checkpoint(&[]).unwrap();
    let (again, _) = open(&directory, 64);
    assert_eq!(again.free_pages(), pool.free_pages());
}
