//! One history must give the same results under many sets of options.
//!
//! A seed draws a history and the plain store that runs it first. Stores with other structures,
//! memory, nodes, caches, filters, fan-outs, compactions, tiers, durability and threads then run
//! the same history (`variants.rs`). Each result is compared with the model's; results that the
//! model cannot predict are compared with the plain store's. Pebble's metamorphic tests (Cockroach
//! Labs 2020) compare results under different options in the same way.
//!
//! `ALLUVIUM_METAMORPHIC_SEED` is the seed of the first history, `ALLUVIUM_METAMORPHIC_HISTORIES`
//! the number of histories, `ALLUVIUM_METAMORPHIC_LENGTH` the number of operations in each, and
//! `ALLUVIUM_METAMORPHIC_SETS` the number of stores that run each.

use super::diagram::diagram;
use super::draw::Draw;
use super::model::Rule;
use super::number;
use super::ops::{Edge, Operation, Read, Step, Write};
use super::plan::StorePlan;
use super::run::{difference, run_one};
use super::shrink::{Failing, shrink};
use super::variants::{UNORDERED, plain, varied};
use super::world::{LOST, NO_SPACE, OVERTAKEN, SPILLED};
use alluvium_sim::Coverage;

const SEED: u64 = 16;
/// Number of histories. Each runs on its own group of stores, with two hundred sets of options in
/// all.
const HISTORIES: u64 = 8;
/// Operations per history.
const LENGTH: u64 = 150;
/// Sets of options per history.
const SETS: u64 = 25;

/// Returns a write that every structure accepts.
fn fit_write(of: usize, write: &mut Write) {
    if let (UNORDERED, Write::DeleteRange(low, high)) = (of, write) {
        (*low, *high) = (Edge::Whole, Edge::Whole);
    }
}

/// Returns a read that every structure answers.
fn fit_read(read: &mut Read) {
    match read {
        &mut Read::Walk(view, UNORDERED, _) => *read = Read::Unordered(view, UNORDERED),
        Read::Prefix(UNORDERED, ..) => *read = Read::Keyspace(UNORDERED),
        _ => {}
    }
}

/// Converts an operation to one whose result is the same under all options. This removes full disks
/// and damage, whose effects depend on the options.
fn fit(mut operation: Operation) -> Operation {
    match &mut operation {
        Operation::Batch(_, writes) => writes.iter_mut().for_each(|(of, write)| fit_write(*of, write)),
        Operation::Read(read) => fit_read(read),
        Operation::Transaction(transaction) => {
            for step in &mut transaction.steps {
                match step {
                    Step::Write(of, write) | Step::Other(of, write) => fit_write(*of, write),
                    Step::Read(read) => fit_read(read),
                    _ => {}
                }
            }
        }
        Operation::Narrow(_) | Operation::Widen | Operation::Damage(_) => operation = Operation::Check,
        _ => {}
    }
    operation
}

/// Draws a history that all sets of options run. Its last step compares everything.
fn history(plan: &StorePlan, seed: u64, len: usize) -> Vec<Operation> {
    let drawn = Draw::new(plan, seed).history(len).into_iter().map(fit);
    drawn
        .chain([Operation::Read(Read::All), Operation::Check])
        .collect()
}

/// Runs a seed's history under some sets of options. If it fails, returns a shortened failing
/// history.
fn explore(seed: u64, len: usize, sets: u64, rule: Rule, coverage: &Coverage) -> Option<Failing> {
    let plain = plain(seed);
    let operations = history(&plain, seed, len);
    let first = run_one(&plain, &operations, rule, coverage);
    let mut plans = vec![plain];
    let mut found = first.failure.clone();
    for set in 0..sets {
        if found.is_some() {
            break;
        }
        let varied = varied(&plans[0], seed << 20 | set);
        let ran = run_one(&varied, &operations, rule, coverage);
        found = ran.failure.clone().or_else(|| difference(&first, &ran));
        if let Some(failure) = &found {
            eprintln!(
                "seed {seed}, set {set}, operation {}: {}",
                failure.at, failure.why
            );
            plans.push(varied);
        }
    }
    let found = Failing {
        plans,
        operations,
        failure: found?,
    };
    Some(shrink(found, rule))
}

#[test]
fn a_history_has_the_same_answers_under_every_set_of_options() {
    let first = number("ALLUVIUM_METAMORPHIC_SEED", SEED);
    let histories = number("ALLUVIUM_METAMORPHIC_HISTORIES", HISTORIES);
    let len = number("ALLUVIUM_METAMORPHIC_LENGTH", LENGTH) as usize;
    let sets = number("ALLUVIUM_METAMORPHIC_SETS", SETS);
    let coverage = Coverage::new();
    for seed in first..first + histories {
        if let Some(failing) = explore(seed, len, sets, Rule::Right, &coverage) {
            panic!(
                "options change answers; again: ALLUVIUM_METAMORPHIC_SEED={seed} \
                 ALLUVIUM_METAMORPHIC_HISTORIES=1 ALLUVIUM_METAMORPHIC_LENGTH={len} \
                 ALLUVIUM_METAMORPHIC_SETS={sets}\n{}",
                diagram(&failing, Rule::Right)
            );
        }
    }
    let met = coverage.counts();
    eprintln!("{histories} histories under {sets} sets of options: {met:?}");
    assert!(!met.contains_key(NO_SPACE) && !met.contains_key(LOST), "{met:?}");
    if histories >= 20 {
        assert!(
            met.contains_key(SPILLED) && met.contains_key(OVERTAKEN),
            "{met:?}"
        );
    }
}
