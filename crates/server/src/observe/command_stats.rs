//! Command statistics: the numbers of calls, rejections and failures, a histogram of durations, and
//! the number of error replies of each kind.
//!
//! Counting costs a few relaxed atomic additions per sequence of equal commands in a batch.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bound of the first histogram bucket, in nanoseconds. Shorter durations are not
/// distinguished.
const LEAST_NS: u64 = 1 << LEAST_BITS;
const LEAST_BITS: u32 = 10;

/// Number of histogram buckets for each power of two.
const PARTS: u64 = 4;
const PART_BITS: u32 = 2;

/// Number of histogram buckets. They cover durations of up to 17 seconds; the last bucket also
/// counts all longer ones.
const BUCKETS: usize = 102;

/// Maximum number of error kinds with a counter of their own. All others share one.
const MOST_KINDS: usize = 128;

/// The live counters of one command.
#[derive(Debug)]
pub(crate) struct CommandCounts {
    calls: AtomicU64,
    took_ns: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// A copy of the counters of one command.
#[derive(Clone, Debug)]
pub(crate) struct CommandFigures {
    pub(crate) calls: u64,
    pub(crate) took_us: u64,
    pub(crate) rejected: u64,
    pub(crate) failed: u64,
    buckets: Vec<u64>,
}

impl CommandFigures {
    /// Returns the duration in microseconds that the fraction `share` of the calls did not exceed,
    /// to within the width of a histogram bucket.
    pub(crate) fn within_us(&self, share: f64) -> f64 {
        let all: u64 = self.buckets.iter().sum();
        let wanted = ((all as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return bound_ns(index) as f64 / 1000.0;
            }
        }
        0.0
    }

    /// Returns a cumulative histogram of the durations. Each element contains an upper bound in
    /// microseconds (a power of two times 1.024) and the number of calls that took at most that
    /// long. A bound is omitted if it adds no calls to the previous one.
    pub(crate) fn cumulative(&self) -> Vec<(u64, u64)> {
        let (mut pairs, mut seen, mut told) = (Vec::new(), 0, 0);
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            let bound = bound_ns(index);
            if bound.is_power_of_two() && seen > told {
                pairs.push((bound / 1000, seen));
                told = seen;
            }
        }
        if seen > told {
            pairs.push((bound_ns(BUCKETS - 1) / 1000, seen));
        }
        pairs
    }
}

/// Returns the index of the bucket for a duration of `ns` nanoseconds.
fn bucket(ns: u64) -> usize {
    if ns < LEAST_NS {
        return 0;
    }
    let power = ns.ilog2();
    let part = (ns >> (power - PART_BITS)) % PARTS;
    let index = 1 + u64::from(power - LEAST_BITS) * PARTS + part;
    (index as usize).min(BUCKETS - 1)
}

/// Returns the upper bound of a bucket in nanoseconds.
fn bound_ns(index: usize) -> u64 {
    let Some(above) = (index as u64).checked_sub(1) else {
        return LEAST_NS;
    };
    let power = LEAST_BITS + (above / PARTS) as u32;
    (PARTS + above % PARTS + 1) << (power - PART_BITS)
}

impl CommandCounts {
    fn new() -> CommandCounts {
        CommandCounts {
            calls: AtomicU64::new(0),
            took_ns: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }

    /// Counts `calls` calls with a duration of `each` per call.
    pub(crate) fn called(&self, calls: u64, each: Duration) {
        let ns = each.as_nanos() as u64;
        self.calls.fetch_add(calls, Ordering::Relaxed);
        self.took_ns.fetch_add(calls * ns, Ordering::Relaxed);
        self.buckets[bucket(ns)].fetch_add(calls, Ordering::Relaxed);
    }

    /// Counts a call that was rejected before execution.
    pub(crate) fn rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call that failed during execution.
    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn figures(&self) -> CommandFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CommandFigures {
            calls: read(&self.calls),
            took_us: read(&self.took_ns) / 1000,
            rejected: read(&self.rejected),
            failed: read(&self.failed),
            buckets: self.buckets.iter().map(read).collect(),
        }
    }

    fn reset(&self) {
        let all = [&self.calls, &self.took_ns, &self.rejected, &self.failed];
        all.into_iter()
            .chain(&self.buckets)
            .for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}

/// The statistics of all commands.
#[derive(Debug)]
pub(crate) struct CommandStats {
    commands: Box<[CommandCounts]>,
    errors: Mutex<BTreeMap<String, u64>>,
}

impl CommandStats {
    /// Returns statistics for `commands` commands, with all counters at zero.
    pub(crate) fn new(commands: usize) -> CommandStats {
        CommandStats {
            commands: (0..commands).map(|_| CommandCounts::new()).collect(),
            errors: Mutex::default(),
        }
    }

    pub(crate) fn of(&self, index: u16) -> &CommandCounts {
        &self.commands[usize::from(index)]
    }

    /// Counts an error reply under its first word, the kind of error.
    pub(crate) fn error(&self, text: &str) {
        let kind = text.split(' ').next().unwrap_or_default();
        let mut errors = self.errors.lock();
        if let Some(count) = errors.get_mut(kind) {
            *count += 1;
        } else {
            let kind = if errors.len() < MOST_KINDS { kind } else { "OTHER" };
            *errors.entry(kind.to_owned()).or_default() += 1;
        }
    }

    /// Returns the kinds of errors that have occurred, each with its number of replies.
    pub(crate) fn errors(&self) -> Vec<(String, u64)> {
        let errors = self.errors.lock();
        errors
            .iter()
            .map(|(kind, count)| (kind.clone(), *count))
            .collect()
    }

    pub(crate) fn reset(&self) {
        self.commands.iter().for_each(CommandCounts::reset);
        self.errors.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_lies_below_the_bound_of_its_bucket_and_above_the_one_before() {
        for ns in [0, 1, 1023, 1024, 1279, 1280, 5_000, 1_000_000, 123_456_789] {
            let index = bucket(ns);
            assert!(ns < bound_ns(index), "{ns}");
            assert!(index == 0 || ns >= bound_ns(index - 1), "{ns}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn shares_of_calls_and_cumulative_counts_are_those_of_the_calls() {
        let counts = CommandCounts::new();
        counts.called(98, Duration::from_micros(3));
        counts.called(2, Duration::from_millis(9));
        let figures = counts.figures();
        assert_eq!((figures.calls, figures.took_us), (100, 98 * 3 + 2 * 9_000));
        assert!(figures.within_us(0.5) < 5.0);
        assert!(figures.within_us(0.99) > 8_000.0);
        assert_eq!(figures.cumulative(), [(4, 98), (16_777, 100)]);
    }

    #[test]
    fn errors_are_counted_by_their_first_word_and_kinds_have_a_bound() {
        let tally = CommandStats::new(1);
        tally.error("ERR one");
        tally.error("ERR two");
        for number in 0..2 * MOST_KINDS {
            tally.error(&format!("KIND{number} of a script"));
        }
        let errors = tally.errors();
        assert!(errors.contains(&("ERR".to_owned(), 2)));
        assert!(errors.len() <= MOST_KINDS + 1);
        let sum: u64 = errors.iter().map(|(_, count)| count).sum();
        assert_eq!(sum, 2 + 2 * MOST_KINDS as u64);
    }
}
