//! The order of van Emde Boas: a binary tree in which the way from the root to a leaf lies in
//! few runs of places, whatever their length.
//!
//! ```text
//!   the upper half of the tree │ its 2^t subtrees, one after the other; each of them alike
//! ```

use crate::parameter::{BadParameter, require};

/// The order of a complete binary tree.
///
/// ```
/// use alluvium_model::pdam::VanEmdeBoas;
/// let order = VanEmdeBoas::new(4)?;
/// // The root and its children, then the first subtree below them.
/// let places: Vec<u64> = [1, 2, 3, 4, 8, 9, 5].map(|position| order.place(position)).into();
/// assert_eq!(places, [0, 1, 2, 3, 4, 5, 6]);
/// # Ok::<(), alluvium_model::BadParameter>(())
/// ```
#[derive(Clone, Debug)]
pub struct VanEmdeBoas {
    /// For each depth but the root's: where a subtree of that depth is cut from the tree above
    /// it.
    cuts: Vec<Cut>,
}

/// A subtree, and the tree above it that is laid out before it.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// How many places the upper tree has.
    upper: u64,
    /// How many each of the subtrees has.
    lower: u64,
    /// The depth of the root of the upper tree.
    root: usize,
}

impl VanEmdeBoas {
    /// Returns the order of a tree with `height` levels.
    ///
    /// # Errors
    /// [`BadParameter`] unless there are 1 to 63 levels.
    pub fn new(height: u32) -> Result<VanEmdeBoas, BadParameter> {
        let fits = (1..64).contains(&height);
        require("the height", f64::from(height), fits, "from 1 to 63")?;
        let none = Cut {
            upper: 0,
            lower: 0,
            root: 0,
        };
        let mut cuts = vec![none; height as usize];
        cut(&mut cuts, 0, height as usize);
        Ok(VanEmdeBoas { cuts })
    }

    /// Returns the number of levels.
    #[must_use]
    pub fn height(&self) -> usize {
        self.cuts.len()
    }

    /// Returns the place of a position. Positions are numbered level by level: the root is 1,
    /// and the children of i are 2i and 2i + 1.
    ///
    /// # Panics
    /// When the tree has no such position.
    #[must_use]
    pub fn place(&self, position: u64) -> u64 {
        assert!(position > 0, "the root is 1");
        let depth = position.ilog2() as usize;
        assert!(depth < self.cuts.len(), "V1: {position} is in the tree");
        let mut place = 0;
        let mut at = depth;
        while at > 0 {
            let cut = self.cuts[at];
            let subtree = (position >> (depth - at)) & cut.upper;
            place += cut.upper + subtree * cut.lower;
            at = cut.root;
        }
        place
    }
}

/// Cuts a tree of `height` levels in half, and each part again.
fn cut(cuts: &mut [Cut], root: usize, height: usize) {
    if height < 2 {
        return;
    }
    let upper = height / 2;
    cuts[root + upper] = Cut {
        upper: (1 << upper) - 1,
        lower: (1 << (height - upper)) - 1,
        root,
    };
    cut(cuts, root, upper);
    cut(cuts, root + upper, height - upper);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_position_has_a_place_of_its_own() {
        for height in 1..=13 {
            let order = VanEmdeBoas::new(height).unwrap();
            let count = (1_u64 << height) - 1;
            let mut taken = vec![false; count as usize];
            for position in 1..=count {
                let place = order.place(position) as usize;
                assert!(
                    !std::mem::replace(&mut taken[place], true),
                    "V1: {height} {place}"
                );
            }
            assert_eq!(order.height(), height as usize);
        }
    }

    #[test]
    fn a_search_in_places_is_a_binary_search() {
        for height in [1, 2, 5, 9, 12] {
            let order = VanEmdeBoas::new(height).unwrap();
            let count = (1_u64 << height) - 1;
            // Put keys in order into the places, then look for each.
            let mut keys = vec![0; count as usize];
            for position in 1..=count {
                let depth = position.ilog2();
                let left = position - (1 << depth);
                keys[order.place(position) as usize] = (2 * left + 1) << (height - 1 - depth);
            }
            for key in 1..=count {
                let mut position = 1;
                loop {
                    let here = keys[order.place(position) as usize];
                    match key.cmp(&here) {
                        std::cmp::Ordering::Less => position *= 2,
                        std::cmp::Ordering::Equal => break,
                        std::cmp::Ordering::Greater => position = 2 * position + 1,
                    }
                    assert!(position <= count, "{key} is found");
                }
            }
        }
    }

    #[test]
    fn a_walk_touches_few_runs_of_every_length() {
        for height in [8_u32, 13, 16] {
            let order = VanEmdeBoas::new(height).unwrap();
            for log in 1..height {
                let run = 1_u64 << log;
                let limit = 4 * height.div_ceil(log);
                for leaf in (1_u64 << (height - 1)..1 << height).step_by(7) {
                    let mut runs: Vec<u64> = (0..height).map(|up| order.place(leaf >> up) / run).collect();
                    runs.sort_unstable();
                    runs.dedup();
                    assert!(runs.len() as u32 <= limit, "{height} {run}: {} runs", runs.len());
                }
            }
        }
    }

    #[test]
    fn trees_without_levels_are_refused() {
        assert_eq!(VanEmdeBoas::new(0).unwrap_err().name, "the height");
        assert!(VanEmdeBoas::new(64).is_err());
    }
}
