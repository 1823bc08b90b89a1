//! Counters that are always on. A thread counts in a line of its own, as far as there are lines.

use super::policy::CAUSES;
use super::record::Commit;
use alluvium_base::Kind;
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Threads whose number is below this have a line of their own; the others share the last.
const OWN: usize = 48;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Tally {
    Commits,
    Puts,
    Deletes,
    Merges,
    RangeDeletes,
    WrittenBytes,
    Gets,
    MultiGets,
    MultiGetKeys,
    Scans,
    Scanned,
    /// Lookups of one key each that found a value, and nodes that they waited for.
    Found,
    FoundReads,
    /// The same of those that found none.
    Absent,
    AbsentReads,
}

const TALLIES: usize = Tally::AbsentReads as usize + 1;

type Line = CachePadded<[AtomicU64; TALLIES]>;

/// What was done since the store was opened.
pub(crate) struct Tallies {
    lines: Box<[Line]>,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) waits: AtomicU64,
    /// By cause.
    pub(crate) delayed_us: [AtomicU64; CAUSES],
    pub(crate) capped_us: AtomicU64,
    pub(crate) cap_yields: AtomicU64,
}

impl Default for Tallies {
    fn default() -> Tallies {
        Tallies {
            lines: (0..=OWN).map(|_| Line::default()).collect(),
            checkpoints: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            delayed_us: Default::default(),
            capped_us: AtomicU64::new(0),
            cap_yields: AtomicU64::new(0),
        }
    }
}

impl fmt::Debug for Tallies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tallies")
            .field("commits", &self.of(Tally::Commits))
            .finish_non_exhaustive()
    }
}

/// This thread's number: threads are counted as they first ask.
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    let number = NUMBER.get();
    if number != usize::MAX {
        return number;
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    NUMBER.set(number);
    number
}

impl Tallies {
    /// Adds to some.
    #[inline]
    pub(crate) fn add<const N: usize>(&self, counts: [(Tally, u64); N]) {
        let number = thread_number();
        let line = &self.lines[number.min(OWN)];
        for (tally, count) in counts {
            let counter = &line[tally as usize];
            if number < OWN {
                // This line has no other writer.
                counter.store(
                    counter.load(Ordering::Relaxed).wrapping_add(count),
                    Ordering::Relaxed,
                );
            } else {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// A lookup of one key ended, after it had waited for `reads` nodes.
    #[inline]
    pub(crate) fn looked_up(&self, is_found: bool, reads: u64) {
        let (lookup, read) = match is_found {
            true => (Tally::Found, Tally::FoundReads),
            false => (Tally::Absent, Tally::AbsentReads),
        };
        self.add([(lookup, 1)]);
        if reads > 0 {
            self.add([(read, reads)]);
        }
    }

    /// A commit took place.
    pub(crate) fn committed(&self, commit: &Commit) {
        let of = |kind: Kind| u64::from(commit.kinds[kind as usize]);
        let (puts, deletes, merges) = (of(Kind::Put), of(Kind::Delete), of(Kind::Merge));
        self.add([
            (Tally::Commits, 1),
            (Tally::Puts, puts),
            (Tally::Deletes, deletes),
            (Tally::Merges, merges),
            (
                Tally::RangeDeletes,
                u64::from(commit.count) - puts - deletes - merges,
            ),
            (Tally::WrittenBytes, commit.len()),
        ]);
    }

    /// Returns a sum over all threads.
    pub(crate) fn of(&self, tally: Tally) -> u64 {
        let counts = self
            .lines
            .iter()
            .map(|line| line[tally as usize].load(Ordering::Relaxed));
        counts.fold(0, u64::wrapping_add)
    }
}
