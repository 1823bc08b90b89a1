//! Compares records per flush with the simulation of `research_models::recycling` and the figures
//! of the document (Conway §5.6).

use super::*;
use research_models::recycling::{BinChoice, InsertionBuffer, KeyDistribution};

/// Encodes a number as bytes that sort in numeric order.
fn bytes(key: f64) -> [u8; 8] {
    let bits = key.to_bits();
    let is_negative = bits >> 63 == 1;
    (bits ^ if is_negative { u64::MAX } else { 1 << 63 }).to_be_bytes()
}

/// The dimensions of a tree: buffered records, and records per leaf.
#[derive(Clone, Copy)]
struct Size {
    waiting: usize,
    leaf: usize,
}

/// Inserts keys as the simulation does, and returns the rate over each window.
fn measured(
    policy: FlushPolicy,
    keys: KeyDistribution,
    size: Size,
    inserts: usize,
    window: usize,
) -> Vec<(usize, f64)> {
    let options = InsertionOptions {
        page_bytes: 4096,
        leaf_records: size.leaf,
        waiting_records: size.waiting,
        policy,
        absorption: AbsorptionMode::Off,
        leaves_in_memory: 0,
        seed: 5,
    };
    let mut tree = InsertionTree::new(file(), options).unwrap();
    let mut random = SplitMix64::from_seed(9);
    // The simulation draws the seed of its choices first.
    random.bits();
    let mut before = InsertionCounters::default();
    let mut rates = Vec::new();
    for inserted in 1..=inserts {
        tree.put(&bytes(keys.draw(&mut random)), &[]).unwrap();
        if inserted % window == 0 {
            rates.push((tree.leaves(), tree.counts().since(&before).rate()));
            before = tree.counts();
        }
    }
    rates
}

fn simulated(
    choice: BinChoice,
    keys: KeyDistribution,
    size: Size,
    inserts: usize,
    window: usize,
) -> Vec<(usize, f64)> {
    let buffer = InsertionBuffer {
        keys,
        buffered: size.waiting,
        leaf: size.leaf,
        choice,
    };
    let flushed = buffer.fill(inserts, window, 9).unwrap();
    flushed
        .iter()
        .map(|flushed| (flushed.leaves, flushed.rate))
        .collect()
}

/// An eighth of the document's buffer, before leaves of its length.
const SMALL: Size = Size {
    waiting: 312,
    leaf: 40,
};

#[test]
fn rates_are_those_of_the_simulation_for_every_family_of_keys() {
    let families = [
        KeyDistribution::Uniform { below: 1000.0 },
        KeyDistribution::Pareto { alpha: 1.0 },
        KeyDistribution::Normal { deviation: 1000.0 },
    ];
    for (policy, choice) in [
        (FlushPolicy::FullestBin, BinChoice::FullestBin),
        (FlushPolicy::GoldenGate, BinChoice::GoldenGate),
        (FlushPolicy::RandomBall, BinChoice::RandomBall),
    ] {
        let wanted = simulated(choice, families[0], SMALL, 40_000, 10_000);
        let found = families.map(|keys| measured(policy, keys, SMALL, 40_000, 10_000));
        // Splits are by rank, so the distribution of keys makes no difference.
        assert!(found.iter().all(|family| *family == found[0]), "{policy:?}");
        for (found, wanted) in found[0].iter().zip(&wanted) {
            if policy == FlushPolicy::RandomBall {
                assert!(
                    (found.1 / wanted.1 - 1.0).abs() < 0.02,
                    "{policy:?}: {found:?} {wanted:?}"
                );
            } else {
                assert_eq!(found, wanted, "{policy:?}: the same leaves are flushed");
            }
        }
    }
}

#[test]
fn rates_are_the_reference_values() {
    // A buffer of 2500, leaves of 160: over the last 50 000 of 100 000 and 200 000 inserts.
    let size = Size {
        waiting: 2500,
        leaf: 160,
    };
    for (policy, wanted) in [
        (FlushPolicy::FullestBin, [8.9, 4.2]),
        (FlushPolicy::RandomBall, [6.9, 3.3]),
        (FlushPolicy::GoldenGate, [7.9, 3.4]),
    ] {
        let rates = measured(
            policy,
            KeyDistribution::Uniform { below: 1000.0 },
            size,
            200_000,
            50_000,
        );
        for (at, wanted) in [1, 3].into_iter().zip(wanted) {
            assert!((rates[at].1 / wanted - 1.0).abs() < 0.02, "{policy:?}: {rates:?}");
        }
    }
}

#[test]
fn the_random_walk_of_innodb_is_nearly_random_ball_and_golden_gate_is_better() {
    let size = Size {
        waiting: 1250,
        ..SMALL
    };
    let rates = |policy| {
        measured(
            policy,
            KeyDistribution::Uniform { below: 1e6 },
            size,
            40_000,
            10_000,
        )
    };
    let (walk, ball) = (rates(FlushPolicy::RandomWalk), rates(FlushPolicy::RandomBall));
    let gate = rates(FlushPolicy::GoldenGate);
    for (walk, ball) in walk.iter().zip(&ball) {
        assert!((walk.1 / ball.1 - 1.0).abs() < 0.1, "{walk:?} {ball:?}");
    }
    // Most while leaves are few (§5.6), less with every leaf.
    let gain = |at: usize| gate[at].1 / walk[at].1;
    assert!(gain(0) > 1.08 && gain(3) < gain(0), "{gate:?} {walk:?}");
}

#[test]
fn updates_of_few_leaves_want_random_ball() {
    // A leaf gets nearly all updates, and the others stand for one now and then (Theorem 6): the
    // fullest bin flushes the first for ever, with one record or two.
    let rate = |policy| {
        let options = InsertionOptions {
            page_bytes: 16 << 10,
            leaf_records: 400,
            waiting_records: 0,
            policy: FlushPolicy::None,
            absorption: AbsorptionMode::Off,
            leaves_in_memory: 0,
            seed: 2,
        };
        let mut tree = InsertionTree::new(file(), options).unwrap();
        for key in 0..40_000_u32 {
            tree.put(&key.to_be_bytes(), &[]).unwrap();
        }
        let leaves = tree.leaves();
        assert!(leaves > 150, "{leaves}");
        // From here on the tree has a buffer.
        tree.options.policy = policy;
        tree.options.waiting_records = 14;
        tree.fullest = (policy == FlushPolicy::FullestBin).then(FullestLeafIndex::default);
        let before = tree.counts();
        let mut random = SplitMix64::from_seed(3);
        for _ in 0..20_000 {
            let is_rare = random.below(leaves) == 0;
            let key = if is_rare {
                random.below(40_000)
            } else {
                random.below(190)
            };
            tree.put(&(key as u32).to_be_bytes(), b"new").unwrap();
        }
        assert!(tree.check().is_empty());
        tree.counts().since(&before).rate()
    };
    let (full, ball, gate) = (
        rate(FlushPolicy::FullestBin),
        rate(FlushPolicy::RandomBall),
        rate(FlushPolicy::GoldenGate),
    );
    assert!(full < 3.0 && ball > 8.0 && gate > 8.0, "{full} {ball} {gate}");
}
