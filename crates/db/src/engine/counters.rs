//! Counters that are always enabled. Each thread has its own cache line of counters, as long as
//! there are enough lines.

use super::commit_record::CommitRecord;
use super::policy::CAUSES;
use alluvium_base::MessageKind;
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Number of threads with their own cache line of counters. All further threads share the last
/// line.
const OWN: usize = 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum EngineCounter {
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
    /// Number of point lookups that found a value. `FoundReads` is the number of nodes that they
    /// waited for.
    Found,
    FoundReads,
    /// Number of point lookups that found no value. `AbsentReads` is the number of nodes that they
    /// waited for.
    Absent,
    AbsentReads,
}

const TALLIES: usize = EngineCounter::AbsentReads as usize + 1;

type CounterLine = CachePadded<[AtomicU64; TALLIES]>;

/// Operation counts since the store was opened.
pub(crate) struct EngineCounters {
    lines: Box<[CounterLine]>,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) waits: AtomicU64,
    /// Total time that writers were delayed, in microseconds, by cause.
    pub(crate) delayed_us: [AtomicU64; CAUSES],
    pub(crate) capped_us: AtomicU64,
    pub(crate) cap_yields: AtomicU64,
}

impl Default for EngineCounters {
    fn default() -> EngineCounters {
        EngineCounters {
            lines: (0..=OWN).map(|_| CounterLine::default()).collect(),
            checkpoints: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            delayed_us: Default::default(),
            capped_us: AtomicU64::new(0),
            cap_yields: AtomicU64::new(0),
        }
    }
}

impl fmt::Debug for EngineCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineCounters")
            .field("commits", &self.of(EngineCounter::Commits))
            .finish_non_exhaustive()
    }
}

/// Returns the number of the calling thread. Threads are numbered from 0 in the order in which they
/// first call this.
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

impl EngineCounters {
    #[inline]
    pub(crate) fn add<const N: usize>(&self, counts: [(EngineCounter, u64); N]) {
        let number = thread_number();
        let line = &self.lines[number.min(OWN)];
        for (tally, count) in counts {
            let counter = &line[tally as usize];
            if number < OWN {
                // No other thread writes to this cache line, so no atomic addition is needed.
                counter.store(
                    counter.load(Ordering::Relaxed).wrapping_add(count),
                    Ordering::Relaxed,
                );
            } else {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Counts a point lookup that waited for the device to read `reads` nodes.
    #[inline]
    pub(crate) fn looked_up(&self, is_found: bool, reads: u64) {
        let (lookup, read) = match is_found {
            true => (EngineCounter::Found, EngineCounter::FoundReads),
            false => (EngineCounter::Absent, EngineCounter::AbsentReads),
        };
        self.add([(lookup, 1)]);
        if reads > 0 {
            self.add([(read, reads)]);
        }
    }

    /// Counts a commit and its writes, by kind of write.
    pub(crate) fn committed(&self, commit: &CommitRecord) {
        let of = |kind: MessageKind| u64::from(commit.kinds[kind as usize]);
        let (puts, deletes, merges) = (
            of(MessageKind::Put),
            of(MessageKind::Delete) + of(MessageKind::TimedDelete),
            of(MessageKind::Merge),
        );
        self.add([
            (EngineCounter::Commits, 1),
            (EngineCounter::Puts, puts),
            (EngineCounter::Deletes, deletes),
            (EngineCounter::Merges, merges),
            (
                EngineCounter::RangeDeletes,
                u64::from(commit.count) - puts - deletes - merges,
            ),
            (EngineCounter::WrittenBytes, commit.len()),
        ]);
    }

    /// Returns the value of a counter, summed over all threads.
    pub(crate) fn of(&self, tally: EngineCounter) -> u64 {
        let counts = self
            .lines
            .iter()
            .map(|line| line[tally as usize].load(Ordering::Relaxed));
        counts.fold(0, u64::wrapping_add)
    }
}
