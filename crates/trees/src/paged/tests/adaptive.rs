//! Tests of adaptive nodes, which divide their space according to the numbers of lookups and
//! messages.

use super::*;
use crate::paged::node::{PageContentKind, kind};

fn scrambled(number: u64) -> [u8; 8] {
    key(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn tree(page_bytes: usize, merging: UnderfullPolicy) -> BepsTree<PageArena> {
    let options = BepsOptions {
        merging,
        epsilon: EpsilonMode::Adaptive,
        ..options(0, RootStyle::Separate, FlushOrder::Level, Arc::new(Sum))
    };
    BepsTree::create(PageArena::new(page_bytes).unwrap(), options).unwrap()
}

/// Returns the average number of pivots that nodes with buffers have space for.
fn places(tree: &BepsTree<PageArena>) -> f64 {
    let pages = tree.examine().unwrap().pages;
    let (mut nodes, mut places) = (0, 0);
    for page in pages {
        let node = tree.buffer().pin_shared(page).unwrap();
        if kind(&node) == Some(PageContentKind::Buffered) {
            nodes += 1;
            places += tree.shape().pivots_of(&node).capacity();
        }
    }
    assert!(nodes > 10, "{nodes} nodes");
    places as f64 / f64::from(nodes)
}

/// Inserts keys, with `lookups` random lookups after each insertion.
fn work(tree: &BepsTree<PageArena>, from: u64, to: u64, lookups: u64) {
    let mut rng = fastrand::Rng::with_seed(to);
    for number in from..to {
        tree.insert(&scrambled(number), &number.to_le_bytes()).unwrap();
        for _ in 0..lookups {
            let wanted = rng.u64(..=number);
            let found = tree.get(&scrambled(wanted)).unwrap();
            assert_eq!(found.as_deref(), Some(&wanted.to_le_bytes()[..]));
        }
    }
}

#[test]
fn writers_ask_for_buffers_and_readers_for_pivots() {
    for merging in [UnderfullPolicy::Never, UnderfullPolicy::UnderFull] {
        let (written, read) = (tree(2048, merging), tree(2048, merging));
        let bounds = written.shape().own.unwrap();
        work(&written, 0, 16_000, 0);
        work(&read, 0, 16_000, 12);
        let (of_written, of_read) = (places(&written), places(&read));
        assert!(of_written < 8.0, "{of_written} of {bounds:?}");
        assert!(of_read > bounds.most as f64 * 0.7, "{of_read} of {bounds:?}");
        let (written, read) = (written.examine().unwrap(), read.examine().unwrap());
        assert!(
            read.height < written.height && read.inner < written.inner,
            "{} {}",
            read.height,
            written.height
        );
        assert!(written.found.is_empty() && read.found.is_empty());
    }
}

#[test]
fn nodes_follow_when_what_passes_them_changes() {
    let tree = tree(2048, UnderfullPolicy::Never);
    let bounds = tree.shape().own.unwrap();
    work(&tree, 0, 12_000, 12);
    let of_readers = places(&tree);
    let messages = |tree: &BepsTree<PageArena>| {
        let (flushes, moved) = (tree.statistics().flushes, tree.statistics().moved);
        (flushes, moved)
    };
    let before = messages(&tree);
    work(&tree, 12_000, 60_000, 0);
    let (of_writers, after) = (places(&tree), messages(&tree));
    // A node that is split gets space for fewer pivots.
    assert!(
        of_writers < of_readers * 0.75,
        "{of_readers} {of_writers} of {bounds:?}"
    );
    assert!(after.1 - before.1 > after.0 - before.0, "blocks have messages");
    assert!(tree.statistics().divisions > 50, "{:?}", tree.statistics());
    assert!(tree.examine().unwrap().found.is_empty());
    let tree = self::tree(2048, UnderfullPolicy::Never);
    work(&tree, 0, 12_000, 0);
    let of_writers = places(&tree);
    work(&tree, 12_000, 24_000, 12);
    assert!(places(&tree) > of_writers * 2.0, "{of_writers} {}", places(&tree));
    assert!(tree.examine().unwrap().found.is_empty());
}

#[test]
fn a_lookup_divides_no_node() {
    let tree = tree(1024, UnderfullPolicy::UnderFull);
    work(&tree, 0, 5000, 0);
    let pages = tree.examine().unwrap().pages;
    let bytes = || -> Vec<Vec<u8>> {
        let of = |page: &u64| tree.buffer().pin_shared(*page).unwrap().to_vec();
        pages.iter().map(of).collect()
    };
    let (before, divisions) = (bytes(), tree.statistics().divisions);
    for number in 0..20_000 {
        assert!(tree.get(&scrambled(number % 5000)).unwrap().is_some());
    }
    assert_eq!(tree.scan(ScanBounds::default()).rev().count(), 5000);
    assert!(before == bytes() && tree.statistics().divisions == divisions);
}
