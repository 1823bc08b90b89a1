//! What passes each node of a tree whose nodes are divided each in its own way, and which division
//! that asks for.
//!
//! Lookups are counted as they visit a node with a buffer, and messages as they leave it. Counts
//! are in memory only, in a table by the number of the page: pages that share a place share counts,
//! and an addition may be lost. Neither does more harm than a division that is not the best.
//!
//! The costs are those of the thesis's table 4.1, in accesses to pages. A node with n pivots has a
//! part of 1 / ln(n + 1) in the height of the tree. A lookup accesses one page per level. A message
//! has a part in the reading and the writing of a child, to which about b / (n + 1) messages go at
//! once.

use super::node::Shape;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

/// Places of counts.
const PLACES: usize = 4096;
/// What must have passed a node before it is divided again.
const EVIDENCE: u32 = 64;
/// From so much on, counts are halved: what was long ago counts less.
const MEMORY: u32 = 4096;
/// How many divisions are weighed.
const STEPS: u32 = 8;
/// A division is worth its work when it saves a tenth.
const WORTH: f64 = 0.9;
const _: () = assert!(
    PLACES.is_power_of_two() && EVIDENCE < MEMORY && STEPS > 1,
    "a page's place is found by its bits"
);

#[derive(Debug, Default)]
struct Place {
    lookups: AtomicU32,
    messages: AtomicU32,
}

/// Adds without order: another thread's addition may be lost.
fn add(count: &AtomicU32, more: u32) {
    let now = count.load(Ordering::Relaxed);
    count.store(now.saturating_add(more), Ordering::Relaxed);
}

/// A division that nodes may choose.
#[derive(Clone, Copy, Debug)]
struct Division {
    n: usize,
    b: usize,
}

impl Division {
    /// Returns what lookups and messages cost at a node, in accesses to pages.
    fn cost(&self, lookups: f64, messages: f64) -> f64 {
        let children = (self.n + 1) as f64;
        let accesses = 2.0 * (children / self.b.max(1) as f64).min(1.0);
        (lookups + messages * accesses) / children.ln()
    }
}

/// What passes the nodes of a tree.
pub(super) struct Watch {
    places: Box<[Place]>,
    divisions: Vec<Division>,
}

impl Watch {
    pub(super) fn new(shape: &Shape) -> Watch {
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
        let of = |n| Division {
            n,
            b: shape.messages_beside(n),
        };
        Watch {
            places: (0..PLACES).map(|_| Place::default()).collect(),
            divisions: all.into_iter().map(of).collect(),
        }
    }

    fn place(&self, page: u64) -> &Place {
        let at = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACES.ilog2());
        &self.places[at as usize]
    }

    /// Counts a lookup that visits a node.
    pub(super) fn looked_up(&self, page: u64) {
        add(&self.place(page).lookups, 1);
    }

    /// Counts messages that leave a node.
    pub(super) fn passed(&self, page: u64, messages: usize) {
        add(&self.place(page).messages, messages as u32);
    }

    /// Has the right half of a split node take half of what was counted.
    pub(super) fn inherit(&self, left: u64, right: u64) {
        let (from, to) = (self.place(left), self.place(right));
        for (from, to) in [(&from.lookups, &to.lookups), (&from.messages, &to.messages)] {
            let half = from.load(Ordering::Relaxed) / 2;
            from.store(half, Ordering::Relaxed);
            to.store(half, Ordering::Relaxed);
        }
    }

    /// Returns how many pivots a node should have places for, which has them for `now` beside `b`
    /// messages.
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
        let cost = |division: &Division| division.cost(lookups, messages);
        let before = cost(&Division { n: now, b });
        let best = self
            .divisions
            .iter()
            .min_by(|one, other| cost(one).total_cmp(&cost(other)));
        best.filter(|best| cost(best) < WORTH * before)
            .map_or(now, |best| best.n)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("divisions", &self.divisions)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paged::node::TreeSizes;

    fn watch() -> (Watch, Shape) {
        let sizes = TreeSizes {
            key_limit: 8,
            value_limit: 100,
            epsilon_percent: 0,
        };
        let shape = Shape::adaptive((16 << 10) - 40, sizes).unwrap();
        (Watch::new(&shape), shape)
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
        // As many of both ask for something between.
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
