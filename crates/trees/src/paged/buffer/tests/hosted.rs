//! Tests of hosted pages whose roots may or may not become durable. The pages must open in the
//! state of every root that may be the durable one.

use super::*;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A root, and the values of all its pages.
type Stood = (Vec<u8>, Vec<Option<u64>>);

fn create_hosted(directory: &dyn Directory, frames: usize) -> PagePool {
    PagePool::create_hosted(directory, "pages", 0xa11, options(frames), validate()).unwrap()
}

fn open_hosted(directory: &dyn Directory, root: &[u8]) -> Result<(PagePool, Vec<u8>)> {
    PagePool::open_hosted(directory, "pages", root, options(8), validate(), FreeLists::Whole)
}

fn contents(directory: &dyn Directory, root: &[u8]) -> Vec<Option<u64>> {
    let (pool, meta) = open_hosted(directory, root).unwrap();
    let pages = pool.statistics().pages;
    assert_eq!(meta, pages.to_le_bytes(), "the owner's bytes belong to the pages");
    assert_eq!(pool.check_pages().unwrap(), [""; 0]);
    assert_eq!(pool.journal_bytes(), 0, "what was kept is not needed any more");
    let free = pool.free_pages();
    let value = |page: u64| (!free.contains(&page)).then(|| get(&pool.pin_shared(page).unwrap()));
    (0..pages).map(value).collect()
}

fn change(pool: &PagePool, now: &mut Vec<Option<u64>>, rng: &mut fastrand::Rng) {
    for _ in 0..rng.usize(1..40) {
        let page = rng.usize(..now.len().max(1));
        match rng.u8(..4) {
            0 => {
                let mut page = pool.allocate().unwrap();
                let (number, value) = (page.number() as usize, rng.u64(..));
                set(&mut page, value);
                now.resize(now.len().max(number + 1), None);
                now[number] = Some(value);
            }
            1 if now.get(page).is_some_and(Option::is_some) && rng.bool() => {
                pool.free(pool.pin_exclusive(page as u64).unwrap());
                now[page] = None;
            }
            _ if now.get(page).is_some_and(Option::is_some) => {
                let value = rng.u64(..);
                set(&mut pool.pin_exclusive(page as u64).unwrap(), value);
                now[page] = Some(value);
            }
            _ => {}
        }
    }
}

fn stand(pool: &PagePool, now: &[Option<u64>], last: LastRoot) -> Stood {
    let root = pool.write_root(&(now.len() as u64).to_le_bytes(), last).unwrap();
    (root, now.to_vec())
}

/// Checks before every device operation that each root that may be durable can be opened.
/// Repeatedly, the process dies, one of these roots becomes the durable one, and the test continues
/// from it.
fn story(seed: u64, rounds: usize) -> u64 {
    let mut rng = fastrand::Rng::with_seed(seed);
    let directory = SimDirectory::new(seed);
    let mut pool = create_hosted(&directory, 8);
    let mut now = Vec::new();
    let candidates: Arc<Mutex<Vec<Stood>>> = Arc::default();
    candidates
        .lock()
        .unwrap()
        .push(stand(&pool, &now, LastRoot::Unknown));
    let points = Arc::new(AtomicU64::new(0));
    let (checked, counted) = (Arc::clone(&candidates), Arc::clone(&points));
    directory.on_operation(move |point| {
        for (number, (root, expected)) in checked.lock().unwrap().iter().enumerate() {
            let survival = CrashSurvival::ALL[(point.index as usize + number) % CrashSurvival::ALL.len()];
            let image = point.image(survival, seed ^ point.index);
            assert_eq!(
                &contents(&image, root),
                expected,
                "seed {seed}, root {number}, before {point:?}, {survival:?}"
            );
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut is_durable = true;
    for round in 0..rounds {
        change(&pool, &mut now, &mut rng);
        let last = match is_durable {
            true => LastRoot::Durable,
            false => LastRoot::Unknown,
        };
        let stood = stand(&pool, &now, last);
        candidates.lock().unwrap().push(stood);
        is_durable = rng.u8(..3) > 0;
        if is_durable {
            let mut candidates = candidates.lock().unwrap();
            let older = candidates.len() - 1;
            candidates.drain(..older);
        }
        if round % 5 == 4 {
            // The changes since the last root are lost, and possibly the most recent roots as well.
            change(&pool, &mut now, &mut rng);
            drop(pool);
            let at = rng.usize(..candidates.lock().unwrap().len());
            let durable = candidates.lock().unwrap()[at].clone();
            *candidates.lock().unwrap() = vec![durable.clone()];
            pool = open_hosted(&directory, &durable.0).unwrap().0;
            now = durable.1;
            is_durable = true;
        }
    }
    points.load(Ordering::Relaxed)
}

#[test]
fn every_root_that_may_be_durable_opens_as_it_was_whenever_the_power_fails() {
    let points: u64 = (1..=6).map(|seed| story(seed, 15)).sum();
    assert!(points > 1500, "{points} points");
}

#[test]
fn the_journal_shrinks_and_roots_that_are_gone_are_refused() {
    let directory = MemoryDirectory::new();
    let pool = create_hosted(&directory, 64);
    fill(&pool, 500);
    let meta = 500u64.to_le_bytes();
    let first = pool.write_root(&meta, LastRoot::Unknown).unwrap();
    let mut longest = 0;
    for round in 0..6 {
        for page in 0..500 {
            set(&mut pool.pin_exclusive(page).unwrap(), round);
        }
        pool.write_root(&meta, LastRoot::Durable).unwrap();
        longest = longest.max(pool.journal_bytes());
    }
    let record = PAGE as u64 + 512;
    assert!(longest > 500 * record, "{longest} bytes");
    for _ in 0..2 {
        set(&mut pool.pin_exclusive(3).unwrap(), 9);
        pool.write_root(&meta, LastRoot::Durable).unwrap();
    }
    assert!(
        pool.journal_bytes() <= 2 * 65 * record,
        "{}",
        pool.journal_bytes()
    );
    drop(pool);
    let error = open_hosted(&directory, &first).unwrap_err().to_string();
    assert!(error.contains("the store names checkpoint 1"), "{error}");
    let other = MemoryDirectory::new();
    let root = PagePool::create_hosted(&other, "pages", 0xb0b, options(8), validate()).unwrap();
    let root = root.write_root(&meta, LastRoot::Unknown).unwrap();
    let error = open_hosted(&directory, &root).unwrap_err().to_string();
    assert!(
        error.contains(&format!("page 0 of store {:032x}", 0xa11)),
        "{error}"
    );
    assert!(open_hosted(&directory, &root[1..]).is_err());
}

#[test]
fn a_full_disk_is_met_before_pages_are_changed() {
    let directory = SimDirectory::new(5);
    let pool = create_hosted(&directory, 16);
    fill(&pool, 200);
    let root = pool.write_root(&200u64.to_le_bytes(), LastRoot::Unknown).unwrap();
    pool.reserve_all(10).unwrap();
    directory.inject(
        alluvium_device::simulated::InjectedFault::full(alluvium_device::DeviceOperation::Grow).sticky(),
    );
    assert!(pool.reserve_all(100_000).is_err());
    // The reservation is large enough for every page in memory, including the spare frames.
    for page in 0..150 {
        set(&mut pool.pin_exclusive(page).unwrap(), 7);
    }
    assert!(pool.writable().is_ok());
    drop(pool);
    let (pool, _) = open_hosted(&directory, &root).unwrap();
    assert_eq!(get(&pool.pin_shared(5).unwrap()), 5);
}
