//! What a walk knows of the keys without a value that it passes in a row.

use super::{EmptyRange, EmptyRanges, Moment};
use crate::memtables::Memtables;
use crate::merge::Direction;
use crate::range::KeyRange;

/// Keys without a value in a row after which a walk looks for a range that it can leap over.
const PATIENCE: u32 = 4;
/// Keys behind a range for each of which it looks: between two ranges is a key that had a value.
const BETWEEN: u32 = 2;
/// Keys without a value in a row after which a walk notes that there are only such.
const NOTED: u32 = 64;
/// The same beside a range that is noted, which grows then.
const NOTED_BESIDE: u32 = 16;
/// Ranges that a walk leaps over in a row after which it has them joined.
const JOINED: u32 = 8;
const _: () = assert!(PATIENCE <= NOTED_BESIDE && NOTED_BESIDE <= NOTED);

#[cfg(debug_assertions)]
std::thread_local! {
    /// How many keys without a value walks of this thread have passed one by one: counted for
    /// tests, in debug builds.
    pub static PASSED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The keys without a value that a walk has passed since the last one with a value.
#[derive(Debug)]
pub struct DeadRun {
    direction: Direction,
    /// Whether no key with a value was met since the walk began at an end of its range.
    is_fresh: bool,
    /// Where the part begins that is passed one by one, once there is one: in the direction.
    from: Option<Vec<u8>>,
    /// The last key of that part.
    last: Vec<u8>,
    /// How many keys that part has, and all parts together.
    dead: u32,
    passed: u32,
    leaps: u32,
    /// Whether the passing of time has taken the value of any.
    expired: bool,
    /// The parts before: first keys and the first ones behind.
    parts: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Returns the least key above another.
fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl DeadRun {
    /// Creates that of a walk which begins at an end of its range.
    #[must_use]
    pub fn new(direction: Direction) -> DeadRun {
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

    /// The walk goes elsewhere.
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

    /// A key of the walk's range has no value. `expired` says whether it may have had one before.
    pub fn pass(&mut self, key: &[u8], expired: bool, range: &KeyRange) {
        #[cfg(debug_assertions)]
        PASSED.with(|passed| passed.set(passed.get() + 1));
        if self.from.is_none() {
            let edge = match self.direction {
                Direction::Forward => Some(&*range.low),
                Direction::Backward => range.high.as_deref(),
            };
            let edge = edge.filter(|_| self.is_fresh).map(<[u8]>::to_vec);
            self.from = Some(edge.unwrap_or_else(|| match self.direction {
                Direction::Forward => key.to_vec(),
                Direction::Backward => behind(key),
            }));
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        self.dead += 1;
        self.passed += 1;
        self.expired |= expired;
    }

    /// Returns whether a walk that has just passed a key should look for a range around it.
    #[must_use]
    pub fn may_leap(&self) -> bool {
        self.dead.is_multiple_of(PATIENCE) || (self.dead <= BETWEEN && self.leaps > 0)
    }

    /// Returns the range around the key that was passed last, if it can be leapt over.
    pub fn leap(&mut self, empty: &EmptyRanges, moment: Moment) -> Option<EmptyRange> {
        let range = empty.around(&self.last, moment)?;
        self.leapt(&range);
        Some(range)
    }

    /// The walk leaps over a range that it has come to.
    pub fn leapt(&mut self, range: &EmptyRange) {
        let (near, far) = match self.direction {
            Direction::Forward => (&range.start, &range.end),
            Direction::Backward => (&range.end, &range.start),
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

    /// Returns the keys between two places in the direction; none if there are none.
    fn part(&self, from: Vec<u8>, to: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let (start, end) = match self.direction {
            Direction::Forward => (from, to.to_vec()),
            Direction::Backward => (to.to_vec(), from),
        };
        (start < end).then_some((start, end))
    }

    /// A key with a value follows.
    #[inline]
    pub fn end(&mut self, memtables: Option<&dyn Memtables>, moment: Moment) {
        if self.from.is_some() {
            self.note(memtables, moment);
            self.clear();
        }
        self.is_fresh = false;
    }

    /// Notes what was passed, if it is worth it. The walk may go on.
    pub fn note(&mut self, memtables: Option<&dyn Memtables>, (at, now_ms): Moment) {
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
            // In the direction, the first key behind what was passed.
            let to = match self.direction {
                Direction::Forward => behind(&self.last),
                Direction::Backward => self.last.clone(),
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
        // What comes next is beside what was noted.
        self.leaps = 1;
        self.expired = false;
    }
}
