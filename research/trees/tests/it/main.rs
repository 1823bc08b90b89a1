//! Flushes of a tree node as ball recycling (Conway §5): a buffered byte is a ball, a child is a
//! bin, and a flush takes all bytes buffered for one child. The tests compare the rates of
//! policies with the simulation and with the bounds of `research_models::recycling`.

use alluvium_model::{AliasTable, Popularity, SplitMix64};
use alluvium_trees::tiered::policy::{ChildView, TrunkShape, VictimPolicy, flush};
use research_models::recycling::{BinChoice, RecyclingGame, bounds};

/// A node of eight children that holds 1600 balls.
const SHAPE: TrunkShape = TrunkShape {
    fanout: 8,
    memtable: 200,
};

const POLICIES: [(VictimPolicy, BinChoice); 3] = [
    (VictimPolicy::Fullest, BinChoice::FullestBin),
    (VictimPolicy::RandomMessage, BinChoice::RandomBall),
    (VictimPolicy::RoundRobin, BinChoice::GoldenGate),
];

/// Throws balls onto children, `batch` at a time, flushes as the tree does, and returns the mean
/// number of balls per flush.
fn rate(victim: VictimPolicy, weights: &[f64], batch: u64, flushes: u64) -> f64 {
    let bins = AliasTable::new(weights).unwrap();
    let mut children = vec![ChildView { bytes: 0, runs: 1 }; weights.len()];
    let mut random = SplitMix64::from_seed(3);
    let (warm_up, mut turn, mut taken) = (flushes / 10, 0, 0);
    while turn < warm_up + flushes {
        for _ in 0..batch {
            children[bins.draw(&mut random)].bytes += 1;
        }
        while let Some(index) = flush(&SHAPE, victim, &children, random.bits(), turn) {
            let balls = std::mem::take(&mut children[index].bytes);
            assert!(balls > 0, "a flush takes something");
            taken += if turn < warm_up { 0 } else { balls };
            turn += 1;
        }
    }
    taken as f64 / (turn - warm_up) as f64
}

fn simulated(choice: BinChoice, weights: &[f64], balls: u64) -> f64 {
    let game = RecyclingGame::new(weights, balls as usize, choice).unwrap();
    game.play(2000, 20_000, 4).unwrap().rate
}

fn most(weights: &[f64], balls: u64) -> f64 {
    bounds::upper(&Popularity::weighted(weights).unwrap(), balls as f64).unwrap()
}

#[test]
fn even_children_are_flushed_as_in_the_simulation() {
    let even = [1.0; 8];
    // A node flushes when it exceeds its capacity by one ball.
    let balls = SHAPE.node_bytes() + 1;
    for (victim, choice) in POLICIES {
        let (found, wanted) = (rate(victim, &even, 1, 20_000), simulated(choice, &even, balls));
        assert!(
            (found / wanted - 1.0).abs() < 0.02,
            "{victim:?}: {found} {wanted}"
        );
        assert!(
            found < most(&even, balls) * 1.005,
            "Lemma 26: {victim:?}: {found}"
        );
        if victim != VictimPolicy::RandomMessage {
            let least = bounds::even_least(8.0, balls as f64).unwrap();
            assert!(found > least * 0.99, "Theorem 7: {victim:?}: {found} {least}");
        }
    }
}

#[test]
fn whole_memtables_are_flushed_within_the_bound_of_what_a_node_holds_then() {
    for weights in [vec![1.0; 8], (1..=8).map(|rank| 1.0 / f64::from(rank)).collect()] {
        let balls = SHAPE.node_bytes() + SHAPE.memtable;
        let bound = most(&weights, balls);
        for (victim, _) in POLICIES {
            let found = rate(victim, &weights, SHAPE.memtable, 20_000);
            assert!(found < bound * 1.005, "Lemma 26: {victim:?}: {found} {bound}");
            assert!(
                found > 0.4 * bound,
                "within a constant: {victim:?}: {found} {bound}"
            );
        }
    }
}

#[test]
fn where_nearly_all_is_for_one_child_a_random_message_is_a_better_victim_than_the_fullest() {
    // Theorem 6's example. The other children fill until each holds about as much as the fullest;
    // then flushes take little more than what all hold on average, a memtable.
    let mut weights = vec![1e-3; 8];
    weights[7] = 1.0;
    let bound = most(&weights, SHAPE.node_bytes());
    let [full, ball, round] = POLICIES.map(|(victim, _)| rate(victim, &weights, 1, 10_000));
    let memtable = SHAPE.memtable as f64;
    assert!(full > memtable && full < 2.5 * memtable, "{full}");
    // A child with half of a node is flushed at once: the others come close to that.
    for found in [ball, round] {
        assert!(
            found > 1.5 * full && found > 0.4 * bound,
            "{found} {full} {bound}"
        );
        assert!(found < bound, "Lemma 26: {found} {bound}");
    }
}
