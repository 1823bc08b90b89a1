//! Tests of waiting and waking under the model checker. To run them:
//!
//! ```text
//! RUSTFLAGS="--cfg alluvium_model_check" CARGO_TARGET_DIR=target/model \
//!     cargo test --release -p alluvium --lib model_check
//! ```
//!
//! One test injects lost wake-ups, which the model checker must detect.

use super::sync::{AtomicUsize, Ordering};
use super::{LockMode, LockSet, LockTable};
use std::sync::Arc;

/// Three threads contend for two stripes in all modes. If `is_deaf` is true, wake-ups are lost.
fn story(is_deaf: bool) {
    let table = Arc::new(LockTable::new(2));
    let inside = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    if is_deaf {
        table.gate.turn_deaf();
    }
    let threads: Vec<_> = [LockMode::Exclusive, LockMode::Shared, LockMode::Exclusive]
        .into_iter()
        .map(|mode| {
            let (table, inside) = (Arc::clone(&table), Arc::clone(&inside));
            shuttle::thread::spawn(move || {
                for round in 0..2 {
                    let mut set = LockSet::default();
                    match (mode, round) {
                        (LockMode::Exclusive, _) => set.everything(mode),
                        (_, 0) => set.everything(mode),
                        _ => set.everything(LockMode::Blind),
                    }
                    let held = table.lock(set);
                    let weight = if mode == LockMode::Exclusive { 100 } else { 1 };
                    for count in &*inside {
                        let others = count.fetch_add(weight, Ordering::Relaxed);
                        assert!(others < 100 && (weight == 1 || others == 0), "A3: {others}");
                    }
                    for count in &*inside {
                        count.fetch_sub(weight, Ordering::Relaxed);
                    }
                    drop(held);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn stripes_exclude_and_every_waiter_is_woken() {
    shuttle::check_random(|| story(false), 3_000);
    shuttle::check_pct(|| story(false), 2_000, 3);
}

#[test]
fn a_lost_wake_up_is_found() {
    let found = std::panic::catch_unwind(|| shuttle::check_random(|| story(true), 3_000));
    assert!(found.is_err(), "the checker finds that a waiter sleeps for ever");
}
