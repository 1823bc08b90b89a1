//! Tests of pages in several shards.

use super::*;

fn with(directory: &dyn Directory, frames: usize, shards: usize) -> PagePool {
    let options = PoolOptions {
        shards,
        ..options(frames)
    };
    PagePool::create(directory, "pages", 0xa11, options, validate()).unwrap()
}

#[test]
fn pages_of_each_shard_are_kept_written_and_found_again() {
    let directory = MemoryDirectory::new();
    let pool = with(&directory, 48, 3);
    fill(&pool, 400);
    for page in [7, 8, 9, 399] {
        pool.free(pool.pin_exclusive(page).unwrap());
    }
    pool.checkpoint(b"three").unwrap();
    set(&mut pool.pin_exclusive(5).unwrap(), 1 << 40);
    fill(&pool, 100);
    drop(pool);
    // The number of shards is not stored, so it may change between openings.
    let options = PoolOptions {
        shards: 2,
        ..options(48)
    };
    let (pool, meta) = PagePool::open(&directory, "pages", options, validate()).unwrap();
    assert_eq!(
        (&meta[..], pool.free_pages()),
        (&b"three"[..], vec![7, 8, 9, 399])
    );
    for page in (0..400).filter(|page| ![7, 8, 9, 399].contains(page)) {
        assert_eq!(get(&pool.pin_shared(page).unwrap()), page);
    }
    let refused = with_shards_of_too_few();
    assert!(matches!(
        refused,
        Err(Error::BadOption {
            option: "memory_bytes",
            ..
        })
    ));
}

fn with_shards_of_too_few() -> Result<PagePool> {
    let options = PoolOptions {
        shards: 5,
        ..options(32)
    };
    PagePool::create(&MemoryDirectory::new(), "pages", 1, options, validate())
}

#[test]
fn a_shard_whose_frames_are_pinned_keeps_no_other_from_going_on() {
    let pool = with(&MemoryDirectory::new(), 16, 2);
    fill(&pool, 64);
    let held: Vec<_> = (0..8).map(|at| pool.pin_shared(2 * at).unwrap()).collect();
    let error = pool.pin_shared(40).unwrap_err().to_string();
    assert!(
        error.contains("all 8 frames of the page buffer are pinned"),
        "{error}"
    );
    for page in (1..64).step_by(2) {
        assert_eq!(get(&pool.pin_shared(page).unwrap()), page);
    }
    drop(held);
    assert_eq!(get(&pool.pin_shared(40).unwrap()), 40);
}
