//! Tests of which paths are taken, how many nodes a lookup visits, and how many levels trees have.

use super::*;
use alluvium_storage::Error;

fn tree(page_bytes: usize, epsilon: u32, root: RootStyle) -> BepsTree<PageArena> {
    let options = options(epsilon, root, FlushOrder::Level, Arc::new(Sum));
    BepsTree::create(PageArena::new(page_bytes).unwrap(), options).unwrap()
}

fn scrambled(number: u64) -> [u8; 8] {
    key(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[test]
fn every_path_of_a_flush_is_taken() {
    for (epsilon, root) in [
        (0, RootStyle::Separate),
        (70, RootStyle::Separate),
        (40, RootStyle::Buffered),
    ] {
        let tree = tree(512, epsilon, root);
        (0..20_000).for_each(|number| tree.insert(&scrambled(number), &key(number)).unwrap());
        let counted = tree.statistics();
        let is_separate = root == RootStyle::Separate;
        assert!(
            counted.flushes > 1000 && counted.moved > counted.flushes,
            "{counted:?}"
        );
        assert!(
            counted.splits_of_leaves > 500 && counted.splits_of_nodes > 100,
            "{counted:?}"
        );
        assert!(
            counted.growths >= 2 && (counted.retries > 0) == is_separate,
            "{counted:?}"
        );
        assert!(counted.most_held > 2, "{counted:?}");
        let examined = tree.examine().unwrap();
        assert!(
            examined.found.is_empty() && examined.messages > 0 && examined.height >= 4,
            "{examined:?}"
        );
        assert_eq!(examined.pages.len() as u64, tree.buffer().pages_in_use());
    }
}

#[test]
fn more_pivots_make_a_lower_tree() {
    let height = |epsilon| {
        let tree = tree(1024, epsilon, RootStyle::Separate);
        (0..20_000).for_each(|number| tree.insert(&scrambled(number), &key(number)).unwrap());
        tree.examine().unwrap().height
    };
    let (low, step, high) = (height(0), height(75), height(95));
    assert!(low > step && step >= high && high <= 4, "{low} {step} {high}");
}

#[test]
fn a_lookup_ends_at_the_first_insert_or_delete() {
    let tree = tree(512, 50, RootStyle::Separate);
    (0..20_000).for_each(|number| tree.insert(&scrambled(number), &key(number)).unwrap());
    tree.flush_all().unwrap();
    let visited = |key: &[u8], expected: Option<u64>| {
        let before = tree.statistics().visited;
        let found = tree.get(key).unwrap();
        assert_eq!(found, expected.map(|number| number.to_le_bytes().to_vec()));
        tree.statistics().visited - before
    };
    let number = |value: u64| value.to_le_bytes();
    let wanted = scrambled(5);
    tree.insert(&wanted, &number(3)).unwrap();
    assert_eq!(visited(&wanted, Some(3)), 2, "the root and the node below it");
    tree.delete(&wanted).unwrap();
    assert_eq!(visited(&wanted, None), 2);
    tree.update(&wanted, &number(4)).unwrap();
    assert_eq!(
        visited(&wanted, None),
        2,
        "an update of a deleted key does nothing"
    );
    tree.insert(&wanted, &number(3)).unwrap();
    tree.flush_all().unwrap();
    tree.update(&wanted, &number(4)).unwrap();
    tree.update(&wanted, &number(5)).unwrap();
    let height = u64::from(tree.examine().unwrap().height);
    assert_eq!(visited(&wanted, Some(12)), height, "updates need what lies below");
}

#[test]
fn reading_changes_no_byte() {
    let tree = tree(512, 60, RootStyle::Separate);
    (0..5000).for_each(|number| tree.insert(&scrambled(number), &number.to_le_bytes()).unwrap());
    let pages = tree.examine().unwrap().pages;
    let bytes = || -> Vec<Vec<u8>> {
        pages
            .iter()
            .map(|page| tree.buffer().pin_shared(*page).unwrap().to_vec())
            .collect()
    };
    let before = bytes();
    for number in 0..5000 {
        assert_eq!(
            tree.get(&scrambled(number)).unwrap().as_deref(),
            Some(&number.to_le_bytes()[..])
        );
    }
    assert_eq!(
        tree.scan(ScanBounds::default()).count() + tree.scan(ScanBounds::default()).rev().count(),
        10_000
    );
    assert!(before == bytes());
}

#[test]
fn a_scan_is_taken_from_both_ends() {
    let tree = tree(512, 60, RootStyle::Separate);
    (0..2000).for_each(|number| tree.insert(&key(number), &number.to_le_bytes()).unwrap());
    for chosen in [1, 3, 700] {
        let mut scan = tree.scan(ScanBounds::default());
        let mut seen = Vec::new();
        let mut rng = fastrand::Rng::with_seed(chosen);
        loop {
            let pair = if rng.u64(..=chosen) == 0 {
                DoubleEndedIterator::next_back(&mut scan)
            } else {
                scan.next()
            };
            let Some(pair) = pair else { break };
            seen.push(pair.unwrap().0);
        }
        seen.sort_unstable();
        assert!(
            seen.iter()
                .map(Vec::as_slice)
                .eq((0..2000).map(key).collect::<Vec<_>>().iter().map(|k| &k[..]))
        );
    }
}

#[test]
fn what_is_too_long_is_refused_and_changes_nothing() {
    let tree = tree(512, 60, RootStyle::Separate);
    let refused = |key: &[u8], value: &[u8]| tree.insert(key, value).unwrap_err().to_string();
    assert!(refused(&[1; 9], b"").contains("a key of 9 bytes exceeds the limit of 8"));
    assert!(refused(b"a", &[1; 9]).contains("a value of 9 bytes exceeds the limit of 8"));
    assert!(tree.get(&[1; 9]).unwrap().is_none());
    assert_eq!(tree.scan(ScanBounds::default()).count(), 0);
    tree.insert(b"", b"the least").unwrap_err();
    tree.insert(b"", b"least").unwrap();
    assert_eq!(tree.get(b"").unwrap().as_deref(), Some(&b"least"[..]));
}

/// An operator that appends operands without a length limit.
#[derive(Debug)]
struct Endless;

impl UpdateOperator for Endless {
    fn combine(&self, older: &[u8], younger: &[u8], into: &mut Vec<u8>) {
        into.extend_from_slice(older);
        into.extend_from_slice(younger);
    }
}

#[test]
fn an_operator_whose_results_are_too_long_refuses_the_write() {
    let options = options(50, RootStyle::Separate, FlushOrder::Level, Arc::new(Endless));
    let tree = BepsTree::create(PageArena::new(512).unwrap(), options).unwrap();
    tree.insert(b"key", b"12345").unwrap();
    let refused = tree.update(b"key", b"6789").unwrap_err().to_string();
    assert!(refused.contains("a value of 9 bytes"), "{refused}");
    assert_eq!(tree.get(b"key").unwrap().as_deref(), Some(&b"12345"[..]));
    tree.update(b"key", b"678").unwrap();
}

#[test]
fn a_lost_message_ends_reading_and_writing() {
    let options = options(50, RootStyle::Separate, FlushOrder::Level, Arc::new(Endless));
    let tree = BepsTree::create(PageArena::new(512).unwrap(), options).unwrap();
    (0..5000).for_each(|number| tree.insert(&scrambled(number), b"12345").unwrap());
    tree.flush_all().unwrap();
    // Each update fits on its own, but not when combined with the value in the leaf.
    let failed = (0..5000).find_map(|number| tree.update(&scrambled(number), b"6789").err());
    let failed = failed.expect("an update is lost").to_string();
    assert!(failed.contains("a value of "), "{failed}");
    assert!(matches!(tree.get(&scrambled(1)), Err(Error::Poisoned { .. })));
    assert!(matches!(tree.insert(b"a", b"b"), Err(Error::Poisoned { .. })));
    assert!(tree.scan(ScanBounds::default()).next().unwrap().is_err());
}
