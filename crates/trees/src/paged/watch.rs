//! Counts the accesses to each node of an adaptive tree, and computes from the counts how best to
//! divide a node's space between pivots and messages.
//!
//! A lookup is counted when it visits a node that has a buffer, and a message when it leaves such a
//! node. The counts are kept only in memory, in a hash table indexed by page number. Pages with the
//! same hash share their counts, and concurrent increments may be lost. Either can only make a
//! division less than optimal.
//!
//! The cost model is table 4.1 of the thesis, with costs in page accesses. A node with n pivots
//! contributes 1 / ln(n + 1) to the height of the tree. A lookup accesses one page on each level. A
//! message shares the cost of reading and writing a child with the other messages of its block. A
//! block has about b / (n + 1) messages, where b is the number of messages that fit into the node.

use super::node::NodeShape;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of entries in the hash table of counts.
const PLACES: usize = 4096;
/// Minimum number of accesses to a node before its division may change.
const EVIDENCE: u32 = 64;
/// When a node has been accessed this many times, its counts are halved, so that older accesses
/// carry less weight.
const MEMORY: u32 = 4096;
/// Number of steps from the smallest to the largest number of pivots. The division is evaluated at
/// both ends of each step.
const STEPS: u32 = 8;
/// A node's division changes only if the cost of the new division, relative to that of the present
/// one, is below this ratio.
const WORTH: f64 = 0.9;
const _: () = assert!(
    PLACES.is_power_of_two() && EVIDENCE < MEMORY && STEPS > 1,
    "a page's place is found by its bits"
);

#[derive(Debug, Default)]
struct AccessCounter {
    lookups: AtomicU32,
    messages: AtomicU32,
}

/// Adds `more` to a count without synchronisation. A concurrent addition may be lost.
fn add(count: &AtomicU32, more: u32) {
    let now = count.load(Ordering::Relaxed);
    count.store(now.saturating_add(more), Ordering::Relaxed);
}

/// One way to divide a node's space: enough for `n` pivots and for `b` messages.
#[derive(Clone, Copy, Debug)]
struct NodeDivision {
    n: usize,
    b: usize,
}

impl NodeDivision {
    /// Returns the cost, in page accesses, of the given numbers of lookups and messages at a node
    /// with this division.
    fn cost(&self, lookups: f64, messages: f64) -> f64 {
        let children = (self.n + 1) as f64;
        let accesses = 2.0 * (children / self.b.max(1) as f64).min(1.0);
        (lookups + messages * accesses) / children.ln()
    }
}

/// The access counts of all nodes of a tree.
pub(super) struct NodeAccessCounts {
    places: Box<[AccessCounter]>,
    divisions: Vec<NodeDivision>,
}

impl NodeAccessCounts {
    pub(super) fn new(shape: &NodeShape) -> NodeAccessCounts {
        let bounds = shape.own;
        let (least, most) = bounds.map_or((3, 3), |bounds| (bounds.least, bounds.most));
        assert!(least >= 3 && most >= least, "a node has pivots");
        let mut all: Vec<usize> = (0..=STEPS)
            .map(|step| {
                let part = f64::from(step) / f64::from(STEPS);
                ((least as f64 * (most as f64 / least as f64).powf(part)) as usize | 1).clamp(least, most)
            })
            .collect();
        all.dedup();
        let of = |n| NodeDivision {
            n,
            b: shape.messages_beside(n),
        };
        NodeAccessCounts {
            places: (0..PLACES).map(|_| AccessCounter::default()).collect(),
            divisions: all.into_iter().map(of).collect(),
        }
    }

    fn place(&self, page: u64) -> &AccessCounter {
        let at = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACES.ilog2());
        &self.places[at as usize]
    }

    /// Counts a lookup that visits a node.
    pub(super) fn looked_up(&self, page: u64) {
        add(&self.place(page).lookups, 1);
    }

    /// Counts messages that have left a node.
    pub(super) fn passed(&self, page: u64, messages: usize) {
        add(&self.place(page).messages, messages as u32);
    }

    /// After a split, moves half of the left node's counts to the right node.
    pub(super) fn inherit(&self, left: u64, right: u64) {
        let (from, to) = (self.place(left), self.place(right));
        for (from, to) in [(&from.lookups, &to.lookups), (&from.messages, &to.messages)] {
            let half = from.load(Ordering::Relaxed) / 2;
            from.store(half, Ordering::Relaxed);
            to.store(half, Ordering::Relaxed);
        }
    }

    /// Returns the number of pivots that a node should have space for. At present it has space for
    /// `now` pivots and `b` messages.
    pub(super) fn wanted(&self, page: u64, now: usize, b: usize) -> usize {
        let place = self.place(page);
        let (lookups, messages) = (
            place.lookups.load(Ordering::Relaxed),
            place.messages.load(Ordering::Relaxed),
        );
        let all = lookups.saturating_add(messages);
        if all < EVIDENCE {
            return now;
        }
        if all >= MEMORY {
            place.lookups.store(lookups / 2, Ordering::Relaxed);
            place.messages.store(messages / 2, Ordering::Relaxed);
        }
        let (lookups, messages) = (f64::from(lookups), f64::from(messages));
        let cost = |division: &NodeDivision| division.cost(lookups, messages);
        let before = cost(&NodeDivision { n: now, b });
        let best = self
            .divisions
            .iter()
            .min_by(|one, other| cost(one).total_cmp(&cost(other)));
        best.filter(|best| cost(best) < WORTH * before)
            .map_or(now, |best| best.n)
    }
}

impl fmt::Debug for NodeAccessCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeAccessCounts")
            .field("divisions", &self.divisions)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paged::node::TreeSizes;

    fn watch() -> (NodeAccessCounts, NodeShape) {
        let sizes = TreeSizes {
            key_limit: 8,
            value_limit: 100,
            epsilon_percent: 0,
        };
        let shape = NodeShape::adaptive((16 << 10) - 40, sizes).unwrap();
        (NodeAccessCounts::new(&shape), shape)
    }

    #[test]
    fn lookups_ask_for_pivots_and_messages_for_a_buffer() {
        let (watch, shape) = watch();
        let bounds = shape.own.unwrap();
        let wanted = |page, now| watch.wanted(page, now, shape.messages_beside(now));
        assert_eq!(wanted(1, 23), 23, "nothing has passed");
        (0..63).for_each(|_| watch.looked_up(1));
        assert_eq!(wanted(1, 23), 23, "too little has passed");
        watch.looked_up(1);
        assert_eq!(wanted(1, 23), bounds.most);
        watch.passed(2, 100);
        assert_eq!(wanted(2, 23), bounds.least);
        assert_eq!(wanted(2, bounds.least), bounds.least);
        // With equal numbers of lookups and messages, the best division is between the two
        // extremes.
        watch.passed(3, 1000);
        (0..1000).for_each(|_| watch.looked_up(3));
        let between = wanted(3, bounds.most);
        assert!(between > bounds.least && between < bounds.most / 4, "{between}");
        assert_eq!(wanted(3, between), between);
    }

    #[test]
    fn what_was_long_ago_counts_less_and_halves_inherit() {
        let (watch, shape) = watch();
        let bounds = shape.own.unwrap();
        let wanted = |page, now| watch.wanted(page, now, shape.messages_beside(now));
        (0..100_000).for_each(|_| watch.looked_up(1));
        for _ in 0..40 {
            watch.passed(1, 66);
            wanted(1, 23);
        }
        assert!(wanted(1, bounds.most) < bounds.most / 4, "lookups are forgotten");
        watch.passed(5, 1000);
        watch.inherit(5, 6);
        assert_eq!((wanted(5, 23), wanted(6, 23)), (bounds.least, bounds.least));
        assert_eq!(watch.place(6).messages.load(Ordering::Relaxed), 500);
    }
}
