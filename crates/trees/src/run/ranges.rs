//! Range deletes in fragments: ranges that do not overlap, each with every delete that covers it.

use crate::range::KeyRange;
use alluvium_base::Sequence;
use std::collections::{BTreeMap, BTreeSet};

/// A range, and the deletes that cover all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The first key that is deleted.
    pub start: Box<[u8]>,
    /// The first key that is not.
    pub end: Box<[u8]>,
    /// When, newest first; never empty.
    pub sequences: Box<[Sequence]>,
}

/// Fragments in the order of their keys.
///
/// ```
/// use alluvium_trees::run::RangeDeletes;
/// let deletes = RangeDeletes::new(&[(b"a".to_vec(), b"m".to_vec(), 3), (b"g".to_vec(), b"z".to_vec(), 7)]);
/// assert_eq!(deletes.iter().count(), 3, "a to g, g to m, m to z");
/// assert_eq!(deletes.covering(b"h", 9), Some(7));
/// assert_eq!(deletes.covering(b"h", 6), Some(3));
/// assert_eq!(deletes.covering(b"z", 9), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeDeletes {
    fragments: Vec<Fragment>,
}

impl RangeDeletes {
    /// The fragments of deletes that may overlap: start, end, sequence number. Those that end at or before their start delete
    /// nothing.
    #[must_use]
    pub fn new(deletes: &[(Vec<u8>, Vec<u8>, Sequence)]) -> RangeDeletes {
        // What begins and what ends at each boundary.
        let mut boundaries: BTreeMap<&[u8], (Vec<Sequence>, Vec<Sequence>)> = BTreeMap::new();
        for (start, end, sequence) in deletes.iter().filter(|(start, end, _)| start < end) {
            boundaries.entry(start).or_default().0.push(*sequence);
            boundaries.entry(end).or_default().1.push(*sequence);
        }
        // How many deletes with each number cover what comes next: the same range may be deleted twice.
        let mut active: BTreeMap<Sequence, usize> = BTreeMap::new();
        let mut fragments: Vec<Fragment> = Vec::new();
        let mut from: &[u8] = &[];
        for (boundary, (begins, ends)) in boundaries {
            let sequences: Box<[Sequence]> = active.keys().rev().copied().collect();
            match fragments.last_mut() {
                _ if sequences.is_empty() => {}
                Some(last) if *last.end == *from && last.sequences == sequences => {
                    last.end = boundary.into();
                }
                _ => fragments.push(Fragment {
                    start: from.into(),
                    end: boundary.into(),
                    sequences,
                }),
            }
            for sequence in begins {
                *active.entry(sequence).or_default() += 1;
            }
            for sequence in ends {
                if let Some(count) = active.get_mut(&sequence) {
                    *count -= 1;
                    if *count == 0 {
                        active.remove(&sequence);
                    }
                }
            }
            from = boundary;
        }
        RangeDeletes { fragments }
    }

    /// Fragments that were read; none unless they are in order, do not overlap, and have their sequences newest first.
    pub(super) fn from_fragments(fragments: Vec<Fragment>) -> Option<RangeDeletes> {
        let sound = |fragment: &Fragment| {
            let newest_first = fragment.sequences.windows(2).all(|pair| pair[0] > pair[1]);
            fragment.start < fragment.end && !fragment.sequences.is_empty() && newest_first
        };
        let ascend = fragments.windows(2).all(|pair| pair[0].end <= pair[1].start);
        (ascend && fragments.iter().all(sound)).then_some(RangeDeletes { fragments })
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Every fragment, in the order of the keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Fragment> + ExactSizeIterator {
        self.fragments.iter()
    }

    /// The fragment that a key is in.
    #[must_use]
    pub fn fragment(&self, key: &[u8]) -> Option<&Fragment> {
        let after = self.fragments.partition_point(|fragment| *fragment.start <= *key);
        let fragment = &self.fragments[after.checked_sub(1)?];
        (*key < *fragment.end).then_some(fragment)
    }

    /// The fragment that holds every key just below `end`.
    #[must_use]
    pub fn reaching(&self, end: &[u8]) -> Option<&Fragment> {
        let below = self.fragments.partition_point(|fragment| *fragment.start < *end);
        let fragment = &self.fragments[below.checked_sub(1)?];
        (*end <= *fragment.end).then_some(fragment)
    }

    /// The newest delete at or before `at` that covers a key, by its sequence number.
    #[must_use]
    pub fn covering(&self, key: &[u8], at: Sequence) -> Option<Sequence> {
        let sequences = &self.fragment(key)?.sequences;
        sequences.iter().copied().find(|&sequence| sequence <= at)
    }

    /// What deletes keys of a range, cut to it.
    #[must_use]
    pub fn within(&self, range: &KeyRange) -> RangeDeletes {
        let after = |fragment: &Fragment| fragment.end <= range.low;
        let first = self.fragments.partition_point(after);
        let overlapping = self.fragments[first..]
            .iter()
            .take_while(|fragment| !range.ends_before(&fragment.start));
        let cut = overlapping.map(|fragment| {
            let whole = KeyRange::new(&fragment.start, Some(&fragment.end));
            let KeyRange { low, high } = whole.intersect(range);
            Fragment {
                start: low,
                end: high.expect("a fragment has an end, and so has a part of it"),
                sequences: fragment.sequences.clone(),
            }
        });
        RangeDeletes {
            fragments: cut.filter(|fragment| fragment.start < fragment.end).collect(),
        }
    }

    /// How many deletes there are, by their sequence numbers.
    pub(super) fn distinct(&self) -> BTreeSet<Sequence> {
        let sequences = self
            .fragments
            .iter()
            .flat_map(|fragment| fragment.sequences.iter());
        sequences.copied().collect()
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        let of = |fragment: &Fragment| {
            size_of::<Fragment>() + fragment.start.len() + fragment.end.len() + 8 * fragment.sequences.len()
        };
        self.fragments.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_say_what_the_deletes_say() {
        for seed in 0..500 {
            let mut random = fastrand::Rng::with_seed(seed);
            let deletes: Vec<(Vec<u8>, Vec<u8>, Sequence)> = (0..random.usize(..12))
                .map(|_| (vec![random.u8(..20)], vec![random.u8(..20)], random.u64(1..8)))
                .collect();
            let fragments = RangeDeletes::new(&deletes);
            assert_eq!(
                RangeDeletes::from_fragments(fragments.fragments.clone()).as_ref(),
                Some(&fragments)
            );
            let range = KeyRange::new(&[random.u8(..20)], Some(&[random.u8(..20)]));
            let within = fragments.within(&range);
            for key in 0..20u8 {
                for at in 0..9 {
                    let covers = |(start, end, sequence): &&(Vec<u8>, Vec<u8>, Sequence)| {
                        **start <= [key][..] && [key][..] < **end && *sequence <= at
                    };
                    let wanted = deletes
                        .iter()
                        .filter(covers)
                        .map(|(_, _, sequence)| *sequence)
                        .max();
                    assert_eq!(fragments.covering(&[key], at), wanted, "seed {seed}");
                    let wanted = wanted.filter(|_| range.contains(&[key]));
                    assert_eq!(within.covering(&[key], at), wanted, "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn fragments_out_of_order_are_refused() {
        let fragment = |start: &[u8], end: &[u8], sequences: &[Sequence]| Fragment {
            start: start.into(),
            end: end.into(),
            sequences: sequences.into(),
        };
        for bad in [
            vec![fragment(b"b", b"b", &[1])],
            vec![fragment(b"a", b"b", &[])],
            vec![fragment(b"a", b"b", &[1, 2])],
            vec![fragment(b"a", b"c", &[1]), fragment(b"b", b"d", &[1])],
        ] {
            assert!(RangeDeletes::from_fragments(bad).is_none());
        }
    }
}
