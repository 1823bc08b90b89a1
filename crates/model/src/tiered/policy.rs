//! The tree's policies, applied to simulated nodes. They match those of `alluvium_trees::tiered`,
//! whose `policy.rs` explains them.

use super::parameters::TreeShape;

/// Returns the index of the child that a node must flush to next, or `None` if no flush is due.
/// `children` holds the number of bytes and the number of runs of each child.
pub(super) fn flush(shape: &TreeShape, children: &[(f64, usize)]) -> Option<usize> {
    let most = |less: &dyn Fn(usize, usize) -> bool| {
        (0..children.len()).reduce(|best, other| if less(best, other) { other } else { best })
    };
    let crowded = most(&|one, other| children[one].1 <= children[other].1)?;
    if children[crowded].1 > 3 * shape.fanout as usize {
        return Some(crowded);
    }
    let fullest = most(&|one, other| children[one].0 < children[other].0)?;
    let total: f64 = children.iter().map(|child| child.0).sum();
    let is_due = children[fullest].0 > shape.node_bytes() / 2.0 || total > shape.node_bytes();
    is_due.then_some(fullest)
}

/// A leaf with at least this fraction of obsolete versions is rewritten.
pub(super) const STALE: f64 = 0.34;

/// Crowding of the tree below which compactions also reclaim space.
const BUSY: f64 = 0.75;

/// Returns how many pieces a leaf must be split into, or 1 if no split is due.
pub(super) fn pieces_of_leaf(shape: &TreeShape, bytes: f64, stale: f64) -> usize {
    let most = shape.node_bytes();
    if bytes > most && (stale < STALE || bytes > 2.0 * most) {
        (bytes / (most / 2.0)).ceil().max(2.0) as usize
    } else {
        1
    }
}

/// Returns whether a compaction must rewrite a whole leaf.
pub(super) fn rewrites(shape: &TreeShape, bytes: f64, stale: f64, crowding: f64) -> bool {
    let most = shape.node_bytes();
    if stale < STALE {
        return false;
    }
    if bytes > most {
        bytes <= 2.0 * most
    } else {
        crowding < BUSY
    }
}

/// Returns whether a leaf has enough runs that its oldest ones must be merged.
pub(super) fn is_crowded(shape: &TreeShape, runs: usize) -> bool {
    runs > 2 * shape.fanout as usize
}

/// Returns how many of a leaf's oldest groups must be merged into one run. `groups` holds the
/// number of runs and bytes of each group, oldest first.
pub(super) fn oldest(shape: &TreeShape, groups: &[(usize, f64)]) -> usize {
    let fanout = shape.fanout as usize;
    let mut left: usize = groups.iter().map(|group| group.0).sum();
    if left <= fanout {
        return 0;
    }
    let (mut count, mut runs, mut bytes) = (0, 0, 0.0);
    for &(more, more_bytes) in groups {
        let enough = left <= fanout && runs >= 2;
        if enough && more_bytes > bytes / 2.0 {
            break;
        }
        (count, runs, bytes, left) = (count + 1, runs + more, bytes + more_bytes, left - more);
    }
    count
}

/// Returns how many pieces an index node must be split into, or 1 if no split is due.
pub(super) fn pieces_of_index(shape: &TreeShape, children: usize, is_root: bool) -> usize {
    let fanout = shape.fanout as usize;
    let most = if is_root { 2 * fanout } else { fanout };
    if children <= most {
        1
    } else {
        children.div_ceil((fanout * 3 / 4).max(2))
    }
}

/// Number of similarly sized maplets that are merged.
const TIER: usize = 4;
/// Maximum number of runs that a maplet can tell apart.
const MOST_RUNS: usize = 64;

/// Returns how many of the newest maplets must be merged with the fingerprints of a new run. `runs`
/// holds the number of runs of each maplet, and `shares` whether enough of it belongs to the
/// pivot's range.
pub(super) fn maplets(runs: &[usize], shares: &[bool]) -> usize {
    let (mut start, mut size) = (runs.len(), 1);
    loop {
        let alike = (0..start)
            .rev()
            .take_while(|&index| shares[index] && runs[index] <= size)
            .take(TIER - 1)
            .count();
        if alike < TIER - 1 {
            return runs.len() - start;
        }
        start -= alike;
        size = 1 + runs[start..].iter().sum::<usize>();
        if size > MOST_RUNS {
            return runs.len() - start - alike;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: TreeShape = TreeShape {
        memtable_bytes: 100.0,
        overhead_bytes: 0.0,
        fanout: 4,
        page_bytes: 4096,
        fingerprint_bits: 33,
        half_bandwidth: 1 << 17,
    };

    #[test]
    fn decisions_are_those_of_the_tree() {
        // The tests of `alluvium_trees::tiered::policy` have the same cases.
        let flushed = |children: &[(f64, usize)]| flush(&SHAPE, children);
        assert_eq!(flushed(&[(100.0, 2), (200.0, 2), (100.0, 2)]), None);
        assert_eq!(flushed(&[(100.0, 2), (201.0, 2), (100.0, 2)]), Some(1));
        assert_eq!(flushed(&[(201.0, 2), (201.0, 2), (1.0, 2)]), Some(0));
        assert_eq!(flushed(&[(1.0, 12), (1.0, 13)]), Some(1));
        assert_eq!(flushed(&[]), None);
        assert_eq!(pieces_of_leaf(&SHAPE, 401.0, 0.0), 3);
        assert_eq!(pieces_of_leaf(&SHAPE, 401.0, 0.5), 1);
        assert_eq!(pieces_of_leaf(&SHAPE, 801.0, 0.5), 5);
        assert!(rewrites(&SHAPE, 401.0, 0.5, 2.0) && !rewrites(&SHAPE, 100.0, 0.5, 1.0));
        let bytes = |list: &[f64]| oldest(&SHAPE, &list.iter().map(|&b| (1, b)).collect::<Vec<_>>());
        assert_eq!(bytes(&[1.0, 2.0, 3.0, 4.0]), 0);
        assert_eq!(bytes(&[1.0, 2.0, 4.0, 8.0, 50.0, 100.0, 100.0]), 3);
        assert_eq!(pieces_of_index(&SHAPE, 9, true), 3);
        assert_eq!(pieces_of_index(&SHAPE, 8, true), 1);
        let merged = |runs: &[usize]| maplets(runs, &vec![true; runs.len()]);
        assert_eq!(
            (merged(&[1, 1]), merged(&[1, 1, 1]), merged(&[4, 1, 1, 1])),
            (0, 3, 3)
        );
        assert_eq!(merged(&[4, 4, 4, 1, 1, 1]), 6);
        assert_eq!(merged(&[64, 16, 16, 16, 4, 4, 4, 1, 1, 1]), 9);
    }
}
