//! Joins neighbouring keys and ranges, which bounds the memory of access sets and locks.
//!
//! A range that joins two neighbours also covers the gap between them, so it may cause conflicts
//! with keys that were not accessed. All keys in a gap begin with the common prefix of the keys at
//! its two ends. The gaps with the longest common prefixes are closed first. If a transaction
//! accesses only keys with a common prefix, such as those of one directory, no range extends beyond
//! this prefix.
//!
//! ```text
//!   keys       a/1   a/2     a/7       b/3   b/4
//!   prefixes       2       2       0       2        closed: the gaps with two common bytes
//!   joined     ├─────────────┤         ├─────┤
//! ```
//!
//! *Scope*: which neighbours are joined.
//!
//! *Must not depend on*: whether an interval was read, written or locked.

use std::ops::Range;

/// A key or key range of one keyspace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyInterval<'k> {
    /// Intervals with different numbers are never joined.
    pub(crate) space: u32,
    pub(crate) low: &'k [u8],
    /// Exclusive upper bound, or `None` if there is none.
    pub(crate) high: Option<&'k [u8]>,
}

/// How the end of an interval relates to the next interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum IntervalGap {
    /// The intervals belong to different keyspaces.
    Barrier,
    /// The keys in the gap have a common prefix of this length.
    Prefix(usize),
    /// The intervals overlap or touch each other.
    None,
}

/// Returns the length of the longest common prefix.
fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    one.iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}

/// Returns the gap before each interval except the first one.
fn gaps(intervals: &[KeyInterval<'_>]) -> Vec<IntervalGap> {
    let mut gaps = Vec::with_capacity(intervals.len());
    let mut before = intervals.iter();
    let Some(first) = before.next() else {
        return gaps;
    };
    let (mut space, mut end) = (first.space, first.high);
    for next in before {
        debug_assert!(next.space >= space, "intervals are in order");
        gaps.push(match end {
            _ if next.space != space => IntervalGap::Barrier,
            Some(end) if *end < *next.low => IntervalGap::Prefix(common_prefix(end, next.low)),
            _ => IntervalGap::None,
        });
        let is_longer = end.is_some_and(|end| next.high.is_none_or(|high| end < high));
        if next.space != space || is_longer {
            end = next.high;
        }
        space = next.space;
    }
    gaps
}

/// Divides intervals into groups of neighbours, each to be replaced by one range. About half of the
/// gaps are closed, namely those whose keys have the longest common prefixes. Returns the indexes
/// of each group. `intervals` must be sorted by `space` and lower bound.
pub(crate) fn neighbour_groups(intervals: &[KeyInterval<'_>]) -> Vec<Range<usize>> {
    let gaps = gaps(intervals);
    let mut order: Vec<IntervalGap> = gaps.clone();
    order.retain(|gap| *gap != IntervalGap::Barrier);
    // If no gap can be closed, `least` is greater than every barrier.
    let (mut least, mut ties) = (IntervalGap::None, 0);
    if !order.is_empty() {
        let closed = order.len().div_ceil(2);
        let (longer, nth, _) = order.select_nth_unstable_by(closed - 1, |one, other| other.cmp(one));
        least = *nth;
        // Overlapping intervals are always joined, so the groups never overlap.
        ties = match least {
            IntervalGap::None => usize::MAX,
            least => closed - longer.iter().filter(|gap| **gap > least).count(),
        };
    }
    let (mut groups, mut start) = (Vec::new(), 0);
    for (index, gap) in gaps.iter().enumerate() {
        let is_closed = *gap > least || *gap == least && ties > 0;
        if *gap == least && is_closed {
            ties -= 1;
        }
        if !is_closed {
            groups.push(start..index + 1);
            start = index + 1;
        }
    }
    if !intervals.is_empty() {
        groups.push(start..intervals.len());
    }
    groups
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use alluvium_sim::environment::effort;

    fn key(space: u32, low: &'static [u8], high: &'static [u8]) -> KeyInterval<'static> {
        KeyInterval {
            space,
            low,
            high: Some(high),
        }
    }

    #[test]
    fn gaps_with_the_longest_prefixes_are_closed_first() {
        let keys = [
            key(1, b"a/1", b"a/1\0"),
            key(1, b"a/2", b"a/2\0"),
            key(1, b"b/3", b"b/3\0"),
            key(1, b"b/3/1", b"b/3/1\0"),
            key(1, b"c", b"c\0"),
        ];
        assert_eq!(neighbour_groups(&keys), [0..2, 2..4, 4..5]);
        let joined = [key(1, b"a/1", b"a/2\0"), key(1, b"b/3", b"b/3/1\0"), keys[4]];
        assert_eq!(neighbour_groups(&joined), [0..2, 2..3]);
        let single = neighbour_groups(&joined[..1]);
        assert!(single.len() == 1 && single[0] == (0..1));
        assert!(neighbour_groups(&[]).is_empty());
    }

    #[test]
    fn intervals_that_overlap_come_first_and_those_of_other_spaces_never() {
        let keys = [
            key(1, b"a", b"m"),
            key(1, b"b", b"b\0"),
            key(1, b"l", b"n"),
            key(1, b"n/1", b"n/2"),
            key(2, b"n/2", b"n/3"),
        ];
        assert_eq!(neighbour_groups(&keys), [0..3, 3..4, 4..5]);
        let apart = [key(1, b"a", b"b"), key(2, b"a", b"b"), key(3, b"a", b"b")];
        assert_eq!(neighbour_groups(&apart), [0..1, 1..2, 2..3]);
        let endless = KeyInterval {
            high: None,
            ..keys[0]
        };
        let joined = neighbour_groups(&[endless, keys[3]]);
        assert!(joined.len() == 1 && joined[0] == (0..2));
    }

    #[test]
    fn no_open_gap_has_a_longer_prefix_than_a_closed_one_and_half_are_closed() {
        for seed in 0..effort(100, 1000) as u64 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut lows: Vec<Vec<u8>> = (0..random.usize(2..60))
                .map(|_| (0..random.usize(1..6)).map(|_| random.u8(b'a'..b'd')).collect())
                .collect();
            lows.sort();
            lows.dedup();
            let highs: Vec<Vec<u8>> = lows.iter().map(|low| [&low[..], &[0]].concat()).collect();
            let intervals: Vec<KeyInterval<'_>> = lows
                .iter()
                .zip(&highs)
                .map(|(low, high)| KeyInterval {
                    space: 0,
                    low,
                    high: Some(high),
                })
                .collect();
            let groups = neighbour_groups(&intervals);
            assert_eq!(groups.len(), intervals.len() - (intervals.len() - 1).div_ceil(2));
            let (mut open, mut closed) = (0, usize::MAX);
            let starts: Vec<usize> = groups.iter().map(|group| group.start).collect();
            for (index, pair) in lows.windows(2).enumerate() {
                let common = common_prefix(&pair[0], &pair[1]);
                match starts.contains(&(index + 1)) {
                    true => open = open.max(common),
                    false => closed = closed.min(common),
                }
            }
            assert!(open <= closed, "seed {seed}");
        }
    }
}
