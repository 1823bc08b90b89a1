//! What a scan remembers about a dead run, which is a sequence of consecutive keys without a value
//! (dead keys).

use super::{EmptyRange, EmptyRanges, ReadPoint};
use crate::memtables::MemtableOwner;
use crate::merge::MergeDirection;
use crate::range::KeyRange;

/// A scan looks for a range to skip after this many consecutive dead keys, and again after each
/// further group of this size.
/// Tuning: `4` since 2026-11-28.
const PATIENCE: u32 = 4;
/// After it has skipped a range, a scan looks for the next range at each of this many keys, because
/// two ranges are usually separated by a single key that once had a value.
/// Tuning: `2` since 2026-11-28.
const BETWEEN: u32 = 2;
/// Minimum number of consecutive dead keys that a scan records as an empty range.
/// Tuning: `64` since 2026-11-28.
const NOTED: u32 = 64;
/// Minimum number of consecutive dead keys by which a scan extends an adjacent recorded range.
/// Tuning: `16` since 2026-11-28.
const NOTED_BESIDE: u32 = 16;
/// A scan that skips this many ranges in a row records them as a single range.
/// Tuning: `8` since 2026-11-28.
const JOINED: u32 = 8;
const _: () = assert!(PATIENCE <= NOTED_BESIDE && NOTED_BESIDE <= NOTED);

#[cfg(debug_assertions)]
std::thread_local! {
    /// Number of dead keys that scans on this thread have stepped over individually. Only debug
    /// builds count them, for use in tests.
    pub static PASSED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The dead keys that a scan has passed since the last key with a value.
#[derive(Debug)]
pub struct DeadRun {
    direction: MergeDirection,
    /// Whether the scan began at an end of its range and has not found a key with a value since.
    is_fresh: bool,
    /// Start, in scan direction, of the current part of the run, in which the scan visits each key.
    /// `None` before the part begins.
    from: Option<Vec<u8>>,
    /// The dead key that the scan has visited most recently.
    last: Vec<u8>,
    /// Number of keys visited in the current part, and (`passed`) in all parts of the run.
    dead: u32,
    passed: u32,
    leaps: u32,
    /// Whether any of the visited keys is dead because its value has expired.
    expired: bool,
    /// The preceding parts of the run, each with an inclusive start and an exclusive end.
    parts: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Returns the smallest key greater than `key`.
fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl DeadRun {
    /// Creates the state for a scan that begins at an end of its range.
    #[must_use]
    pub fn new(direction: MergeDirection) -> DeadRun {
        DeadRun {
            direction,
            is_fresh: true,
            from: None,
            last: Vec::new(),
            dead: 0,
            passed: 0,
            leaps: 0,
            expired: false,
            parts: Vec::new(),
        }
    }

    /// Resets the state because the scan moves to another position.
    pub fn leave(&mut self) {
        self.clear();
        self.is_fresh = false;
    }

    fn clear(&mut self) {
        self.from = None;
        (self.dead, self.passed, self.leaps) = (0, 0, 0);
        self.expired = false;
        self.parts.clear();
    }

    /// Adds a dead key of the scan's range to the run. `expired` tells whether the key may have had
    /// a value at an earlier time.
    pub fn pass(&mut self, key: &[u8], expired: bool, range: &KeyRange) {
        #[cfg(debug_assertions)]
        PASSED.with(|passed| passed.set(passed.get() + 1));
        if self.from.is_none() {
            let edge = match self.direction {
                MergeDirection::Forward => Some(&*range.low),
                MergeDirection::Backward => range.high.as_deref(),
            };
            let edge = edge.filter(|_| self.is_fresh).map(<[u8]>::to_vec);
            self.from = Some(edge.unwrap_or_else(|| match self.direction {
                MergeDirection::Forward => key.to_vec(),
                MergeDirection::Backward => behind(key),
            }));
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        self.dead += 1;
        self.passed += 1;
        self.expired |= expired;
    }

    /// Returns whether the scan should look for an empty range around the key that it has just
    /// visited.
    #[must_use]
    pub fn may_leap(&self) -> bool {
        self.dead.is_multiple_of(PATIENCE) || (self.dead <= BETWEEN && self.leaps > 0)
    }

    /// Looks for a recorded empty range around the key that the scan has just visited. If there is
    /// one that is valid at `moment`, returns it for the scan to skip.
    pub fn leap(&mut self, empty: &EmptyRanges, moment: ReadPoint) -> Option<EmptyRange> {
        let range = empty.around(&self.last, moment)?;
        self.leapt(&range);
        Some(range)
    }

    /// Tells the run that the scan skips `range`.
    pub fn leapt(&mut self, range: &EmptyRange) {
        let (near, far) = match self.direction {
            MergeDirection::Forward => (&range.start, &range.end),
            MergeDirection::Backward => (&range.end, &range.start),
        };
        if let Some(from) = self.from.take()
            && let Some(part) = self.part(from, near)
        {
            self.parts.push(part);
        }
        self.from = Some(far.to_vec());
        self.dead = 0;
        self.leaps += 1;
    }

    /// Returns the range between two positions in scan direction, or `None` if it is empty.
    fn part(&self, from: Vec<u8>, to: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let (start, end) = match self.direction {
            MergeDirection::Forward => (from, to.to_vec()),
            MergeDirection::Backward => (to.to_vec(), from),
        };
        (start < end).then_some((start, end))
    }

    /// Ends the run because the scan has reached a key with a value. Records the run if it is long
    /// enough.
    #[inline]
    pub fn end(&mut self, memtables: Option<&dyn MemtableOwner>, moment: ReadPoint) {
        if self.from.is_some() {
            self.note(memtables, moment);
            self.clear();
        }
        self.is_fresh = false;
    }

    /// Records the visited keys as an empty range if there are enough of them. The scan may
    /// continue afterwards.
    pub fn note(&mut self, memtables: Option<&dyn MemtableOwner>, (at, now_ms): ReadPoint) {
        let least = if self.leaps > 0 { NOTED_BESIDE } else { NOTED };
        if self.passed < least && self.leaps < JOINED {
            return;
        }
        let Some(memtables) = memtables else { return };
        let Some(empty) = memtables.empty_ranges() else {
            return;
        };
        if self.dead > 0
            && let Some(from) = self.from.take()
        {
            // The first position after the visited keys in scan direction.
            let to = match self.direction {
                MergeDirection::Forward => behind(&self.last),
                MergeDirection::Backward => self.last.clone(),
            };
            self.from = Some(to.clone());
            self.parts.extend(self.part(from, &to));
        }
        let since = if self.expired { now_ms } else { 0 };
        if !self.parts.is_empty() {
            empty.note(&self.parts, (at, since), memtables);
        }
        self.parts.clear();
        (self.dead, self.passed) = (0, 0);
        // The keys that follow are adjacent to the range just recorded.
        self.leaps = 1;
        self.expired = false;
    }
}
