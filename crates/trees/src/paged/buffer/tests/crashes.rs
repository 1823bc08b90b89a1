//! Tests that a crash at any point leaves either the last checkpoint or the one that was being
//! written.

use super::*;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The values that all pages should have at the last two checkpoints, by page number. A free page
/// has no value.
#[derive(Default)]
struct Expected {
    last: Vec<Option<u64>>,
    next: Option<Vec<Option<u64>>>,
}

/// Opens a crash image and returns the values of its pages.
fn contents(image: &SimDirectory) -> Vec<Option<u64>> {
    let (pool, meta) = open(image, 8);
    let pages = pool.statistics().pages;
    assert_eq!(meta, pages.to_le_bytes(), "the owner's bytes belong to the pages");
    assert_eq!(pool.check_pages().unwrap(), [""; 0]);
    let free = pool.free_pages();
    let value = |page: u64| (!free.contains(&page)).then(|| get(&pool.pin_shared(page).unwrap()));
    (0..pages).map(value).collect()
}

fn story(seed: u64, rounds: usize) -> u64 {
    let directory = SimDirectory::new(seed);
    let pool = create(&directory, 8);
    pool.checkpoint(&0u64.to_le_bytes()).unwrap();
    let expected: Arc<Mutex<Expected>> = Arc::default();
    let points = Arc::new(AtomicU64::new(0));
    let (checked, counted) = (Arc::clone(&expected), Arc::clone(&points));
    directory.on_operation(move |point| {
        let survival = CrashSurvival::ALL[point.index as usize % CrashSurvival::ALL.len()];
        let found = contents(&point.image(survival, seed ^ point.index));
        let expected = checked.lock().unwrap();
        let is_expected = found == expected.last || Some(&found) == expected.next.as_ref();
        assert!(is_expected, "seed {seed}, before {point:?}, {survival:?}");
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut now: Vec<Option<u64>> = Vec::new();
    for round in 0..rounds {
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
        expected.lock().unwrap().next = Some(now.clone());
        pool.checkpoint(&(now.len() as u64).to_le_bytes()).unwrap();
        *expected.lock().unwrap() = Expected {
            last: now.clone(),
            next: None,
        };
        assert!(
            round + 1 < rounds || pool.statistics().images > 0,
            "pages were written over"
        );
    }
    directory.clear_hook();
    points.load(Ordering::Relaxed)
}

#[test]
fn a_crash_at_every_moment_leaves_a_checkpoint() {
    let points: u64 = (0..12).map(|seed| story(seed, 20)).sum();
    assert!(points > 2000, "{points}");
}

#[test]
fn a_crash_during_recovery_or_after_it_loses_nothing() {
    let directory = SimDirectory::new(9);
    let pool = create(&directory, 8);
    fill(&pool, 60);
    pool.checkpoint(&60u64.to_le_bytes()).unwrap();
    (0..60).for_each(|page| set(&mut pool.pin_exclusive(page).unwrap(), 500));
    let expected: Vec<Option<u64>> = (0..60).map(Some).collect();
    let mut operations = 0;
    for life in 0..400u64 {
        // In each iteration, crash a second time at a different operation, during or after the
        // recovery from the first crash.
        let crashed = directory.image(CrashSurvival::Process, 1);
        let (points, image) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(None)));
        let (counted, kept) = (Arc::clone(&points), Arc::clone(&image));
        crashed.on_operation(move |point| {
            if counted.fetch_add(1, Ordering::Relaxed) == life / 4 {
                let survival = CrashSurvival::ALL[1 + life as usize % 4];
                *kept.lock().unwrap() = Some(point.image(survival, life));
            }
        });
        let (pool, _) = open(&crashed, 8);
        (20..50).for_each(|page| set(&mut pool.pin_exclusive(page).unwrap(), 600 + life));
        (0..20).for_each(|page| drop(pool.pin_shared(page).unwrap()));
        drop(pool);
        crashed.clear_hook();
        operations = points.load(Ordering::Relaxed);
        let image = image.lock().unwrap().take();
        let image = image.unwrap_or_else(|| crashed.image(CrashSurvival::Random, life));
        assert_eq!(contents(&image), expected, "life {life}");
    }
    assert!(
        operations > 80,
        "{operations}: what follows the recovery was crashed, too"
    );
}

#[test]
fn a_crash_while_a_long_journal_shrinks_leaves_a_checkpoint() {
    const PAGES: u64 = 150;
    let directory = SimDirectory::new(21);
    let pool = create(&directory, 8);
    fill(&pool, PAGES);
    pool.checkpoint(&PAGES.to_le_bytes()).unwrap();
    (0..PAGES).for_each(|page| set(&mut pool.pin_exclusive(page).unwrap(), 500 + page));
    // Enough images were written that the file can shrink once they are no longer needed.
    assert!(pool.statistics().images > 100);
    let (old, new): (Vec<_>, Vec<_>) = (0..PAGES).map(|page| (Some(page), Some(500 + page))).unzip();
    let points = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&points);
    directory.on_operation(move |point| {
        for survival in CrashSurvival::ALL {
            let found = contents(&point.image(survival, point.index));
            assert!(found == old || found == new, "before {point:?}, {survival:?}");
        }
        counted.fetch_add(1, Ordering::Relaxed);
    });
    pool.checkpoint(&PAGES.to_le_bytes()).unwrap();
    directory.clear_hook();
    assert!(points.load(Ordering::Relaxed) > 4);
}

#[test]
fn a_superblock_of_several_sectors_that_is_torn_leaves_the_one_before() {
    let directory = SimDirectory::new(22);
    let pool = create(&directory, 8);
    let meta = |number: u8| vec![number; 1000];
    pool.checkpoint(&meta(0)).unwrap();
    let made = Arc::new(AtomicU64::new(0));
    let now = Arc::clone(&made);
    directory.on_operation(move |point| {
        let last = now.load(Ordering::Relaxed) as u8;
        for survival in CrashSurvival::ALL {
            for seed in 0..6 {
                let (_, found) = open(&point.image(survival, seed), 8);
                let is_known = found == meta(last) || found == meta(last + 1);
                assert!(is_known, "after {last}, before {point:?}, {survival:?}");
            }
        }
    });
    for number in 1..20 {
        pool.checkpoint(&meta(number)).unwrap();
        made.store(u64::from(number), Ordering::Relaxed);
    }
}
