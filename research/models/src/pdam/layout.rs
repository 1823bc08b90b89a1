//! The van Emde Boas order: a layout of a binary tree in which the path from the root to a leaf
//! crosses few contiguous runs, for every run length.
//!
//! ```text
//!   the upper half of the tree │ its 2^t subtrees, one after the other; each of them alike
//! ```

use alluvium_model::parameter::{BadParameter, require};

/// The van Emde Boas order of a binary search tree. All levels are full except the last, which is
/// filled from the left.
///
/// ```
/// use research_models::pdam::VanEmdeBoas;
/// let order = VanEmdeBoas::new(4)?;
/// // The root and its children, then the first subtree below them.
/// let places: Vec<u64> = [1, 2, 3, 4, 8, 9, 5].map(|position| order.place(position)).into();
/// assert_eq!(places, [0, 1, 2, 3, 4, 5, 6]);
///
/// // Any number of keys: the fourth in order is the root of six.
/// let order = VanEmdeBoas::of(6)?;
/// assert_eq!((order.position(3), order.rank(1)), (1, 3));
/// # Ok::<(), alluvium_model::BadParameter>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VanEmdeBoas {
    /// For each depth except the root's, the cut between the subtree at that depth and the tree
    /// above it.
    cuts: Vec<SubtreeCut>,
    count: u64,
    /// The number of positions on the last level.
    last: u64,
}

/// A cut between a subtree and the upper tree, which precedes it in the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SubtreeCut {
    /// The number of places of the upper tree. It contains no part of the last level.
    upper: u64,
    /// The number of levels of each full subtree.
    levels: u32,
    /// The depth of the root of the upper tree.
    root: usize,
}

impl VanEmdeBoas {
    /// Returns the order of a full tree with `height` levels.
    ///
    /// # Errors
    /// [`BadParameter`] unless there are 1 to 63 levels.
    pub fn new(height: u32) -> Result<VanEmdeBoas, BadParameter> {
        let fits = (1..64).contains(&height);
        require("the height", f64::from(height), fits, "from 1 to 63")?;
        VanEmdeBoas::of((1 << height) - 1)
    }

    /// Returns the order of a tree with `count` positions.
    ///
    /// # Errors
    /// [`BadParameter`] unless `count` is 1 to 2^63 − 1.
    pub fn of(count: u64) -> Result<VanEmdeBoas, BadParameter> {
        let fits = (1..1 << 63).contains(&count);
        require("the positions", count as f64, fits, "from 1 to 2^63 - 1")?;
        let height = count.ilog2() as usize + 1;
        let none = SubtreeCut {
            upper: 0,
            levels: 0,
            root: 0,
        };
        let mut cuts = vec![none; height];
        cut(&mut cuts, 0, height);
        Ok(VanEmdeBoas {
            cuts,
            count,
            last: count - ((1 << (height - 1)) - 1),
        })
    }

    /// Returns the number of levels.
    #[must_use]
    pub fn height(&self) -> usize {
        self.cuts.len()
    }

    /// Returns the number of positions.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the place of a position. Positions are numbered level by level: the root is 1,
    /// and the children of i are 2i and 2i + 1.
    ///
    /// # Panics
    /// When the tree does not have this position.
    #[must_use]
    pub fn place(&self, position: u64) -> u64 {
        self.check(position);
        let depth = position.ilog2() as usize;
        let mut place = 0;
        let mut at = depth;
        while at > 0 {
            let cut = self.cuts[at];
            let before = (position >> (depth - at)) & cut.upper;
            place += cut.upper + self.below(cut, at, position >> (depth - cut.root), before);
            at = cut.root;
        }
        place
    }

    /// Returns the number of places occupied by the first `before` subtrees at depth `at` of the
    /// tree with the root `root`.
    fn below(&self, cut: SubtreeCut, at: usize, root: u64, before: u64) -> u64 {
        if at + (cut.levels as usize) < self.height() {
            return before * ((1 << cut.levels) - 1);
        }
        // The subtrees end on the last level, which is filled from the left.
        let whole = before * ((1 << (cut.levels - 1)) - 1);
        let leaves = 1_u64 << (self.height() - 1 - cut.root);
        let elsewhere = (root - (1 << cut.root)) * leaves;
        whole
            + self
                .last
                .saturating_sub(elsewhere)
                .min(before << (cut.levels - 1))
    }

    /// Returns the number of positions that precede this position in key order.
    ///
    /// # Panics
    /// When the tree does not have this position.
    #[must_use]
    pub fn rank(&self, position: u64) -> u64 {
        self.check(position);
        let depth = position.ilog2();
        let left = position - (1 << depth);
        let in_full = ((2 * left + 1) << (self.height() as u32 - 1 - depth)) - 1;
        // Every second rank of the full tree is on the last level.
        in_full - in_full.div_ceil(2).saturating_sub(self.last)
    }

    /// Returns the position with `rank` positions before it in key order.
    ///
    /// # Panics
    /// When the tree has no more than `rank` positions.
    #[must_use]
    pub fn position(&self, rank: u64) -> u64 {
        assert!(rank < self.count, "V1: {rank} is one of {}", self.count);
        let in_full = if rank < 2 * self.last {
            rank
        } else {
            2 * (rank - self.last) + 1
        };
        let up = (in_full + 1).trailing_zeros();
        let depth = self.height() as u32 - 1 - up;
        (1 << depth) + ((in_full + 1) >> (up + 1))
    }

    fn check(&self, position: u64) {
        let is_there = (1..=self.count).contains(&position);
        assert!(is_there, "V1: {position} is in the tree of {}", self.count);
    }
}

/// Cuts a tree of `height` levels in half, and each half recursively.
fn cut(cuts: &mut [SubtreeCut], root: usize, height: usize) {
    if height < 2 {
        return;
    }
    let upper = height / 2;
    cuts[root + upper] = SubtreeCut {
        upper: (1 << upper) - 1,
        levels: (height - upper) as u32,
        root,
    };
    cut(cuts, root, upper);
    cut(cuts, root + upper, height - upper);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Several full trees and several incomplete ones.
    fn orders() -> impl Iterator<Item = VanEmdeBoas> {
        let counts = (1..=300).chain([511, 512, 1000, 4095, 8190, 8192]);
        counts.map(|count| VanEmdeBoas::of(count).unwrap())
    }

    #[test]
    fn each_position_has_a_place_of_its_own() {
        for order in orders() {
            let count = order.count();
            let mut taken = vec![false; count as usize];
            for position in 1..=count {
                let place = order.place(position) as usize;
                assert!(!std::mem::replace(&mut taken[place], true), "V1: {count} {place}");
            }
            assert_eq!(order.height(), count.ilog2() as usize + 1);
        }
        assert_eq!(VanEmdeBoas::new(9), VanEmdeBoas::of(511));
    }

    #[test]
    fn a_search_in_places_is_a_binary_search() {
        for order in orders() {
            let count = order.count();
            // Puts sorted keys into the places, then searches for each.
            let mut keys = vec![0; count as usize];
            for rank in 0..count {
                let position = order.position(rank);
                assert_eq!(order.rank(position), rank);
                keys[order.place(position) as usize] = rank;
            }
            for key in 0..count {
                let mut position = 1;
                loop {
                    assert!(position <= count, "{key} of {count} is found");
                    let here = keys[order.place(position) as usize];
                    match key.cmp(&here) {
                        std::cmp::Ordering::Less => position *= 2,
                        std::cmp::Ordering::Equal => break,
                        std::cmp::Ordering::Greater => position = 2 * position + 1,
                    }
                }
            }
        }
    }

    #[test]
    fn a_walk_touches_few_runs_of_every_length() {
        for count in [255, 8191, 65_535, 504, 5000, 40_000] {
            let order = VanEmdeBoas::of(count).unwrap();
            let height = order.height() as u32;
            for log in 1..height {
                let run = 1_u64 << log;
                let limit = 4 * height.div_ceil(log);
                for leaf in (count / 2 + 1..=count).step_by(7) {
                    let mut runs: Vec<u64> = (0..=leaf.ilog2())
                        .map(|up| order.place(leaf >> up) / run)
                        .collect();
                    runs.sort_unstable();
                    runs.dedup();
                    assert!(runs.len() as u32 <= limit, "{count} {run}: {} runs", runs.len());
                }
            }
        }
    }

    #[test]
    fn trees_without_levels_are_refused() {
        assert_eq!(VanEmdeBoas::new(0).unwrap_err().name, "the height");
        assert_eq!(VanEmdeBoas::of(0).unwrap_err().name, "the positions");
        assert!(VanEmdeBoas::new(64).is_err() && VanEmdeBoas::of(1 << 63).is_err());
    }
}
