//! How long operations took: a sample of them, in histograms that are always on.
//!
//! One operation in about 64 is timed, at intervals that are drawn, so that no rhythm of the
//! program falls in with them. Each thread records in one of a few histograms of a kind, whose sum
//! is told. A histogram is made when the first operation of its kind is recorded in it, and takes
//! about 16 KiB.

use super::distribution::{Distribution, Distributions};
use crate::engine::thread_number;
use crossbeam_utils::CachePadded;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use std::cell::Cell;
use std::fmt;
use std::time::Instant;

/// Every how many operations one is timed, on the average.
const SAMPLED: u32 = 64;

/// Histograms of one kind.
const SHARDS: usize = 4;

/// The longest time that is told apart from longer ones, in nanoseconds.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// Digits of a time that are kept.
const DIGITS: u8 = 2;

/// How long operations of one kind took, in nanoseconds, as far as they were timed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Latency {
    /// How many were timed.
    pub timed: u64,
    /// The mean.
    pub mean_ns: f64,
    /// Half of them took no longer.
    pub p50_ns: u64,
    /// Of a hundred, 99 took no longer.
    pub p99_ns: u64,
    /// Of a thousand, 999.
    pub p999_ns: u64,
    /// Of ten thousand, 9,999.
    pub p9999_ns: u64,
    /// The longest that was timed. Longer ones may not have been.
    pub longest_ns: u64,
}

/// How long what users ask for took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Latencies {
    /// Gets, one in 64.
    pub get: Latency,
    /// Batches of gets, one in 64.
    pub multi_get: Latency,
    /// Commits that do not wait for a sync, one in 64.
    pub commit: Latency,
    /// Commits at [`Durability::Disk`](crate::Durability::Disk), every one.
    pub durable_commit: Latency,
}

type Times = CachePadded<Mutex<Option<Histogram<u32>>>>;

/// The histograms of one kind of operation.
#[derive(Default)]
pub(crate) struct Recorder {
    shards: [Times; SHARDS],
}

/// The histograms of one store.
#[derive(Debug, Default)]
pub(crate) struct Recorders {
    pub(crate) get: Recorder,
    pub(crate) multi_get: Recorder,
    pub(crate) commit: Recorder,
    pub(crate) durable_commit: Recorder,
}

/// When an operation began that is timed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began(Option<Instant>);

impl Began {
    /// An operation of which a sample is timed begins.
    #[inline]
    pub(crate) fn sampled() -> Began {
        thread_local! {
            /// Operations of this thread until the next that is timed.
            static LEFT: Cell<u32> = const { Cell::new(1) };
        }
        let left = LEFT.get() - 1;
        if left > 0 {
            LEFT.set(left);
            return Began(None);
        }
        LEFT.set(fastrand::u32(1..2 * SAMPLED));
        Began::now()
    }

    /// An operation that is timed in any case begins.
    pub(crate) fn now() -> Began {
        Began(Some(Instant::now()))
    }

    /// The operation is over.
    #[inline]
    pub(crate) fn over(self, recorder: &Recorder) {
        if let Some(began) = self.0 {
            recorder.record(began.elapsed().as_nanos().try_into().unwrap_or(u64::MAX));
        }
    }
}

fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are in order")
}

impl Recorder {
    #[cold]
    fn record(&self, ns: u64) {
        let mut shard = self.shards[thread_number() % SHARDS].lock();
        shard.get_or_insert_with(histogram).saturating_record(ns);
    }

    fn distribution(&self) -> Distribution {
        let mut distribution = Distribution::default();
        for shard in &self.shards {
            if let Some(times) = &*shard.lock() {
                for step in times.iter_recorded() {
                    distribution.add(step.value_iterated_to(), step.count_since_last_iteration());
                }
            }
        }
        distribution
    }

    fn latency(&self) -> Latency {
        let mut sum = histogram();
        for shard in &self.shards {
            if let Some(times) = &*shard.lock() {
                sum.add(times).expect("all have the same bounds");
            }
        }
        Latency {
            timed: sum.len(),
            mean_ns: sum.mean(),
            p50_ns: sum.value_at_quantile(0.5),
            p99_ns: sum.value_at_quantile(0.99),
            p999_ns: sum.value_at_quantile(0.999),
            p9999_ns: sum.value_at_quantile(0.9999),
            longest_ns: sum.max(),
        }
    }
}

impl Recorders {
    pub(crate) fn distributions(&self) -> Distributions {
        Distributions {
            get: self.get.distribution(),
            multi_get: self.multi_get.distribution(),
            commit: self.commit.distribution(),
            durable_commit: self.durable_commit.distribution(),
        }
    }

    pub(crate) fn latencies(&self) -> Latencies {
        Latencies {
            get: self.get.latency(),
            multi_get: self.multi_get.latency(),
            commit: self.commit.latency(),
            durable_commit: self.durable_commit.latency(),
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.latency(), f)
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_operations_is_timed_and_what_is_timed_is_told() {
        let recorder = Recorder::default();
        assert_eq!(recorder.latency(), Latency::default());
        const OPERATIONS: u64 = 100_000;
        for _ in 0..OPERATIONS {
            Began::sampled().over(&recorder);
        }
        let timed = recorder.latency().timed;
        let expected = OPERATIONS / u64::from(SAMPLED);
        assert!(
            (expected / 2..expected * 2).contains(&timed),
            "{timed} were timed"
        );
        let recorder = Recorder::default();
        for us in 1..=1000u64 {
            recorder.record(us * 1000);
        }
        let latency = recorder.latency();
        assert_eq!(latency.timed, 1000);
        let near = |ns: u64, us: u64| ns.abs_diff(us * 1000) <= us * 1000 / 50;
        assert!(
            near(latency.p50_ns, 500) && near(latency.p99_ns, 990) && near(latency.longest_ns, 1000),
            "{latency:?}"
        );
    }
}
