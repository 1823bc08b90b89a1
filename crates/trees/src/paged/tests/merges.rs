//! Tests of trees that merge under-full nodes: pages are freed, trees lose levels, and readers and
//! writers encounter nodes that are being removed.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn scrambled(number: u64) -> [u8; 8] {
    key(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn sound(name: &str, tree: &dyn Subject) -> TreeWalkReport {
    let examined = tree.examine();
    assert_eq!(examined.found, [""; 0], "{name}");
    assert_eq!(tree.pinned(), 0, "{name}");
    assert_eq!(
        tree.used(),
        examined.pages.len() as u64,
        "{name}: pages that nothing leads to"
    );
    examined
}

/// Returns the keys in several deletion orders.
fn orders(count: u64) -> Vec<Vec<u64>> {
    let mut drawn: Vec<u64> = (0..count).collect();
    fastrand::Rng::with_seed(3).shuffle(&mut drawn);
    vec![(0..count).collect(), (0..count).rev().collect(), drawn]
}

#[test]
fn deleting_all_keys_gives_the_pages_back() {
    let operator: Arc<dyn UpdateOperator> = Arc::new(Sum);
    for (name, tree) in merging_subjects(&operator) {
        for order in orders(2000) {
            (0..2000).for_each(|number| tree.insert(&key(number), b"12345678").unwrap());
            let high = sound(&name, &*tree);
            assert!(high.height > 2 && high.pages.len() > 60, "{name} {high:?}");
            for number in order {
                tree.delete(&key(number)).unwrap();
            }
            tree.flush_all().unwrap();
            let examined = sound(&name, &*tree);
            assert_eq!(tree.pairs(ScanBounds::default(), false), [], "{name}");
            assert_eq!(
                (examined.height, examined.pages.len()),
                (1, 1),
                "{name}: a leaf is left"
            );
        }
    }
}

#[test]
fn without_the_option_pages_stay() {
    let operator: Arc<dyn UpdateOperator> = Arc::new(Sum);
    for (name, tree) in subjects(&operator) {
        (0..2000).for_each(|number| tree.insert(&key(number), b"12345678").unwrap());
        let before = tree.examine().height;
        (0..2000).for_each(|number| tree.delete(&key(number)).unwrap());
        tree.flush_all().unwrap();
        let examined = tree.examine();
        match name.starts_with("merging") {
            true => assert_eq!(tree.used(), 1, "{name}"),
            false => assert!(tree.used() > 60 && examined.height >= before, "{name}"),
        }
    }
}

#[test]
fn a_tree_that_shrinks_and_grows_has_nodes_that_are_well_filled() {
    let operator: Arc<dyn UpdateOperator> = Arc::new(Sum);
    for (name, tree) in merging_subjects(&operator) {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut left: Vec<u64> = Vec::new();
        let mut next = 0;
        for keep in [3000, 200, 1500, 40, 900, 3] {
            while left.len() < keep {
                tree.insert(&scrambled(next), &next.to_le_bytes()).unwrap();
                left.push(next);
                next += 1;
            }
            rng.shuffle(&mut left);
            for number in left.split_off(keep) {
                tree.delete(&scrambled(number)).unwrap();
            }
            tree.flush_all().unwrap();
            let examined = sound(&name, &*tree);
            assert_eq!(examined.pairs, keep as u64, "{name}");
            let leaves = examined.levels[0];
            let least = (leaves.most_entries / leaves.nodes / 4).max(1);
            let allowed = (keep as u64 / least).max(1);
            assert!(leaves.nodes <= allowed, "{name}: {leaves:?} of {keep}");
            for number in &left {
                let found = tree.get(&scrambled(*number)).unwrap();
                assert_eq!(found.as_deref(), Some(&number.to_le_bytes()[..]), "{name}");
            }
        }
        assert!(tree.examine().height <= 2, "{name}");
    }
}

#[test]
fn every_path_of_a_merge_is_taken() {
    let mut all = BepsOptions::new(8, 8);
    all.merging = UnderfullPolicy::UnderFull;
    for (epsilon, root) in [
        (0, RootStyle::Separate),
        (75, RootStyle::Separate),
        (75, RootStyle::Buffered),
    ] {
        let mut options = all.clone();
        (options.sizes.epsilon_percent, options.root) = (epsilon, root);
        let tree = BepsTree::create(PageArena::new(512).unwrap(), options).unwrap();
        (0..10_000).for_each(|number| tree.insert(&scrambled(number), b"12345678").unwrap());
        (0..9_900).for_each(|number| tree.delete(&scrambled(number)).unwrap());
        tree.flush_all().unwrap();
        let counted = tree.statistics();
        assert!(
            counted.merges > 300 && counted.balances > 20 && counted.lowerings > 1,
            "{counted:?}"
        );
        assert!(tree.examine().unwrap().found.is_empty());
    }
}

#[test]
fn threads_fill_and_empty_a_tree_while_others_read() {
    let operator: Arc<dyn UpdateOperator> = Arc::new(Sum);
    for (name, tree) in merging_subjects(&operator) {
        let steady: Vec<[u8; 8]> = (0..60).map(|at: u64| key(at << 55 | 1)).collect();
        for steady in &steady {
            tree.insert(steady, &7u64.to_le_bytes()).unwrap();
        }
        let (is_done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for reader in 0..2u64 {
                let (tree, steady, is_done, name, reads) = (&tree, &steady, &is_done, &name, &reads);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(reader);
                    while !is_done.load(Ordering::Relaxed) {
                        let wanted = rng.choice(steady).unwrap();
                        let found = tree.get(wanted).unwrap();
                        assert_eq!(found.as_deref(), Some(&7u64.to_le_bytes()[..]), "{name}");
                        if rng.u8(..60) == 0 {
                            let pairs = tree.pairs(ScanBounds::default(), reader == 0);
                            let seen = pairs.iter().filter(|(key, _)| key[7] == 1);
                            assert_eq!(seen.count(), 60, "{name}");
                        }
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let writers: Vec<_> = (0..3u64)
                .map(|writer| {
                    let (tree, name) = (&tree, &name);
                    scope.spawn(move || {
                        let mut rng = fastrand::Rng::with_seed(writer);
                        // The writers' keys are interleaved.
                        let own = |at: u64| key(at.wrapping_mul(0x9e37_79b9_7f4a_7c15) << 8 | writer << 1);
                        for round in 0..3u64 {
                            (0..400).for_each(|at| tree.insert(&own(at), &round.to_le_bytes()).unwrap());
                            let mut order: Vec<u64> = (0..400).collect();
                            rng.shuffle(&mut order);
                            for at in order {
                                let found = tree.get(&own(at)).unwrap();
                                assert_eq!(found.as_deref(), Some(&round.to_le_bytes()[..]), "{name}");
                                tree.delete(&own(at)).unwrap();
                                assert_eq!(tree.get(&own(at)).unwrap(), None, "{name}");
                            }
                        }
                    })
                })
                .collect();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            is_done.store(true, Ordering::Relaxed);
        });
        tree.flush_all().unwrap();
        let examined = sound(&name, &*tree);
        assert_eq!((examined.pairs, examined.messages), (60, 0), "{name}");
        let leaves = examined.levels[0];
        assert!(
            leaves.nodes <= 60 * 4 * leaves.nodes / leaves.most_entries + 1,
            "{name}: {leaves:?}"
        );
        assert!(reads.load(Ordering::Relaxed) > 0, "{name}");
    }
}
