//! Tests of waiting and waking under the model checker. See `locks/model_check.rs` for how to run
//! them.
//!
//! Some tests inject a fault, which the model checker must detect.

use super::sync::{AtomicU64, Ordering};
use super::{LockManager, LockOwner, LockRefusal, RangeLockMode};
use std::sync::Arc;
use std::time::Duration;

/// For each key, the number of owners that hold its lock, where an exclusive holder counts as a
/// hundred.
type HolderCounts = [AtomicU64; 3];

/// Locks a key for an owner, and asserts that no other owner holds a conflicting lock.
fn hold(
    locks: &LockManager,
    inside: &HolderCounts,
    owner: LockOwner,
    key: usize,
    mode: RangeLockMode,
) -> Result<(), LockRefusal> {
    let low = [key as u8];
    locks.lock(owner, &low, Some(&[key as u8 + 1]), mode, Duration::MAX)?;
    let weight = if mode == RangeLockMode::Exclusive { 100 } else { 1 };
    let others = inside[key].fetch_add(weight, Ordering::Relaxed);
    assert!(others < 100 && (weight == 1 || others == 0), "L1: {others}");
    inside[key].fetch_sub(weight, Ordering::Relaxed);
    Ok(())
}

/// Three owners lock keys in different orders. Each must obtain all its locks, and starts over if
/// it is rejected.
fn story(releases: bool) {
    let locks = Arc::new(LockManager::default());
    let inside: Arc<HolderCounts> = Arc::default();
    let plans: [&[(usize, RangeLockMode)]; 3] = [
        &[(0, RangeLockMode::Exclusive), (1, RangeLockMode::Exclusive)],
        &[(1, RangeLockMode::Shared), (0, RangeLockMode::Exclusive)],
        &[
            (0, RangeLockMode::Shared),
            (2, RangeLockMode::Shared),
            (0, RangeLockMode::Exclusive),
        ],
    ];
    let threads: Vec<_> = plans
        .into_iter()
        .map(|plan| {
            let (locks, inside) = (Arc::clone(&locks), Arc::clone(&inside));
            shuttle::thread::spawn(move || {
                loop {
                    let number = locks.next_number();
                    let owner = LockOwner::Transaction(number);
                    let got = plan
                        .iter()
                        .try_for_each(|&(key, mode)| hold(&locks, &inside, owner, key, mode));
                    if releases || got.is_err() {
                        locks.release(number);
                    }
                    if got.is_ok() {
                        return;
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn model_check_every_owner_gets_its_locks_or_starts_over() {
    shuttle::check_random(|| story(true), 3_000);
    shuttle::check_pct(|| story(true), 2_000, 3);
}

#[test]
fn model_check_a_lock_that_is_never_released_is_found() {
    let found = std::panic::catch_unwind(|| shuttle::check_random(|| story(false), 3_000));
    assert!(found.is_err(), "the checker finds that an owner waits for ever");
}
