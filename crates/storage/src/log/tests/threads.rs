//! Tests with many concurrent threads.

use super::super::commit::GroupCommit;
use super::super::*;
use super::{memory, reopen, small};
use crate::watermark::WINDOW;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn what_many_threads_append_is_replayed_in_order() {
    const THREADS: u64 = 4;
    const EACH: u64 = 3_000;
    for access in [SegmentAccess::Mapped, SegmentAccess::Written] {
        let directory = memory();
        let options = LogOptions {
            access,
            lanes: 3,
            ..LogOptions::with_limit(32 << 20)
        };
        let log = WriteAheadLog::create(&directory, options, 1).unwrap();
        let next = AtomicU64::new(1);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let _ = log.prepare().unwrap();
                    std::thread::yield_now();
                }
            });
            let writers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (log, next) = (&log, &next);
                    scope.spawn(move || {
                        let mut rng = fastrand::Rng::with_seed(thread);
                        for turn in 0..EACH {
                            let count = rng.u32(1..4);
                            let first = next.fetch_add(u64::from(count), Ordering::Relaxed);
                            let payload = vec![first as u8; rng.usize(..300)];
                            let durability = match turn % 50 {
                                0 => LogDurability::Disk,
                                1..10 => LogDurability::Memory,
                                _ => LogDurability::Process,
                            };
                            log.append(first, count, &payload, durability).unwrap();
                            if durability == LogDurability::Disk {
                                assert!(log.synced() >= first + u64::from(count) - 1);
                            }
                        }
                    })
                })
                .collect();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            done.store(true, Ordering::Relaxed);
        });
        let last = next.load(Ordering::Relaxed) - 1;
        assert_eq!(log.completed(), last);
        assert_eq!(log.check().unwrap(), []);
        log.close().unwrap();
        let (log, seen) = reopen(&directory, options, 0, 1).unwrap();
        let mut expected = 1;
        for (first, count, payload) in &seen {
            assert_eq!(*first, expected);
            assert!(payload.iter().all(|&byte| byte == *first as u8));
            expected += u64::from(*count);
        }
        assert_eq!(expected, last + 1);
        assert_eq!(log.completed(), last);
    }
}

#[test]
fn appends_go_on_while_checkpoints_release_and_slots_are_recycled() {
    let directory = memory();
    let log = WriteAheadLog::create(&directory, small(), 1).unwrap();
    let next = AtomicU64::new(1);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut generation = 1;
            while !done.load(Ordering::Relaxed) {
                generation += 1;
                log.note_generation(generation).unwrap();
                log.release(log.completed()).unwrap();
                while log.prepare().unwrap() == PrepareProgress::Worked {}
                std::thread::yield_now();
            }
        });
        let writers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..4_000 {
                        let sequence = next.fetch_add(1, Ordering::Relaxed);
                        while let Err(error) =
                            log.append(sequence, 1, &[sequence as u8; 100], LogDurability::Process)
                        {
                            assert!(error.is_full(), "{error}");
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(log.completed(), 12_000);
    assert_eq!(log.check().unwrap(), []);
}

#[test]
fn sixteen_committers_share_their_syncs() {
    const COMMITTERS: u64 = 16;
    const EACH: u64 = 60;
    let (commit, next, completed) = (GroupCommit::new(0), AtomicU64::new(1), AtomicU64::new(0));
    let syncs = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..COMMITTERS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let sequence = next.fetch_add(1, Ordering::SeqCst);
                    while completed
                        .compare_exchange(sequence - 1, sequence, Ordering::SeqCst, Ordering::SeqCst)
                        .is_err()
                    {
                        std::thread::yield_now();
                    }
                    commit.completed_moved();
                    let sync = |_| {
                        syncs.fetch_add(1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(1));
                        Ok(())
                    };
                    commit
                        .wait(sequence, || completed.load(Ordering::SeqCst), sync)
                        .unwrap();
                    assert!(commit.synced() >= sequence);
                }
            });
        }
    });
    let (commits, syncs) = (COMMITTERS * EACH, syncs.load(Ordering::SeqCst));
    assert!(syncs * 8 <= commits, "{syncs} syncs for {commits} commits");
    assert_eq!(commit.rounds(), syncs);
}

#[test]
fn a_failed_sync_fails_everybody_who_waits_for_it() {
    let (commit, begun) = (GroupCommit::new(0), AtomicBool::new(false));
    let sync = |_| {
        begun.store(true, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(30));
        let cause = "the device".to_owned();
        Err(Error::Poisoned { cause })
    };
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (1..=6u64)
            .map(|target| scope.spawn(move || (target, target)))
            .map(|waiter| waiter.join().unwrap().0)
            .collect();
        let threads: Vec<_> = waiters
            .into_iter()
            .map(|target| {
                let (commit, sync) = (&commit, &sync);
                scope.spawn(move || commit.wait(target, || 6, sync))
            })
            .collect();
        for thread in threads {
            assert!(thread.join().unwrap().is_err());
        }
    });
    assert!(begun.load(Ordering::SeqCst));
    assert_eq!((commit.synced(), commit.rounds()), (0, 1));
}

#[test]
fn a_commit_waits_for_lower_sequences_and_no_longer() {
    let directory = memory();
    let log = WriteAheadLog::create(&directory, small(), 1).unwrap();
    let acknowledged = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            log.append(2, 1, b"second", LogDurability::Disk).unwrap();
            acknowledged.store(true, Ordering::SeqCst);
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(!acknowledged.load(Ordering::SeqCst), "the first is missing");
        log.append(1, 1, b"first", LogDurability::Process).unwrap();
    });
    assert_eq!(log.synced(), 2);
}

#[test]
fn a_writer_too_far_ahead_waits_for_the_lowest() {
    let directory = memory();
    let log = WriteAheadLog::create(&directory, small(), 1).unwrap();
    let far = WINDOW + 1;
    let appended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            log.append(far, 1, b"far", LogDurability::Process).unwrap();
            appended.store(true, Ordering::SeqCst);
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(!appended.load(Ordering::SeqCst), "outside the window");
        log.void(1, (far - 1) as u32).unwrap();
    });
    assert_eq!(log.completed(), far);
}

#[test]
fn a_failure_wakes_who_waits_for_the_lowest() {
    let directory = memory();
    let log = WriteAheadLog::create(&directory, small(), 1).unwrap();
    std::thread::scope(|scope| {
        let waiters = [
            scope.spawn(|| log.append(2, 1, b"second", LogDurability::Disk)),
            scope.spawn(|| log.append(WINDOW + 9, 1, b"far", LogDurability::Process)),
        ];
        std::thread::sleep(Duration::from_millis(30));
        log.shared.commit.poison("a test");
        for waiter in waiters {
            let result = waiter.join().unwrap();
            assert!(matches!(result, Err(Error::Poisoned { .. })), "{result:?}");
        }
    });
}
