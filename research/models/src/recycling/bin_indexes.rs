//! Indexes over bins, for finding the next non-empty bin and the fullest bin.

/// A set of small integers that finds the next member in a few steps: each bit of a level tells
/// whether a word of the level below has members.
#[derive(Clone, Debug)]
pub(super) struct IntegerSet {
    levels: Vec<Vec<u64>>,
}

impl IntegerSet {
    /// Creates an empty set of integers below `count`.
    pub(super) fn new(count: usize) -> IntegerSet {
        let mut levels = Vec::new();
        let mut words = count.div_ceil(64).max(1);
        loop {
            levels.push(vec![0; words]);
            if words == 1 {
                return IntegerSet { levels };
            }
            words = words.div_ceil(64);
        }
    }

    pub(super) fn insert(&mut self, mut number: usize) {
        for level in &mut self.levels {
            let word = &mut level[number / 64];
            let known = *word != 0;
            *word |= 1 << (number % 64);
            if known {
                return;
            }
            number /= 64;
        }
    }

    pub(super) fn remove(&mut self, mut number: usize) {
        for level in &mut self.levels {
            let word = &mut level[number / 64];
            *word &= !(1 << (number % 64));
            if *word != 0 {
                return;
            }
            number /= 64;
        }
    }

    /// Returns the smallest member that is at least `from`.
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        let mut at = from;
        for (height, level) in self.levels.iter().enumerate() {
            let rest = level
                .get(at / 64)
                .map_or(0, |word| word & (u64::MAX << (at % 64)));
            if rest != 0 {
                let mut found = at / 64 * 64 + rest.trailing_zeros() as usize;
                for below in self.levels[..height].iter().rev() {
                    found = found * 64 + below[found].trailing_zeros() as usize;
                }
                return Some(found);
            }
            at = at / 64 + 1;
        }
        None
    }
}

/// Counts with their maximum: a tree in which each node holds the greater of its children.
#[derive(Clone, Debug)]
pub(super) struct TournamentTree {
    /// The root is at index 1, and the leaves are in the second half.
    nodes: Vec<u32>,
}

impl TournamentTree {
    pub(super) fn new(count: usize) -> TournamentTree {
        TournamentTree {
            nodes: vec![0; 2 * count.next_power_of_two().max(1)],
        }
    }

    pub(super) fn increase(&mut self, index: usize) {
        let mut node = index + self.nodes.len() / 2;
        let value = self.nodes[node] + 1;
        while node > 0 && self.nodes[node] < value {
            self.nodes[node] = value;
            node /= 2;
        }
    }

    pub(super) fn clear(&mut self, index: usize) {
        let mut node = index + self.nodes.len() / 2;
        self.nodes[node] = 0;
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node].max(self.nodes[2 * node + 1]);
        }
    }

    /// Returns the index of the largest count; the first on a tie.
    pub(super) fn first(&self) -> usize {
        let half = self.nodes.len() / 2;
        let mut node = 1;
        while node < half {
            node = 2 * node + usize::from(self.nodes[2 * node] < self.nodes[2 * node + 1]);
        }
        node - half
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_model::SplitMix64;
    use std::collections::BTreeSet;

    #[test]
    fn the_next_member_is_that_of_a_plain_set() {
        for count in [1, 63, 64, 65, 5000, 300_000] {
            let mut random = SplitMix64::from_seed(count as u64);
            let (mut members, mut plain) = (IntegerSet::new(count), BTreeSet::new());
            for _ in 0..4000 {
                let number = random.below(count);
                if random.below(2) == 0 {
                    members.insert(number);
                    plain.insert(number);
                } else {
                    members.remove(number);
                    plain.remove(&number);
                }
                let from = random.below(count + 2);
                assert_eq!(members.next(from), plain.range(from..).next().copied());
            }
        }
    }

    #[test]
    fn the_largest_count_is_the_first_of_several() {
        for count in [1, 2, 7, 100] {
            let mut random = SplitMix64::from_seed(count as u64);
            let (mut largest, mut plain) = (TournamentTree::new(count), vec![0_u32; count]);
            for _ in 0..3000 {
                let index = random.below(count);
                if random.below(9) == 0 {
                    largest.clear(index);
                    plain[index] = 0;
                } else {
                    largest.increase(index);
                    plain[index] += 1;
                }
                let most = plain.iter().max().unwrap();
                let wanted = plain.iter().position(|count| count == most).unwrap();
                assert_eq!(largest.first(), wanted);
            }
        }
    }
}
