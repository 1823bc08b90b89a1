//! The table of empty ranges, ordered by their start keys, and of claims.

use super::ReadPoint;
use alluvium_base::SequenceNumber;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicU8, Ordering};

/// Approximate memory that a range occupies besides its keys, in bytes.
const OVERHEAD: usize = 96;

/// A key range that contains no live keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmptyRange {
    /// Inclusive start of the range.
    pub start: Box<[u8]>,
    /// Exclusive end of the range.
    pub end: Box<[u8]>,
}

/// A range in the table. Its start is the key of the map entry.
#[derive(Debug)]
struct EmptyRangeEntry {
    end: Box<[u8]>,
    /// The oldest sequence number and the earliest time at which the range is valid.
    since: ReadPoint,
    /// Number of calls of [`EmptyRangeTable::drop_unused`] that the range survives without being
    /// used.
    credit: AtomicU8,
}

/// The credit of a new range, and (`USED`) of a range that has been used.
const NEW: u8 = 1;
const USED: u8 = 4;

impl EmptyRangeEntry {
    fn holds_for(&self, (at, now_ms): ReadPoint) -> bool {
        self.since.0 <= at && self.since.1 <= now_ms
    }
}

/// A range that a reader has found empty but has not yet searched for newer messages.
#[derive(Clone, Debug)]
pub(super) struct EmptyRangeClaim {
    pub(super) number: u64,
    pub(super) start: Box<[u8]>,
    pub(super) end: Box<[u8]>,
}

/// All ranges and claims. Ranges do not overlap.
#[derive(Debug)]
pub(super) struct EmptyRangeTable {
    ranges: BTreeMap<Box<[u8]>, EmptyRangeEntry>,
    claims: Vec<EmptyRangeClaim>,
    next_claim: u64,
    bytes: usize,
    most_bytes: usize,
    /// Position of the CLOCK hand, which looks for unused ranges to evict.
    hand: Box<[u8]>,
    /// Readers below this sequence number cannot claim ranges.
    floor: SequenceNumber,
}

fn bytes(start: &[u8], end: &[u8]) -> usize {
    OVERHEAD + start.len() + end.len()
}

impl EmptyRangeTable {
    pub(super) fn new(most_bytes: usize) -> EmptyRangeTable {
        EmptyRangeTable {
            ranges: BTreeMap::new(),
            claims: Vec::new(),
            next_claim: 0,
            bytes: 0,
            most_bytes,
            hand: Box::default(),
            floor: 0,
        }
    }

    /// Returns the number of ranges and claims.
    pub(super) fn len(&self) -> usize {
        self.ranges.len() + self.claims.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the range that contains `key`, whatever readers it is valid for.
    fn range_of(&self, key: &[u8]) -> Option<(&[u8], &EmptyRangeEntry)> {
        let upto = (Bound::Unbounded, Bound::Included(key));
        let (start, known) = self.ranges.range::<[u8], _>(upto).next_back()?;
        (*key < *known.end).then_some((&**start, known))
    }

    pub(super) fn around(&self, key: &[u8], moment: ReadPoint) -> Option<EmptyRange> {
        let (start, known) = self.range_of(key)?;
        used(start, known, moment)
    }

    pub(super) fn below(&self, end: &[u8], moment: ReadPoint) -> Option<EmptyRange> {
        let below = (Bound::Unbounded, Bound::Excluded(end));
        let (start, known) = self.ranges.range::<[u8], _>(below).next_back()?;
        (*end <= *known.end).then(|| used(start, known, moment)).flatten()
    }

    /// Returns whether a range or a claim contains a key.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        self.range_of(key).is_some() || self.claims.iter().any(|claim| claim.holds(key))
    }

    /// Splits the range that contains `key` and truncates the claims that contain it, because the
    /// key now has a value.
    pub(super) fn cut(&mut self, key: &[u8]) {
        if let Some((start, _)) = self.range_of(key) {
            let start: Box<[u8]> = start.into();
            let known = self.remove(&start);
            let behind = [key, &[0]].concat();
            let credit = known.credit.into_inner();
            if *behind < *known.end {
                self.insert(behind.into(), known.end, known.since, credit);
            }
            if *start < *key {
                self.insert(start, key.into(), known.since, credit);
            }
        }
        for claim in self.claims.iter_mut().filter(|claim| claim.holds(key)) {
            self.bytes -= claim.end.len();
            self.bytes += key.len();
            claim.end = key.into();
        }
        debug_assert!(!self.holds(key), "N2: what is written is in no range");
    }

    fn remove(&mut self, start: &[u8]) -> EmptyRangeEntry {
        let known = self.ranges.remove(start).expect("it was just found");
        self.bytes -= bytes(start, &known.end);
        known
    }

    fn insert(&mut self, start: Box<[u8]>, end: Box<[u8]>, since: ReadPoint, credit: u8) {
        assert!(start < end, "a range has keys");
        self.bytes += bytes(&start, &end);
        let known = EmptyRangeEntry {
            end,
            since,
            credit: AtomicU8::new(credit),
        };
        let before = self.ranges.insert(start, known);
        assert!(before.is_none(), "ranges do not overlap");
    }

    /// Registers claims for `ranges` on behalf of a reader at `at`. Returns their numbers, or
    /// `None` if the claims cannot be accepted.
    pub(super) fn claim(&mut self, ranges: &[(Vec<u8>, Vec<u8>)], at: SequenceNumber) -> Option<Range<u64>> {
        let wanted: usize = ranges.iter().map(|(start, end)| bytes(start, end)).sum();
        if at < self.floor || wanted > self.most_bytes / 2 {
            return None;
        }
        self.evict_ranges(wanted);
        let first = self.next_claim;
        for (start, end) in ranges {
            self.bytes += bytes(start, end);
            self.claims.push(EmptyRangeClaim {
                number: self.next_claim,
                start: start[..].into(),
                end: end[..].into(),
            });
            self.next_claim += 1;
        }
        Some(first..self.next_claim)
    }

    /// Evicts ranges that were not used recently, with the CLOCK algorithm, until `wanted` more
    /// bytes are available (N3).
    fn evict_ranges(&mut self, wanted: usize) {
        while self.bytes + wanted > self.most_bytes && !self.ranges.is_empty() {
            let behind = (Bound::Excluded(&*self.hand), Bound::Unbounded);
            let Some((start, known)) = self.ranges.range::<[u8], _>(behind).next() else {
                if self.ranges.contains_key(&[][..]) {
                    self.remove(&[]);
                }
                self.hand = Box::default();
                continue;
            };
            let start = start.clone();
            if known.credit.swap(NEW, Ordering::Relaxed) <= NEW {
                self.remove(&start);
            }
            self.hand = start;
        }
    }

    /// Returns the current state of the claims with these numbers, omitting those that no longer
    /// exist.
    pub(super) fn claimed(&self, numbers: &Range<u64>) -> Vec<EmptyRangeClaim> {
        let own = self.claims.iter().filter(|claim| numbers.contains(&claim.number));
        own.cloned().collect()
    }

    /// Turns a claim into a valid range. The range ends before `news`, the first key of the claim
    /// that has a newer message.
    pub(super) fn settle(&mut self, number: u64, news: Option<Box<[u8]>>, since: ReadPoint) {
        let Some(claim) = self.claims.iter().find(|claim| claim.number == number) else {
            return;
        };
        let end = news.filter(|news| *news < claim.end);
        let (start, end) = (claim.start.clone(), end.unwrap_or_else(|| claim.end.clone()));
        if start < end {
            self.join(start, end, since);
        }
    }

    /// Adds a range, and merges it with the ranges that it touches.
    fn join(&mut self, mut start: Box<[u8]>, mut end: Box<[u8]>, mut since: ReadPoint) {
        let mut credit = NEW;
        loop {
            let upto = (Bound::Unbounded, Bound::Included(&*end));
            let touched = self.ranges.range::<[u8], _>(upto).next_back();
            let Some((other, _)) = touched.filter(|(_, known)| start <= known.end) else {
                break;
            };
            let other = other.clone();
            let known = self.remove(&other);
            since = (since.0.max(known.since.0), since.1.max(known.since.1));
            credit = credit.max(known.credit.into_inner());
            start = start.min(other);
            end = end.max(known.end);
        }
        self.insert(start, end, since, credit);
    }

    /// Removes the claims with these numbers.
    pub(super) fn give_up(&mut self, numbers: &Range<u64>) {
        let mut freed = 0;
        self.claims.retain(|claim| {
            let goes = numbers.contains(&claim.number);
            freed += usize::from(goes) * bytes(&claim.start, &claim.end);
            !goes
        });
        self.bytes -= freed;
    }

    pub(super) fn forget(&mut self, last: SequenceNumber) {
        self.floor = self.floor.max(last);
        self.ranges.clear();
        self.claims.clear();
        self.bytes = 0;
    }

    /// Drops the ranges without credit, and takes one credit from every other range.
    pub(super) fn drop_unused(&mut self) {
        let mut freed = 0;
        self.ranges.retain(|start, known| {
            let credit = known.credit.get_mut();
            let stays = *credit > 0;
            *credit = credit.saturating_sub(1);
            freed += usize::from(!stays) * bytes(start, &known.end);
            stays
        });
        self.bytes -= freed;
    }
}

impl EmptyRangeClaim {
    fn holds(&self, key: &[u8]) -> bool {
        *self.start <= *key && *key < *self.end
    }
}

/// Returns the range and renews its credit if it is valid at `moment`, and returns `None`
/// otherwise.
fn used(start: &[u8], known: &EmptyRangeEntry, moment: ReadPoint) -> Option<EmptyRange> {
    if !known.holds_for(moment) {
        return None;
    }
    if known.credit.load(Ordering::Relaxed) < USED {
        known.credit.store(USED, Ordering::Relaxed);
    }
    Some(EmptyRange {
        start: start.into(),
        end: known.end.clone(),
    })
}
