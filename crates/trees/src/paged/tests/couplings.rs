//! Tests of readers that hold one latch at a time, or none: how they react if a node changes before
//! they reach its child.

use super::coupling::{Watched, count_leaps};
use super::*;
use crate::paged::buffer::{FrameHint, LatchFreeAccess, OptimisticPage, PageReadGuard};
use std::sync::atomic::Ordering;

impl LatchFreeAccess for Watched {
    fn keep_snapshots(&self) {
        self.arena.keep_snapshots();
    }
    fn offer(&self, page: &PageReadGuard<'_>) {
        self.arena.offer(page);
    }
    fn peek(&self, page: u64, way: Option<&FrameHint>) -> Option<OptimisticPage<'_>> {
        self.tell(page);
        self.arena.peek(page, way)
    }
}

#[test]
fn a_reader_with_one_latch_at_a_time_leaves_a_node_first() {
    let tree = BplusTree::create(Watched::new(), 8, 8, Arc::new(Sum)).unwrap();
    (0..2500).for_each(|number| tree.insert(&key(number), b"12345678").unwrap());
    let leaps = count_leaps(tree.buffer(), tree.core.root);
    let tree = tree.coupled_by(LatchCoupling::Optimistic);
    tree.get(&key(5)).unwrap();
    assert!(leaps.load(Ordering::Relaxed) > 0);
}

/// Reads keys. During each read, when the reader has left a node but not reached its child,
/// messages for the key are moved to the leaves.
fn read_while_messages_move(coupling: LatchCoupling) {
    let options = options(50, RootStyle::Separate, FlushOrder::Level, Arc::new(Sum));
    let tree = BepsTree::create(Watched::new(), options).unwrap();
    let tree = Arc::new(tree.coupled_by(coupling));
    let at = |number: u64| key(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (0..4000).for_each(|number| tree.insert(&at(number), &number.to_le_bytes()).unwrap());
    let number = |value: Option<Vec<u8>>| value.map(|value| u64::from_le_bytes(value.try_into().unwrap()));
    // If the tree uses snapshots, reads a key until the nodes on its path have them.
    let read_often = |tree: &BepsTree<Watched>, key: &[u8]| {
        (0..40).for_each(|_| drop(tree.get(key).unwrap()));
    };
    let root = tree.core.root;
    for read in (0..4000).step_by(97) {
        for pins in 1..6 {
            // The update is buffered in an upper node.
            let before = number(tree.get(&at(read)).unwrap()).unwrap();
            tree.update(&at(read), &1000u64.to_le_bytes()).unwrap();
            read_often(&tree, &at(read));
            let (moved, mut below) = (Arc::clone(&tree), 0);
            tree.buffer().watch(move |_, page| {
                below += u64::from(page != root);
                if below == pins {
                    // When the reader has left a node but not reached the child, the message that
                    // it has seen is moved to the child.
                    moved.flush_all().unwrap();
                    read_often(&moved, &at(read));
                }
                below < pins
            });
            assert_eq!(
                number(tree.get(&at(read)).unwrap()),
                Some(before + 1000),
                "{read}"
            );
            let range = ScanBounds {
                from: Some(at(read).to_vec()),
                below: None,
            };
            let (_, first) = tree.scan(range).next().unwrap().unwrap();
            assert_eq!(number(Some(first)), Some(before + 1000), "{read} in a scan");
            tree.buffer().watch(|_, _| false);
            tree.get(&at(read)).unwrap();
        }
    }
    assert!(tree.statistics().restarts > 100, "{:?}", tree.statistics());
    assert!(tree.examine().unwrap().found.is_empty());
}

#[test]
fn a_reader_that_left_a_node_sees_messages_that_moved_once() {
    read_while_messages_move(LatchCoupling::Optimistic);
    read_while_messages_move(LatchCoupling::Versions);
}

#[test]
fn nodes_with_snapshots_are_neither_latched_nor_pinned() {
    let tree = BplusTree::create(Watched::new(), 8, 8, Arc::new(Sum)).unwrap();
    let tree = tree.coupled_by(LatchCoupling::Versions);
    (0..3000).for_each(|number| tree.insert(&key(number), &number.to_le_bytes()).unwrap());
    let latches = || tree.buffer().latches.load(Ordering::Relaxed);
    let read_all = || {
        for number in 0..3000 {
            let found = tree.get(&key(number)).unwrap();
            assert_eq!(found.as_deref(), Some(&number.to_le_bytes()[..]));
        }
    };
    assert!(tree.core.height().unwrap() >= 2);
    read_all();
    let before = latches();
    read_all();
    assert_eq!(
        latches() - before,
        3000,
        "of each descent the leaf alone is latched"
    );
    // The same is true for writers that change only leaves.
    (0..3000).for_each(|number| tree.insert(&key(number), &number.to_le_bytes()).unwrap());
    assert_eq!(latches() - before, 6000);
    assert_eq!(tree.core.counters.restarts.load(Ordering::Relaxed), 0);
}

#[test]
fn what_a_node_said_before_it_was_changed_does_not_count() {
    let tree = BplusTree::create(Watched::new(), 8, 8, Arc::new(Sum)).unwrap();
    let tree = tree.coupled_by(LatchCoupling::Versions);
    (0..300).for_each(|number| tree.insert(&key(number), &number.to_le_bytes()).unwrap());
    (0..40).for_each(|_| drop(tree.get(&key(5)).unwrap()));
    let root = tree.core.begin(LatchCoupling::Versions).unwrap();
    let look = || tree.core.look(&root, &key(5), &mut Vec::new());
    assert!(look().is_some());
    drop(tree.buffer().pin_exclusive(tree.core.root).unwrap());
    assert_eq!(look(), None);
}

#[test]
fn descents_by_references_that_remember_take_no_mutex() {
    for coupling in [
        LatchCoupling::Latched,
        LatchCoupling::Optimistic,
        LatchCoupling::Versions,
    ] {
        let means = Means::of(PinPolicy::Swizzled, coupling, 1);
        let tree = BplusTree::create(pool(1024, 400, 100, means), 8, 8, Arc::new(Sum)).unwrap();
        let tree = tree.coupled_by(coupling);
        let use_all = || {
            for number in 0..3000 {
                tree.insert(&key(number), &number.to_le_bytes()).unwrap();
                let found = tree.get(&key(number)).unwrap();
                assert_eq!(found.as_deref(), Some(&number.to_le_bytes()[..]));
            }
            assert_eq!(tree.pairs(ScanBounds::default(), true).len(), 3000);
        };
        use_all();
        use_all();
        let before = tree.buffer().locked_pins();
        use_all();
        assert_eq!(tree.buffer().locked_pins(), before, "{coupling:?}");
    }
}

/// Writes keys. During each write, when the writer is between the root and its child, other keys
/// are written that split the child.
fn split_under_writers<T: Subject + Send + 'static>(
    tree: &Arc<T>,
    buffer: impl Fn(&T) -> &Watched,
    root: u64,
) {
    let value = |number: u64| number.to_le_bytes();
    // The keys are neighbours. The middle key is written last, and belongs to the right half after
    // the split.
    let near = |group: u64, at: u64| key(group << 32 | at);
    for group in 0..60 {
        (0..40).for_each(|_| drop(tree.get(&near(group, 70)).unwrap()));
        let others = Arc::clone(tree);
        buffer(tree).watch(move |_, page| {
            if page == root {
                return true;
            }
            for at in (0..80).filter(|at| *at != 70) {
                others.insert(&near(group, at), &value(at)).unwrap();
            }
            false
        });
        tree.insert(&near(group, 70), &value(70)).unwrap();
        buffer(tree).watch(|_, _| false);
    }
    let examined = tree.examine();
    assert_eq!(examined.found, [""; 0]);
    for (number, (found, held)) in tree.pairs(ScanBounds::default(), false).into_iter().enumerate() {
        let (group, at) = (number as u64 / 80, number as u64 % 80);
        assert_eq!((&found[..], &held[..]), (&near(group, at)[..], &value(at)[..]));
    }
    for group in 0..60 {
        assert_eq!(
            tree.get(&near(group, 70)).unwrap().as_deref(),
            Some(&value(70)[..])
        );
    }
}

#[test]
fn a_writer_that_left_a_node_whose_child_was_split_begins_again() {
    for coupling in [LatchCoupling::Optimistic, LatchCoupling::Versions] {
        for epsilon in [0, 60] {
            let options = options(epsilon, RootStyle::Separate, FlushOrder::Level, Arc::new(Sum));
            let tree = BepsTree::create(Watched::new(), options).unwrap();
            (0..200).for_each(|number| tree.insert(&key(1 << 60 | number), b"12345678").unwrap());
            (0..200).for_each(|number| tree.delete(&key(1 << 60 | number)).unwrap());
            let (root, tree) = (tree.core.root, Arc::new(tree.coupled_by(coupling)));
            split_under_writers(&tree, BepsTree::buffer, root);
            assert!(tree.statistics().restarts > 10, "{:?}", tree.statistics());
        }
        let tree = BplusTree::create(Watched::new(), 8, 8, Arc::new(Sum)).unwrap();
        (0..200).for_each(|number| tree.insert(&key(1 << 60 | number), b"12345678").unwrap());
        (0..200).for_each(|number| tree.delete(&key(1 << 60 | number)).unwrap());
        let (root, tree) = (tree.core.root, Arc::new(tree.coupled_by(coupling)));
        split_under_writers(&tree, BplusTree::buffer, root);
        assert!(tree.core.counters.restarts.load(Ordering::Relaxed) > 10);
    }
}

/// Reads keys. During each read, when the reader is between a node and its child, the key's
/// neighbours are deleted.
fn read_what_is_merged<T: Subject + Send + 'static>(
    tree: T,
    buffer: impl Fn(&T) -> &Watched,
    root: u64,
) -> u64 {
    let tree = Arc::new(tree);
    let put = |number: u64| tree.insert(&key(number), &number.to_le_bytes()).unwrap();
    let mut merges = 0;
    for round in 0..40u64 {
        (0..1200).for_each(put);
        tree.flush_all().unwrap();
        let (read, pins) = (30 * round, round % 3 + 1);
        let (moved, before, mut below) = (Arc::clone(&tree), tree.used(), 0);
        buffer(&tree).watch(move |_, page| {
            below += u64::from(page != root);
            if below == pins {
                let others = (0..1200).filter(|number| *number != read);
                others.for_each(|number| moved.delete(&key(number)).unwrap());
                moved.flush_all().unwrap();
            }
            below < pins
        });
        let found = tree.get(&key(read)).unwrap();
        assert_eq!(found.as_deref(), Some(&read.to_le_bytes()[..]), "{read}");
        buffer(&tree).watch(|_, _| false);
        merges += before - tree.used();
        assert_eq!(tree.pairs(ScanBounds::default(), false).len() % 1199, 1, "{read}");
    }
    assert_eq!(tree.examine().found, [""; 0]);
    merges
}

#[test]
fn a_reader_whose_node_was_merged_away_begins_again() {
    let operator: Arc<dyn UpdateOperator> = Arc::new(Sum);
    let merging = UnderfullPolicy::UnderFull;
    for epsilon in [0, 60] {
        let options = BepsOptions {
            merging,
            ..options(
                epsilon,
                RootStyle::Separate,
                FlushOrder::Level,
                Arc::clone(&operator),
            )
        };
        let tree = BepsTree::create(Watched::new(), options).unwrap();
        let (root, tree) = (tree.core.root, tree.coupled_by(LatchCoupling::Optimistic));
        assert!(read_what_is_merged(tree, BepsTree::buffer, root) > 1000);
    }
    let tree = BplusTree::create_merging(Watched::new(), (8, 8), operator, merging).unwrap();
    let (root, tree) = (tree.core.root, tree.coupled_by(LatchCoupling::Optimistic));
    assert!(read_what_is_merged(tree, BplusTree::buffer, root) > 1000);
}
