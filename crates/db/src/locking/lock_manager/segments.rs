//! The held locks, stored as an ordered map of disjoint segments of the key space.

use super::RangeLockMode;
use crate::locking::ranges::InlineKey;
use alluvium_dictionary::range::KeyRange;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The owners that hold a segment, each listed once with the strongest mode that it holds.
type SegmentHolders = SmallVec<[(u64, RangeLockMode); 2]>;

#[derive(Clone, Debug)]
struct LockSegment {
    /// Exclusive upper bound of the segment, or `None` if it has no upper bound.
    high: Option<InlineKey>,
    holders: SegmentHolders,
}

impl LockSegment {
    /// Returns whether all holders hold the segment in the same mode, and an exclusive holder is
    /// the only one (L1).
    fn has_one_mode(&self) -> bool {
        let mut modes = self.holders.iter().map(|&(_, mode)| mode);
        let first = modes.next();
        modes.all(|mode| Some(mode) == first && mode != RangeLockMode::Exclusive)
    }
}

/// The segments, ordered by their lower bounds (L2).
#[derive(Debug, Default)]
pub(super) struct LockSegments {
    map: BTreeMap<InlineKey, LockSegment>,
}

/// Returns whether a segment with the upper bound `high` ends at or before `key`.
fn ends_by(high: Option<&InlineKey>, key: &[u8]) -> bool {
    high.is_some_and(|high| **high <= *key)
}

impl LockSegments {
    /// Returns the segments that overlap the range from `low` to `high`, in key order.
    fn within(&self, low: &[u8], high: Option<&[u8]>) -> impl Iterator<Item = (&InlineKey, &LockSegment)> {
        let mut before = self
            .map
            .range::<[u8], _>((Bound::Unbounded, Bound::Excluded(low)));
        let before = before
            .next_back()
            .filter(|(_, segment)| !ends_by(segment.high.as_ref(), low));
        let high = high.map_or(Bound::Unbounded, Bound::Excluded);
        let from = self.map.range::<[u8], _>((Bound::Included(low), high));
        before.into_iter().chain(from)
    }

    /// Returns the other owners whose locks conflict with a request of `owner` for a range. Each is
    /// returned once.
    pub(super) fn excluded(
        &self,
        owner: u64,
        low: &[u8],
        high: Option<&[u8]>,
        mode: RangeLockMode,
    ) -> Vec<u64> {
        let mut excluded = Vec::new();
        for (_, segment) in self.within(low, high) {
            for &(holder, held) in &segment.holders {
                if holder != owner && mode.excludes(held) && !excluded.contains(&holder) {
                    excluded.push(holder);
                }
            }
        }
        excluded
    }

    /// Returns whether `owner` holds a lock on any key in a range that conflicts with `mode`.
    pub(super) fn holds_against(
        &self,
        owner: u64,
        low: &[u8],
        high: Option<&[u8]>,
        mode: RangeLockMode,
    ) -> bool {
        let excludes = |&(holder, held): &(u64, RangeLockMode)| holder == owner && held.excludes(mode);
        self.within(low, high)
            .any(|(_, segment)| segment.holders.iter().any(excludes))
    }

    /// Returns whether `owner` has locked an entire range in `mode` or a stronger mode.
    pub(super) fn covers(&self, owner: u64, low: &[u8], high: Option<&[u8]>, mode: RangeLockMode) -> bool {
        let mut next = low;
        for (start, segment) in self.within(low, high) {
            let holds = |&(holder, held): &(u64, RangeLockMode)| holder == owner && held.permits(mode);
            if **start > *next || !segment.holders.iter().any(holds) {
                return false;
            }
            let Some(end) = &segment.high else { return true };
            if high.is_some_and(|high| *high <= **end) {
                return true;
            }
            next = end;
        }
        false
    }

    /// Returns the parts of a range that `owner` holds in exactly `mode`.
    pub(super) fn held_as(
        &self,
        owner: u64,
        low: &[u8],
        high: Option<&[u8]>,
        mode: RangeLockMode,
    ) -> Vec<KeyRange> {
        let held = self
            .within(low, high)
            .filter(|(_, segment)| segment.holders.contains(&(owner, mode)));
        held.map(|(start, segment)| KeyRange::new(start, segment.high.as_deref()))
            .collect()
    }

    /// Splits the segment that contains the key `at`, so that a segment starts there.
    fn split(&mut self, at: &[u8]) {
        let mut before = self.map.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(at)));
        let Some((start, segment)) = before.next_back() else {
            return;
        };
        if ends_by(segment.high.as_ref(), at) {
            return;
        }
        let (start, behind) = (start.clone(), segment.clone());
        let first = self.map.get_mut(&start).expect("it was just found");
        first.high = Some(InlineKey::from_slice(at));
        self.map.insert(InlineKey::from_slice(at), behind);
    }

    /// Adds a lock of `owner` on a range. The caller must have checked that it conflicts with no
    /// other lock (L1).
    pub(super) fn add(&mut self, owner: u64, low: &[u8], high: Option<&[u8]>, mode: RangeLockMode) {
        self.split(low);
        if let Some(high) = high {
            self.split(high);
        }
        let mut next = Some(InlineKey::from_slice(low));
        while let Some(start) = next.filter(|start| high.is_none_or(|high| **start < *high)) {
            let following = self
                .map
                .range::<[u8], _>((Bound::Included(&start[..]), Bound::Unbounded))
                .next();
            let following = following.map(|(key, _)| key.clone());
            next = match following {
                Some(found) if found == start => {
                    let segment = self.map.get_mut(&start).expect("it was just found");
                    match segment.holders.iter_mut().find(|(holder, _)| *holder == owner) {
                        Some((_, held)) => *held = held.with(mode),
                        None => segment.holders.push((owner, mode)),
                    }
                    debug_assert!(segment.has_one_mode(), "L1: {:?}", segment.holders);
                    segment.high.clone()
                }
                following => {
                    // This gap has no holders. Fill it up to the next segment or to the end of the
                    // range.
                    let end = match (following, high) {
                        (Some(found), Some(high)) => Some(found.min(InlineKey::from_slice(high))),
                        (Some(found), None) => Some(found),
                        (None, high) => high.map(InlineKey::from_slice),
                    };
                    let holders = SmallVec::from_slice(&[(owner, mode)]);
                    let segment = LockSegment {
                        high: end.clone(),
                        holders,
                    };
                    self.map.insert(start, segment);
                    end
                }
            };
        }
    }

    /// Removes all locks of `owner` on a range.
    pub(super) fn remove(&mut self, owner: u64, low: &[u8], high: Option<&[u8]>) {
        let starts: Vec<InlineKey> = self.within(low, high).map(|(start, _)| start.clone()).collect();
        for start in starts {
            let segment = self.map.get_mut(&start).expect("it was just found");
            segment.holders.retain(|(holder, _)| *holder != owner);
            if segment.holders.is_empty() {
                self.map.remove(&start);
            } else {
                self.join_before(&start);
            }
        }
    }

    /// Merges adjacent segments in a range that have the same holders.
    pub(super) fn merge_within(&mut self, low: &[u8], high: Option<&[u8]>) {
        let starts: Vec<InlineKey> = self.within(low, high).map(|(start, _)| start.clone()).collect();
        for start in starts.iter().skip(1) {
            self.join_before(start);
        }
    }

    /// Merges a segment with the one before it if they are adjacent and have the same holders.
    /// Without this, a range that stays locked for a long time would become fragmented.
    fn join_before(&mut self, start: &InlineKey) {
        let mut before = self
            .map
            .range::<[u8], _>((Bound::Unbounded, Bound::Excluded(&start[..])));
        let Some((first, before)) = before.next_back() else {
            return;
        };
        let segment = &self.map[start];
        if before.high.as_ref() != Some(start) || before.holders != segment.holders {
            return;
        }
        let first = first.clone();
        let joined = self.map.remove(start).expect("it was just found");
        self.map.get_mut(&first).expect("it was just found").high = joined.high;
    }

    /// Returns the number of segments.
    #[cfg(all(test, not(alluvium_model_check)))]
    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// Panics if an invariant of the segments is violated.
    #[cfg(all(test, not(alluvium_model_check)))]
    pub(super) fn check(&self) {
        let mut last: Option<Option<InlineKey>> = Some(Some(InlineKey::new()));
        for (start, segment) in &self.map {
            let ended = last.flatten().expect("L2: nothing follows what has no end");
            assert!(ended <= *start, "L2: {ended:?} {start:?}");
            assert!(!segment.holders.is_empty(), "L2: a segment without holders");
            assert!(
                segment.high.as_ref().is_none_or(|high| high > start),
                "L2: {start:?}"
            );
            assert!(segment.has_one_mode(), "L1: {:?}", segment.holders);
            last = Some(segment.high.clone());
        }
    }
}
