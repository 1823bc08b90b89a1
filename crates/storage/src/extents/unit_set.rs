//! A set of units in which runs can be found quickly: a bitmap and a tree of run lengths.
//!
//! The bitmap has one bit per unit, which is 1 if the unit is in the set. The tree has a leaf for
//! each chunk of 512 units, with the lengths of the run at the chunk's start, the run at its end,
//! and its longest run. An inner node has the same three lengths for its two children combined. The
//! first run of at least `n` units is found by one descent from the root, which takes a dozen steps
//! at 1 TiB. A change updates one path from a leaf to the root. The memory used is one bit per
//! unit, and about 0.05 bytes per unit for the tree.

use std::ops::Range;

/// Number of units that a leaf of the tree covers.
pub(super) const CHUNK: u32 = 512;
const WORDS: usize = (CHUNK / 64) as usize;

const _: () = assert!(CHUNK.is_multiple_of(64) && CHUNK.is_power_of_two());

/// Lengths in units of the first, longest and last run in a tree node's range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RunLengths {
    first: u32,
    longest: u32,
    last: u32,
}

impl RunLengths {
    /// Combines the run lengths of two adjacent ranges of `half` units each.
    fn joined(left: RunLengths, right: RunLengths, half: u32) -> RunLengths {
        debug_assert!(
            left.longest <= half && right.longest <= half,
            "a half has {half} units"
        );
        RunLengths {
            first: if left.first == half {
                half + right.first
            } else {
                left.first
            },
            longest: left.longest.max(right.longest).max(left.last + right.first),
            last: if right.last == half {
                half + left.last
            } else {
                right.last
            },
        }
    }

    fn of(words: &[u64]) -> RunLengths {
        let (mut longest, mut run) = (0, 0);
        let mut first = None;
        for &word in words {
            if word == u64::MAX {
                run += 64;
                continue;
            }
            // The current run ends in the low bits of this word, and another run begins in its high
            // bits.
            let ended = run + word.trailing_ones();
            first.get_or_insert(ended);
            longest = longest.max(ended).max(longest_ones(word));
            run = word.leading_ones();
        }
        RunLengths {
            first: first.unwrap_or(run),
            longest: longest.max(run),
            last: run,
        }
    }
}

/// Returns the length of the longest run of one bits in a word.
fn longest_ones(word: u64) -> u32 {
    // Bit `i` of `starts[k]` is set if a run of at least 2^k ones starts at bit `i`.
    let mut starts = [0; 7];
    let (mut ones, mut power) = (word, 0);
    while ones != 0 {
        starts[power] = ones;
        ones &= ones.unbounded_shr(1 << power);
        power += 1;
    }
    let (mut longest, mut begins) = (0, u64::MAX);
    for (power, &starts) in starts.iter().enumerate().take(power).rev() {
        // The start positions of a run of `longest` ones that is directly followed by a run of
        // 2^`power` ones.
        let longer = begins & starts.unbounded_shr(longest);
        if longer != 0 {
            begins = longer;
            longest += 1 << power;
        }
    }
    longest
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UnitSet {
    words: Vec<u64>,
    /// A binary tree in an array: the root has index 1, the children of node `n` are `2n` and
    /// `2n + 1`, and the leaves begin at index `leaves`.
    tree: Vec<RunLengths>,
    leaves: usize,
    count: u32,
}

impl UnitSet {
    /// Increases the capacity of the set to all units below `units`, without changing its contents.
    pub(super) fn reach(&mut self, units: u32) {
        let chunks = units.div_ceil(CHUNK) as usize;
        if chunks * WORDS > self.words.len() {
            self.words.resize(chunks * WORDS, 0);
        }
        if chunks > self.leaves {
            self.leaves = chunks.next_power_of_two();
            self.rebuild();
        }
    }

    /// Reduces the capacity of the set to the units below `units`. No unit from `units` on may be
    /// in the set.
    pub(super) fn shrink(&mut self, units: u32) {
        let chunks = units.div_ceil(CHUNK) as usize;
        debug_assert!(self.words.iter().skip(chunks * WORDS).all(|&word| word == 0));
        self.words.truncate(chunks * WORDS);
        self.words.shrink_to_fit();
        let leaves = chunks.next_power_of_two();
        // Rebuild the tree only if a quarter of its leaves suffices. Otherwise a file whose length
        // varies around a power of two would cause a rebuild each time.
        if leaves <= self.leaves / 4 {
            self.leaves = leaves;
            self.tree = Vec::new();
            self.rebuild();
        }
    }

    fn rebuild(&mut self) {
        assert!(
            self.words.len() / WORDS <= self.leaves.max(1),
            "a leaf for each chunk"
        );
        self.tree.clear();
        self.tree.resize(2 * self.leaves, RunLengths::default());
        for chunk in 0..self.words.len() / WORDS {
            self.tree[self.leaves + chunk] = self.leaf(chunk);
        }
        for node in (1..self.leaves).rev() {
            self.tree[node] = self.children_joined(node);
        }
    }

    /// Replaces the contents of the set. `word(i)` must return the bits of the 64 units from unit
    /// `64 * i` on.
    pub(super) fn fill(&mut self, units: u32, word: impl Fn(usize) -> u64) {
        self.reach(units);
        for (index, slot) in self.words.iter_mut().enumerate() {
            let below = (u64::from(units)).saturating_sub(index as u64 * 64).min(64) as u32;
            let mask = u64::MAX.checked_shr(64 - below).unwrap_or(0);
            *slot = word(index) & mask;
        }
        self.count = self.words.iter().map(|word| word.count_ones()).sum();
        self.rebuild();
    }

    fn leaf(&self, chunk: usize) -> RunLengths {
        RunLengths::of(&self.words[chunk * WORDS..(chunk + 1) * WORDS])
    }

    fn children_joined(&self, node: usize) -> RunLengths {
        debug_assert!(
            (1..self.leaves).contains(&node),
            "node {node} of {} leaves",
            self.leaves
        );
        // A node one level above the leaves covers two chunks, and each level above it covers twice
        // as many.
        let depth = node.ilog2();
        let half = CHUNK << (self.leaves.ilog2() - depth - 1);
        RunLengths::joined(self.tree[2 * node], self.tree[2 * node + 1], half)
    }

    /// Calls `change` for each word with units of a range, passing a mask of these units.
    fn each_word(range: Range<u32>, mut change: impl FnMut(usize, u64)) {
        let mut at = range.start;
        while at < range.end {
            let bit = at % 64;
            let len = (64 - bit).min(range.end - at);
            change((at / 64) as usize, (u64::MAX >> (64 - len)) << bit);
            at += len;
        }
    }

    fn refresh(&mut self, range: Range<u32>) {
        debug_assert!(range.start < range.end, "{range:?} has units");
        let mut low = self.leaves + (range.start / CHUNK) as usize;
        let mut high = self.leaves + ((range.end - 1) / CHUNK) as usize;
        for leaf in low..=high {
            self.tree[leaf] = self.leaf(leaf - self.leaves);
        }
        while low > 1 {
            (low, high) = (low / 2, high / 2);
            let mut changed = false;
            for node in low..=high {
                let runs = self.children_joined(node);
                changed |= self.tree[node] != runs;
                self.tree[node] = runs;
            }
            if !changed {
                break;
            }
        }
    }

    /// Adds a range of units, none of which may be in the set.
    pub(super) fn insert(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        Self::each_word(range.clone(), |index, mask| {
            assert_eq!(
                self.words[index] & mask,
                0,
                "units {range:?} are in the set already"
            );
            self.words[index] |= mask;
        });
        self.count += range.end - range.start;
        debug_assert!(
            self.count as usize <= self.words.len() * 64,
            "a unit is counted once (X1)"
        );
        self.refresh(range);
    }

    /// Removes a range of units, all of which must be in the set.
    pub(super) fn remove(&mut self, range: Range<u32>) {
        assert!(
            self.contains(range.clone()),
            "units {range:?} are not all in the set"
        );
        self.clear(range);
    }

    /// Removes those units of a range that are in the set. Returns how many there were.
    pub(super) fn clear(&mut self, range: Range<u32>) -> u32 {
        let range = self.inside(range);
        let mut cleared = 0;
        Self::each_word(range.clone(), |index, mask| {
            cleared += (self.words[index] & mask).count_ones();
            self.words[index] &= !mask;
        });
        assert!(
            cleared <= self.count,
            "{cleared} units leave a set of {}",
            self.count
        );
        self.count -= cleared;
        if cleared > 0 {
            self.refresh(range);
        }
        cleared
    }

    /// Adds those units of a range that are not yet in the set.
    pub(super) fn set(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        let mut added = 0;
        Self::each_word(range.clone(), |index, mask| {
            added += (!self.words[index] & mask).count_ones();
            self.words[index] |= mask;
        });
        debug_assert!(
            added <= range.end - range.start,
            "what is added lies in the range"
        );
        self.count += added;
        self.refresh(range);
    }

    fn inside(&self, range: Range<u32>) -> Range<u32> {
        let end = self.words.len() as u32 * 64;
        range.start.min(end)..range.end.min(end)
    }

    /// Returns whether all units of a range are in the set.
    pub(super) fn contains(&self, range: Range<u32>) -> bool {
        self.inside(range.clone()) == range && self.count_in(range.clone()) == range.end - range.start
    }

    /// Returns how many units of a range are in the set.
    pub(super) fn count_in(&self, range: Range<u32>) -> u32 {
        let mut count = 0;
        Self::each_word(self.inside(range), |index, mask| {
            count += (self.words[index] & mask).count_ones();
        });
        count
    }

    /// Returns the number of units in the set.
    pub(super) fn count(&self) -> u32 {
        debug_assert!(
            self.longest() <= self.count,
            "a stretch of {} of {} units",
            self.longest(),
            self.count
        );
        self.count
    }

    /// Returns the length of the longest run of units in the set.
    pub(super) fn longest(&self) -> u32 {
        self.tree.get(1).map_or(0, |root| root.longest)
    }

    /// Returns the lowest start of a run of at least `len` units, or `None` if no run is long
    /// enough.
    pub(super) fn first_fit(&self, len: u32) -> Option<u32> {
        if len == 0 || self.longest() < len {
            return None;
        }
        let (mut node, mut start, mut span) = (1, 0, CHUNK * self.leaves as u32);
        while node < self.leaves {
            span /= 2;
            let (left, right) = (self.tree[2 * node], self.tree[2 * node + 1]);
            if left.longest >= len {
                node *= 2;
            } else if left.last + right.first >= len {
                return Some(start + span - left.last);
            } else {
                node = 2 * node + 1;
                start += span;
            }
        }
        debug_assert!(
            self.leaf(node - self.leaves).longest >= len,
            "the tree tells of a stretch of {len} units"
        );
        // This leaf's chunk contains a run that is long enough.
        let chunk = start..start + CHUNK;
        self.runs_in(chunk)
            .find(|run| run.end - run.start >= len)
            .map(|run| run.start)
    }

    /// Returns the runs of set units within a range, in ascending order.
    pub(super) fn runs_in(&self, range: Range<u32>) -> impl Iterator<Item = Range<u32>> {
        let range = self.inside(range);
        let mut at = range.start;
        std::iter::from_fn(move || {
            let start = self.next(at, range.end, true)?;
            let end = self.next(start, range.end, false).unwrap_or(range.end);
            at = end;
            Some(start..end)
        })
    }

    /// Returns the runs within a range of units that are *not* in the set, in ascending order.
    pub(super) fn gaps_in(&self, range: Range<u32>) -> impl Iterator<Item = Range<u32>> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let start = self.next(at, range.end, false)?;
            let end = self.next(start, range.end, true).unwrap_or(range.end);
            at = end;
            Some(start..end)
        })
    }

    /// Returns the first unit in `from..to` that is in the set if `wanted` is true, or not in it if
    /// `wanted` is false.
    fn next(&self, from: u32, to: u32, wanted: bool) -> Option<u32> {
        let mut at = from;
        while at < to {
            let word = self.words.get((at / 64) as usize).copied().unwrap_or(0);
            let bits = if wanted { word } else { !word } >> (at % 64);
            if bits != 0 {
                let found = at + bits.trailing_zeros();
                return (found < to).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Returns the highest run of units below `below` that are in this set but not in `other`, or
    /// only its highest `most` units if the run is longer.
    pub(super) fn last_without(&self, other: &UnitSet, below: u32, most: u32) -> Option<Range<u32>> {
        let bits = |index: usize| {
            let mine = self.words.get(index).copied().unwrap_or(0);
            mine & !other.words.get(index).copied().unwrap_or(0)
        };
        let mut end = None;
        let mut at = self.inside(0..below).end;
        while at > 0 {
            let index = ((at - 1) / 64) as usize;
            let high = (at - 1) % 64 + 1;
            let word = bits(index) << (64 - high);
            // If the end of the run is known, leading ones belong to the run. Otherwise, leading
            // zeros are units above the run.
            let skip = match end {
                None => word.leading_zeros().min(high),
                Some(_) => word.leading_ones().min(high),
            };
            at -= skip;
            if skip < high {
                match end {
                    None => end = Some(at),
                    Some(end) => return Some(at.max(end.saturating_sub(most))..end),
                }
            }
            if let Some(end) = end
                && end - at >= most
            {
                return Some(end - most..end);
            }
        }
        end.map(|end| 0..end)
    }

    /// Returns the length of the run of units in the set that ends directly below `end`.
    pub(super) fn run_below(&self, end: u32) -> u32 {
        // Usually the last unit is not in the set, and no search is needed.
        if end == 0 || !self.contains(end - 1..end) {
            return 0;
        }
        let nothing = UnitSet::default();
        match self.last_without(&nothing, end, end) {
            Some(run) if run.end == end => end - run.start,
            _ => 0,
        }
    }

    /// Returns the memory in bytes that the set uses.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.words.capacity() * 8 + self.tree.capacity() * size_of::<RunLengths>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const UNITS: u32 = 3000;

    fn first_fit_naive(set: &BTreeSet<u32>, len: u32) -> Option<u32> {
        (0..UNITS).find(|&start| (start..start + len).all(|unit| set.contains(&unit)))
    }

    fn last_naive(set: &BTreeSet<u32>, other: &BTreeSet<u32>, below: u32, most: u32) -> Option<Range<u32>> {
        let end = 1
            + (0..below)
                .rev()
                .find(|unit| set.contains(unit) && !other.contains(unit))?;
        let start = (0..end)
            .rev()
            .take_while(|unit| set.contains(unit) && !other.contains(unit))
            .last()?;
        Some(start.max(end.saturating_sub(most))..end)
    }

    fn random_range(random: &mut fastrand::Rng) -> Range<u32> {
        let longest = if random.u8(..8) == 0 { 1500 } else { 70 };
        let start = random.u32(..UNITS - 1);
        start..(start + random.u32(1..longest)).min(UNITS)
    }

    #[test]
    fn every_answer_is_that_of_a_plain_set() {
        let mut random = fastrand::Rng::with_seed(11);
        let (mut sets, mut models) = (
            [UnitSet::default(), UnitSet::default()],
            [BTreeSet::new(), BTreeSet::new()],
        );
        for round in 0..1500 {
            let which = random.usize(..2);
            let range = random_range(&mut random);
            sets[which].reach(range.end);
            if random.bool() {
                sets[which].set(range.clone());
                models[which].extend(range.clone());
            } else {
                let cleared = sets[which].clear(range.clone());
                let before = models[which].len();
                models[which].retain(|unit| !range.contains(unit));
                assert_eq!(cleared as usize, before - models[which].len());
            }
            let (set, model) = (&sets[which], &models[which]);
            assert_eq!(set.count() as usize, model.len());
            let probe = random_range(&mut random);
            assert_eq!(
                set.contains(probe.clone()),
                probe.clone().all(|unit| model.contains(&unit))
            );
            let below = random.u32(..UNITS);
            let below_run = (0..below).rev().take_while(|unit| model.contains(unit)).count();
            assert_eq!(set.run_below(below) as usize, below_run);
            let most = random.u32(1..200);
            assert_eq!(
                sets[0].last_without(&sets[1], below, most),
                last_naive(&models[0], &models[1], below, most)
            );
            if round % 10 == 0 {
                let len = random.u32(1..600);
                assert_eq!(set.first_fit(len), first_fit_naive(model, len), "{len} units");
                let listed: BTreeSet<u32> = set.runs_in(0..UNITS).flatten().collect();
                assert_eq!(&listed, model);
                let gaps = set.gaps_in(probe.clone()).flatten().count();
                assert_eq!(gaps, probe.clone().filter(|unit| !model.contains(unit)).count());
                let mut copy = UnitSet::default();
                copy.fill(UNITS, |index| set.words.get(index).copied().unwrap_or(0));
                assert_eq!(copy.longest(), set.longest());
                assert_eq!(copy.first_fit(len), set.first_fit(len));
            }
        }
    }

    #[test]
    fn the_longest_stretch_of_a_word_is_found() {
        let mut random = fastrand::Rng::with_seed(12);
        for index in 0..20_000u64 {
            let word = match index % 4 {
                0 => random.u64(..) & random.u64(..),
                1 => random.u64(..) | random.u64(..),
                2 => random.u64(..) >> random.u32(..64),
                _ => (u64::MAX << random.u32(..64)) ^ (1 << random.u32(..64)),
            };
            let text = format!("{word:b}");
            let expected = text.split('0').map(str::len).max().unwrap();
            assert_eq!(longest_ones(word) as usize, expected, "{word:x}");
        }
        assert_eq!([0, u64::MAX].map(longest_ones), [0, 64]);
    }

    #[test]
    fn room_that_is_given_up_can_be_had_again() {
        let mut set = UnitSet::default();
        set.reach(100_000);
        set.insert(0..100_000);
        set.remove(600..100_000);
        set.shrink(600);
        assert!(set.memory_bytes() < 10_000);
        assert_eq!((set.first_fit(600), set.first_fit(601)), (Some(0), None));
        set.reach(5000);
        set.insert(600..5000);
        assert_eq!(set.first_fit(5000), Some(0));
    }

    #[test]
    #[should_panic(expected = "in the set already")]
    fn a_unit_cannot_be_freed_twice() {
        let mut set = UnitSet::default();
        set.reach(10);
        set.insert(2..5);
        set.insert(4..6);
    }
}
