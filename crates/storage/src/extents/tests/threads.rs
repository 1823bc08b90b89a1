//! Tests with many concurrent threads: no extent may get two owners, and the bookkeeping must stay
//! consistent.

use super::*;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn threads_share_the_space_without_sharing_a_unit() {
    let options = ExtentOptions {
        max_bytes: Some(400 * UNIT),
        ..ExtentOptions::default()
    };
    let bed = bed(1, options);
    let (bed, done) = (&bed, &AtomicBool::new(false));
    // The number of the thread that owns each unit.
    let owners = &Mutex::new(vec![0u8; 4096]);
    let claim = |extent: Extent, from: u8, to: u8| {
        let mut owners = owners.lock();
        let units = &mut owners[extent.start as usize..extent.end() as usize];
        assert!(
            units.iter().all(|&owner| owner == from),
            "{extent} belong to {units:?}, not to {from}"
        );
        units.fill(to);
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..=4u8)
            .map(|number| {
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(number.into());
                    let mut live: Vec<Extent> = Vec::new();
                    for _ in 0..3000 {
                        if random.bool() {
                            let most = random.u32(1..20);
                            let near = live.last().copied();
                            if let Ok(extent) =
                                bed.extents
                                    .allocate_between(0, 1..=most, AllocationClass::Normal, near)
                            {
                                claim(extent, 0, number);
                                bed.extents.install(&[(extent, 1)]);
                                live.push(extent);
                            }
                        } else if !live.is_empty() {
                            let extent = live.swap_remove(random.usize(..live.len()));
                            // Once the next checkpoint is durable, any thread may allocate the
                            // extent.
                            claim(extent, number, 0);
                            bed.extents.release(extent, 0);
                        }
                    }
                    live
                })
            })
            .collect();
        scope.spawn(move || {
            let mut generation = 1;
            while !done.load(Ordering::Relaxed) {
                bed.checkpoint(generation);
                generation += 1;
                bed.extents
                    .reclaim(
                        1,
                        ReclaimLimit {
                            extents: 50,
                            operations: 2,
                        },
                    )
                    .unwrap();
            }
        });
        let live: Vec<Extent> = workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect();
        done.store(true, Ordering::Relaxed);
        assert_eq!(bed.extents.check(live.iter().map(|&extent| (extent, 1))), []);
    });
    let pointer = bed.checkpoint(1 << 40);
    assert_eq!(
        bed.extents.check_map(bed.directory.as_ref(), &pointer).unwrap(),
        []
    );
}
