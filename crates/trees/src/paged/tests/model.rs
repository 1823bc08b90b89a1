//! Tests that run random operations on every tree and compare the results with a map.
//!
//! By default the runs are short. For longer runs, on every tree and with four threads:
//!
//! ```text
//! ALLUVIUM_PAGED_OPERATIONS=5000000 ALLUVIUM_PAGED_SEED=7 ALLUVIUM_PAGED_ONLY=merging \
//!     cargo test --release -p alluvium-trees --lib -- paged::tests a_longer_run lose_no_message
//! ```

use super::*;
use crate::paged::node::{MessageAction, merge};
use alluvium_sim::environment::number;
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns a random key of one of several lengths. There are few enough different keys that they
/// repeat.
fn draw_key(rng: &mut fastrand::Rng, keys: u64) -> Vec<u8> {
    let number = rng.u64(..keys).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number.to_be_bytes()[..(number % 4 + 5) as usize].to_vec()
}

fn bounds(rng: &mut fastrand::Rng, keys: u64) -> ScanBounds {
    let mut bound = || (rng.u8(..4) > 0).then(|| draw_key(rng, keys));
    ScanBounds {
        from: bound(),
        below: bound(),
    }
}

fn apply(
    model: &mut Model,
    operator: &dyn UpdateOperator,
    key: &[u8],
    action: MessageAction,
    operand: &[u8],
) {
    let older = model.get(key).map_or((MessageAction::Delete, &[][..]), |value| {
        (MessageAction::Insert, value)
    });
    let mut value = Vec::new();
    if merge(operator, older, (action, operand), &mut value) == MessageAction::Insert {
        model.insert(key.to_vec(), value);
    } else {
        model.remove(key);
    }
}

fn compare(name: &str, tree: &dyn Subject, model: &Model, rng: &mut fastrand::Rng, keys: u64) {
    let bounds = bounds(rng, keys);
    let inside = |key: &[u8]| {
        bounds.from.as_deref().is_none_or(|from| from <= key)
            && bounds.below.as_deref().is_none_or(|below| key < below)
    };
    let mut expected: Vec<_> = model.clone().into_iter().filter(|(key, _)| inside(key)).collect();
    assert_eq!(tree.pairs(bounds.clone(), false), expected, "{name} {bounds:?}");
    expected.reverse();
    assert_eq!(
        tree.pairs(bounds.clone(), true),
        expected,
        "{name} {bounds:?} backwards"
    );
}

fn check(name: &str, tree: &dyn Subject) -> TreeWalkReport {
    let examined = tree.examine();
    assert_eq!(examined.found, [""; 0], "{name}");
    assert_eq!(tree.pinned(), 0, "{name}");
    examined
}

/// Compares one tree with a map. The seed determines the random keys and actions.
fn run(
    name: &str,
    tree: &dyn Subject,
    operator: &dyn UpdateOperator,
    seed: u64,
    operations: usize,
    keys: u64,
) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut model = Model::new();
    for step in 0..operations {
        let key = draw_key(&mut rng, keys);
        let operand: Vec<u8> = (0..rng.usize(..=4)).map(|_| rng.u8(..)).collect();
        let action = match rng.u8(..16) {
            0..7 => MessageAction::Insert,
            7..10 => MessageAction::Update,
            // Some phases delete many keys, which empties leaves.
            10..12 => MessageAction::Delete,
            _ if step / 3000 % 3 == 2 => MessageAction::Delete,
            _ => {
                assert_eq!(
                    tree.get(&key).unwrap(),
                    model.get(&key).cloned(),
                    "{name}, step {step}"
                );
                continue;
            }
        };
        match action {
            MessageAction::Insert => tree.insert(&key, &operand).unwrap(),
            MessageAction::Update => tree.update(&key, &operand).unwrap(),
            MessageAction::Delete => tree.delete(&key).unwrap(),
        }
        apply(&mut model, operator, &key, action, &operand);
        if step % 2500 == 0 {
            check(name, tree);
            compare(name, tree, &model, &mut rng, keys);
        }
        if step % 7001 == 7000 {
            tree.flush_all().unwrap();
            let examined = check(name, tree);
            assert_eq!(
                (examined.messages, examined.pairs),
                (0, model.len() as u64),
                "{name}"
            );
        }
    }
    check(name, tree);
    compare(name, tree, &model, &mut rng, keys);
    for (key, value) in &model {
        assert_eq!(tree.get(key).unwrap().as_ref(), Some(value), "{name}");
    }
}

#[test]
fn every_tree_agrees_with_a_map() {
    let operator: Arc<dyn UpdateOperator> = Arc::new(Append);
    for (at, (name, tree)) in subjects(&operator).into_iter().enumerate() {
        run(&name, &*tree, &Append, at as u64, 24_000, 3000);
    }
}

#[test]
fn trees_with_large_nodes_agree_with_a_map() {
    let all = [(0, 4096, 100), (80, 4096, 100), (60, 8192, 200)];
    for (seed, (epsilon, page_bytes, value_limit)) in all.into_iter().enumerate() {
        for means in MEANS_IN_MEMORY {
            let mut options = options(epsilon, RootStyle::Separate, FlushOrder::Level, Arc::new(Append));
            options.sizes.value_limit = value_limit;
            let tree = BepsTree::create(PageArena::new(page_bytes).unwrap(), options).unwrap();
            let tree = means.couple(tree);
            run("large nodes", &tree, &Append, 300 + seed as u64, 40_000, 30_000);
            let counted = tree.statistics();
            assert!(
                counted.moved > 3 * counted.flushes,
                "blocks are large: {counted:?}"
            );
        }
    }
}

#[test]
fn few_keys_are_written_again_and_again() {
    let operator: Arc<dyn UpdateOperator> = Arc::new(Append);
    for (at, (name, tree)) in subjects(&operator).into_iter().enumerate() {
        run(&name, &*tree, &Append, 100 + at as u64, 4000, 40);
    }
}

#[test]
fn a_longer_run_is_asked_for_by_a_variable() {
    let (operations, seed) = (operations(1000), number("ALLUVIUM_PAGED_SEED", 500));
    let only = std::env::var("ALLUVIUM_PAGED_ONLY").unwrap_or_default();
    let operator: Arc<dyn UpdateOperator> = Arc::new(Append);
    for (at, (name, tree)) in subjects(&operator).into_iter().enumerate() {
        if name.contains(&only) {
            let keys = 20_000.min(operations.max(400));
            run(
                &name,
                &*tree,
                &Append,
                seed + at as u64,
                operations as usize,
                keys,
            );
            println!("{name}: {operations} operations");
        }
    }
}

/// Returns the key for a step, in the order that `kind` selects.
fn adversarial(kind: u32, step: u64) -> u64 {
    match kind {
        // The orders are: ascending, descending, nearly all in one child, and evenly spread.
        0 => step,
        1 => u64::MAX - step,
        2 => {
            if step.is_multiple_of(50) {
                step << 32
            } else {
                (7 << 40) + step
            }
        }
        _ => step.reverse_bits(),
    }
}

#[test]
fn adversarial_orders_leave_every_tree_in_order() {
    let operator: Arc<dyn UpdateOperator> = Arc::new(Sum);
    for kind in 0..4 {
        for (name, tree) in subjects(&operator) {
            for step in 0..5000 {
                tree.insert(&key(adversarial(kind, step)), &key(step)).unwrap();
            }
            check(&name, &*tree);
            assert_eq!(
                tree.pairs(ScanBounds::default(), kind == 1).len(),
                5000,
                "{name} {kind}"
            );
            for step in 0..5000 {
                let found = tree.get(&key(adversarial(kind, step))).unwrap();
                assert_eq!(found.as_deref(), Some(&key(step)[..]), "{name} {kind}");
            }
            for step in 0..5000 {
                tree.delete(&key(adversarial(kind, step))).unwrap();
            }
            check(&name, &*tree);
            assert_eq!(tree.pairs(ScanBounds::default(), false), [], "{name} {kind}");
        }
    }
}
