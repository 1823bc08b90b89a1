//! Tests with random histories of interleaved transactions. Two checkers determine whether the
//! isolation level permits a history.
//!
//! One thread runs all transactions of a history, one operation at a time, in an order derived from
//! a seed, so that each seed reproduces its history. An operation whose lock is not available does
//! not wait, but is retried later.

mod checkers;
mod clock;
mod cycles;
mod driver;
mod history;
mod operations;
mod outside;
mod planted;
mod replay;
mod shared;
mod slow;
mod threads;

use crate::options::{Concurrency, Isolation};
use alluvium_sim::environment::effort;
use driver::{Plan, Trouble};
use history::History;

/// Number of transactions to run for each isolation level and each kind of trouble.
const TRANSACTIONS: usize = 10_000;

/// Number of transactions in a history.
const PER_HISTORY: usize = 100;

/// Returns the violations that the two checkers find in a history.
fn findings(history: &History, isolation: Isolation) -> Vec<String> {
    let mut found = replay::check(history, isolation);
    found.extend(cycles::check(history, isolation));
    found
}

/// Returns the value of an environment variable, if it is set and can be parsed.
fn named<N: std::str::FromStr>(variable: &str) -> Option<N> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Returns the number of transactions to run, which is the value of the environment variable
/// `ALLUVIUM_TRANSACTIONS`, or a default.
fn wanted() -> usize {
    named("ALLUVIUM_TRANSACTIONS").unwrap_or_else(|| effort(TRANSACTIONS / 4, TRANSACTIONS))
}

/// Returns the kinds of trouble to test, which is the one named by the environment variable
/// `ALLUVIUM_TRANSACTIONS_TROUBLE`, or all of them.
fn troubles() -> impl Iterator<Item = Trouble> {
    let wanted: Option<String> = named("ALLUVIUM_TRANSACTIONS_TROUBLE");
    let is_wanted = move |trouble: &Trouble| {
        let name = format!("{trouble:?}");
        wanted.as_ref().is_none_or(|wanted| *wanted == name)
    };
    Trouble::ALL.into_iter().filter(is_wanted)
}

/// Runs random histories, and panics if a checker finds a violation. Returns the number of write
/// skews observed.
fn run(isolation: Isolation, concurrency: Concurrency, trouble: Trouble) -> usize {
    let (mut committed, mut refused, mut full, mut beside, mut skews) = (0, 0, 0, 0, 0);
    let mut seed = named("ALLUVIUM_TRANSACTIONS_SEED").map_or(1, |seed: u64| seed << 20);
    while committed < wanted() {
        let plan = Plan {
            seed,
            isolation,
            concurrency,
            trouble,
            transactions: PER_HISTORY,
        };
        let history = driver::run(&plan);
        let found = findings(&history, isolation);
        assert!(found.is_empty(), "{plan:?}: {found:#?}\n{history}");
        skews += usize::from(!cycles::check(&history, Isolation::Serializable).is_empty());
        committed += history.committed.len();
        refused += history.refused;
        full += history.full;
        beside += history.beside;
        seed += 1;
    }
    assert!(refused > committed / 50, "{refused} of {committed} were refused");
    let is_disk_full = trouble == Trouble::FullDisk;
    assert_eq!(full > committed / 200, is_disk_full, "{full} met a full disk");
    let is_slow = trouble == Trouble::SlowDevice;
    assert_eq!(
        beside > committed / 10,
        is_slow,
        "{beside} beside slow operations"
    );
    skews
}

#[test]
fn serializable_optimistic_histories_are_serializable() {
    for trouble in troubles() {
        let skews = run(Isolation::Serializable, Concurrency::Optimistic, trouble);
        assert_eq!(skews, 0);
    }
}

#[test]
fn serializable_locking_histories_are_serializable() {
    for trouble in troubles() {
        let skews = run(Isolation::Serializable, Concurrency::Locking, trouble);
        assert_eq!(skews, 0);
    }
}

#[test]
fn snapshot_histories_are_those_of_snapshots_and_show_write_skew() {
    for concurrency in [Concurrency::Optimistic, Concurrency::Locking] {
        for trouble in troubles() {
            let skews = run(Isolation::Snapshot, concurrency, trouble);
            assert!(skews > 0, "{concurrency:?} {trouble:?}");
        }
    }
}

#[test]
fn a_seed_gives_the_same_history_each_time() {
    for concurrency in [Concurrency::Optimistic, Concurrency::Locking] {
        for trouble in [Trouble::Background, Trouble::SlowDevice] {
            let plan = Plan {
                seed: 7,
                isolation: Isolation::Serializable,
                concurrency,
                trouble,
                transactions: 60,
            };
            let one = driver::run(&plan).to_string();
            assert_eq!(one, driver::run(&plan).to_string());
        }
    }
}
