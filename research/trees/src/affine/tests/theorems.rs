//! The lemmas and corollaries of §2 and §4, by measurement in the affine model.

use super::*;
use alluvium_model::nodes;

/// The slope of a line through points, by least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let (x, y) = points
        .iter()
        .fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
    let (x, y) = (x / count, y / count);
    let both: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    both / points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>()
}

const SMALL: usize = 64;

fn loaded(options: AffineOptions, count: u64) -> AffineTree<MemorySpace> {
    let mut tree = created(options);
    tree.load_sorted((0..count).map(|number| element(number * 10, SMALL)))
        .unwrap();
    tree
}

fn read_cost(tree: &AffineTree<MemorySpace>, count: u64, alpha: f64) -> (f64, f64) {
    let mut random = fastrand::Rng::with_seed(2);
    let before = tree.space().meter();
    for _ in 0..100 {
        assert!(
            tree.get(&element(random.u64(0..count) * 10, SMALL).0)
                .unwrap()
                .is_some()
        );
    }
    let spent = tree.space().meter().since(before);
    (
        spent.cost(alpha / SMALL as f64) / 100.0,
        spent.reads as f64 / 100.0,
    )
}

#[test]
fn beyond_half_the_bandwidth_queries_grow_with_the_node_or_with_its_root() {
    // Corollary 10, with α = 1 for an element, so that α√B is above 1 for all of these.
    let count = 60_000;
    let (mut plain, mut buffered) = (Vec::new(), Vec::new());
    for fanout in [8u32, 12, 16, 24, 32] {
        let node_bytes = fanout * fanout * SMALL as u32;
        for (variant, points) in [
            (AffineVariant::BTree, &mut plain),
            (AffineVariant::ParentPivots, &mut buffered),
        ] {
            let tree = loaded(options(variant, node_bytes, fanout, SMALL as u32), count);
            let (cost, reads) = read_cost(&tree, count, 1.0);
            points.push((f64::from(node_bytes).ln(), (cost / reads).ln()));
        }
    }
    let (plain, buffered) = (slope(&plain), slope(&buffered));
    println!("slopes: B-tree {plain:.2}, Bε-tree {buffered:.2}");
    assert!((0.85..1.15).contains(&plain), "B-tree: {plain}");
    assert!((0.35..0.65).contains(&buffered), "Bε-tree: {buffered}");
    // With a small α the segment is as good as free: flat.
    let mut flat = Vec::new();
    for fanout in [8u32, 16, 32] {
        let tree = loaded(
            options(
                AffineVariant::ParentPivots,
                fanout * fanout * SMALL as u32,
                fanout,
                SMALL as u32,
            ),
            count,
        );
        let (cost, reads) = read_cost(&tree, count, 1e-3);
        flat.push((f64::from(fanout).ln() * 2.0, (cost / reads).ln()));
    }
    assert!(slope(&flat).abs() < 0.05, "{flat:?}");
}

#[test]
fn queries_come_close_to_the_best_b_tree_and_inserts_are_faster_by_a_logarithm() {
    // Corollaries 11 and 12: F = 1/(α ln(1/α)), B = F².
    let count = 40_000u64;
    let mut gains = Vec::new();
    for alpha in [0.1f64, 0.03, 0.01] {
        let fanout = (1.0 / (alpha * (1.0 / alpha).ln())).round().max(3.0) as u32;
        let best = nodes::best_b_tree_node(alpha).unwrap();
        let b_tree = options(
            AffineVariant::BTree,
            (best * SMALL as f64).max(512.0) as u32,
            3,
            SMALL as u32,
        );
        let buffered = options(
            AffineVariant::ParentPivots,
            (fanout * fanout * SMALL as u32).max(512),
            fanout,
            SMALL as u32,
        );
        let mut figures = [b_tree, buffered].map(|options| {
            let mut tree = loaded(options, count);
            let (query, _) = read_cost(&tree, count, alpha);
            let before = tree.space().meter();
            let mut random = fastrand::Rng::with_seed(1);
            let inserts = 6000;
            for _ in 0..inserts {
                let (key, value) = element(random.u64(0..count * 10), SMALL);
                tree.insert(&key, &value).unwrap();
            }
            let insert = tree.space().meter().since(before).cost(alpha / SMALL as f64) / f64::from(inserts);
            (query, insert)
        });
        let (tree, buffered) = (figures[0], &mut figures[1]);
        gains.push((buffered.0 / tree.0, tree.1 / buffered.1));
    }
    println!("queries beside the best B-tree, and how much faster inserts are: {gains:.2?}");
    assert!(gains.iter().all(|gain| gain.0 < 2.5), "queries: {gains:?}");
    assert!(
        gains[2].0 < gains[0].0,
        "queries come closer as α falls: {gains:?}"
    );
    assert!(
        gains[0].1 < gains[1].1 && gains[1].1 < gains[2].1,
        "inserts: {gains:?}"
    );
}

#[test]
fn a_b_tree_query_reads_each_level_that_is_not_in_memory() {
    // Lemma 2.
    for memory_bytes in [0, 24 << 10, 400 << 10] {
        let options = AffineOptions {
            memory_bytes,
            ..options(AffineVariant::BTree, 2048, 8, SMALL as u32)
        };
        let mut tree = loaded(options, 12_000);
        tree.load_resident_levels().unwrap();
        let (_, reads) = read_cost(&tree, 12_000, 1.0);
        assert!(
            (reads - f64::from(tree.resident_height())).abs() < 1e-9,
            "{reads}"
        );
    }
}

#[test]
fn write_amplification_of_a_b_tree_grows_with_its_nodes_and_structural_changes_do_not_matter() {
    // Lemma 3: random inserts with little memory write a leaf each.
    let mut shares = Vec::new();
    for node_bytes in [2048u32, 4096, 8192, 16_384] {
        let options = AffineOptions {
            memory_bytes: 1 << 20,
            ..options(AffineVariant::BTree, node_bytes, 8, SMALL as u32)
        };
        let mut tree = loaded(options, 10_000);
        let mut random = fastrand::Rng::with_seed(6);
        let before = tree.space().meter();
        for _ in 0..1000 {
            let (key, value) = element(random.u64(0..100_000), SMALL);
            tree.insert(&key, &value).unwrap();
        }
        let written = tree.space().meter().since(before).written_bytes as f64 / (1000.0 * SMALL as f64);
        shares.push(written / (f64::from(node_bytes) / SMALL as f64));
        let (splits, _) = tree.figures().changes();
        assert!(
            splits as f64 <= 8.0 * 1000.0 / (f64::from(node_bytes) / SMALL as f64),
            "{splits}"
        );
    }
    println!("write amplification over B: {shares:.2?}");
    assert!(
        shares.iter().all(|share| (0.5..1.1).contains(share)),
        "{shares:?}"
    );
}

#[test]
fn inserts_of_a_plain_tree_follow_theorem_4() {
    // With F = √B, an insert costs F/B = 1/√B requests for each level: the slope is -1/2.
    let mut points = Vec::new();
    for fanout in [8u32, 12, 16, 24] {
        let mut tree = loaded(
            options(
                AffineVariant::Naive,
                fanout * fanout * SMALL as u32,
                fanout,
                SMALL as u32,
            ),
            40_000,
        );
        let mut random = fastrand::Rng::with_seed(3);
        let mut insert = |tree: &mut AffineTree<MemorySpace>, count| {
            for _ in 0..count {
                let (key, value) = element(random.u64(0..400_000), SMALL);
                tree.insert(&key, &value).unwrap();
            }
        };
        insert(&mut tree, 8000);
        let before = tree.space().meter();
        insert(&mut tree, 12_000);
        let spent = tree.space().meter().since(before);
        let requests = (spent.reads + spent.writes) as f64 / 12_000.0;
        let levels = (40_000.0 / f64::from(fanout * fanout)).ln() / f64::from(fanout).ln();
        points.push((f64::from(fanout * fanout).ln(), (requests / levels).ln()));
    }
    let slope = slope(&points);
    println!("slope of inserts with F = √B: {slope:.2}");
    assert!((-0.7..-0.3).contains(&slope), "{slope}: {points:?}");
}

#[test]
fn ranges_cost_their_leaves_beside_a_query() {
    // Table 3: O(1 + ℓ/B)(1 + αB) and a query. Leaves are half full at least, and each has a
    // segment above it.
    let (count, fanout, node_bytes) = (20_000u64, 8u32, 8192u32);
    for variant in [
        AffineVariant::BTree,
        AffineVariant::Naive,
        AffineVariant::Segmented,
        AffineVariant::WeightBalanced,
    ] {
        let tree = loaded(options(variant, node_bytes, fanout, SMALL as u32), count);
        let (query, _) = read_cost(&tree, count, 0.01);
        let node = f64::from(node_bytes) / SMALL as f64;
        for wanted in [1u32, 30, 500, 4000] {
            let (before, mut seen) = (tree.space().meter(), 0);
            tree.scan(&element(30_000, SMALL).0, None, &mut |_, _| {
                seen += 1;
                if seen == wanted {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .unwrap();
            assert_eq!(seen, wanted);
            let cost = tree.space().meter().since(before).cost(0.01 / SMALL as f64);
            let bound = (1.0 + 2.0 * f64::from(wanted) / node) * 2.0 * (1.0 + 0.01 * node) + 2.0 * query;
            assert!(cost <= bound, "{variant:?}, {wanted}: {cost} > {bound}");
        }
    }
}
