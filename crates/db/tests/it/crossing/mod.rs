//! Tests the interaction of features by comparing a store that has keyspaces in every structure
//! with a model.
//!
//! A seed draws a store (`plan.rs`), which has structures, neighbours of each keyspace, operators
//! and a memory limit, and a history (`draw.rs`). A history contains puts, deletes, range deletes
//! that touch the ends of keyspaces, merges, expiry under a clock that the history moves,
//! conditional writes, batches, transactions of every kind with savepoints, spills and interleaved
//! commits of others, named and unnamed snapshots, long-lived iterators, loads, checkpoints,
//! compactions, restored backups, dropped, new and renamed keyspaces, stores that close and crash,
//! disks that are full for a while, and flipped bits (`damage.rs`), on one tier or two. `world.rs`,
//! `writing.rs`, `reading.rs`, `transactions.rs` and `lasting.rs` apply the history to the store
//! and the model and compare the results. `shrink.rs` shortens a failing history, which is then
//! printed in the syntax of `ops.rs`, so that it can be pasted into a test, with the command that
//! runs the seed again.
//!
//! `metamorphic.rs` runs one history on many stores with other structures and other options
//! (`knobs.rs`, `variants.rs`) and checks that the results agree. `diagram.rs` draws a history that
//! fails under some of them.
//!
//! `ALLUVIUM_CROSSING_SEED` is the seed of the first history, `ALLUVIUM_CROSSING_STEPS` the total
//! number of operations in all histories, and `ALLUVIUM_CROSSING_LENGTH` the number in each.

mod damage;
mod diagram;
mod draw;
mod keys;
mod knobs;
mod lasting;
mod metamorphic;
mod model;
mod ops;
mod plan;
mod reading;
mod run;
mod shrink;
mod transactions;
mod variants;
mod world;
mod writing;

use alluvium_sim::Coverage;
use alluvium_sim::environment::effort;
use draw::Draw;
use model::Rule;
use ops::Operation;
use plan::StorePlan;
use run::run;
use shrink::{Failing, shrink};
use world::{DAMAGED, LOST, NO_SPACE, OVERTAKEN, SPILLED};

const SEED: u64 = 61;
/// Total number of operations in all histories, and the number in each.
const STEPS: usize = 30_000;
const LENGTH: usize = 1_000;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("it is a number"))
}

/// Runs a seed's history. If it fails, returns a shortened failing history.
fn explore(seed: u64, len: usize, rule: Rule, coverage: &Coverage) -> Option<Failing> {
    let plan = StorePlan::drawn(seed);
    let operations = Draw::new(&plan, seed).history(len);
    let plans = vec![plan];
    let failure = run(&plans, &operations, rule, coverage)?;
    let found = Failing {
        plans,
        operations,
        failure,
    };
    eprintln!(
        "seed {seed}, operation {}: {}",
        found.failure.at, found.failure.why
    );
    Some(shrink(found, rule))
}

/// Formats a history as a program.
fn show(failing: &Failing) -> String {
    let plan = &failing.plans[0];
    let mut text = format!("memtable {}, keys {}\n", plan.memtable, plan.keys);
    for (number, keyspace) in plan.keyspaces.iter().enumerate() {
        text += &format!("keyspace {number}: {keyspace:?}\n");
    }
    for operation in &failing.operations {
        text += &format!("{operation:?},\n");
    }
    text + &failing.failure.why
}

/// Seeds of histories that once failed, with a description of each fault.
const FOUND: [(u64, &str); 5] = [
    (
        100_134,
        "a durable write that changes nothing did not sync what came before it",
    ),
    (
        100_167,
        "the checkpoint of a spilled transaction over four structures found no space",
    ),
    (100_490, "a compaction took a disk for full that had space again"),
    (
        9_100_416,
        "the model took a lost delete that takes effect later for one that was there",
    ),
    (
        30_001_659,
        "a delete of all keys of a keyspace counted an operand of the next one twice",
    ),
];

#[test]
fn histories_that_have_failed_pass() {
    let coverage = Coverage::new();
    for (seed, cause) in FOUND {
        let failing = explore(seed, LENGTH, Rule::Right, &coverage);
        assert!(failing.is_none(), "seed {seed}, as when {cause}");
    }
}

#[test]
fn a_store_of_all_structures_answers_as_its_model_does() {
    let first = number("ALLUVIUM_CROSSING_SEED", SEED);
    let len = number("ALLUVIUM_CROSSING_LENGTH", LENGTH as u64) as usize;
    let steps = number("ALLUVIUM_CROSSING_STEPS", effort(STEPS as u64 / 3, STEPS as u64)) as usize;
    let coverage = Coverage::new();
    for seed in first..first + steps.div_ceil(len) as u64 {
        if let Some(failing) = explore(seed, len, Rule::Right, &coverage) {
            panic!(
                "the store and its model differ; again: ALLUVIUM_CROSSING_SEED={seed} \
                 ALLUVIUM_CROSSING_LENGTH={len} ALLUVIUM_CROSSING_STEPS={len}\n{}",
                show(&failing)
            );
        }
    }
    let met = coverage.counts();
    eprintln!("{steps} operations: {met:?}");
    for situation in [NO_SPACE, SPILLED, OVERTAKEN, LOST, DAMAGED] {
        assert!(
            steps < STEPS || met.contains_key(situation),
            "{situation}: {met:?}"
        );
    }
}

#[test]
fn a_history_that_fails_is_made_short() {
    let failing = (1..50).find_map(|seed| explore(seed, 400, Rule::RangesSpareMerges, &Coverage::new()));
    let failing = failing.expect("a model that is wrong is found out");
    assert!(failing.operations.len() <= 6, "{}", show(&failing));
    assert!(failing.plans[0].keyspaces.len() <= 2, "{}", show(&failing));
    let ranges = |operation: &Operation| format!("{operation:?}").contains("DeleteRange");
    assert!(failing.operations.iter().any(ranges), "{}", show(&failing));
    // A second run gives the same result.
    let again = run(
        &failing.plans,
        &failing.operations,
        Rule::RangesSpareMerges,
        &Coverage::new(),
    );
    assert_eq!(again, Some(failing.failure.clone()));
    assert_eq!(
        run(&failing.plans, &failing.operations, Rule::Right, &Coverage::new()),
        None
    );
}
