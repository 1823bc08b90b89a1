//! Operation latencies. Histograms, which are always enabled, record a timed sample of all
//! operations.
//!
//! About one operation in 64 is timed. The intervals between timed operations are random, so that
//! they cannot correlate with a periodic pattern of the application. Each kind of operation has a
//! few histograms; each thread records in one of them, and statistics report their sum. A histogram
//! occupies about 16 KiB, allocated when it records its first operation.

use super::distribution::{LatencyDistribution, LatencyDistributions};
use super::thread_number;
use crossbeam_utils::CachePadded;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use std::cell::Cell;
use std::fmt;
use std::time::Instant;

/// Mean number of operations between two timed operations.
const SAMPLED: u32 = 64;

/// Number of histograms for each kind of operation.
const SHARDS: usize = 4;

/// Longest distinguishable latency, in nanoseconds. Longer latencies are recorded as this value.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// Number of significant decimal digits of a recorded latency.
const DIGITS: u8 = 2;

/// Summary of the latencies of one kind of operation, in nanoseconds. Only timed operations are
/// included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LatencySummary {
    /// Number of timed operations. Only a sample of the operations is timed, except that every
    /// durable commit is.
    pub timed: u64,
    /// Mean latency. Zero if no operation was timed.
    pub mean_ns: f64,
    /// Median latency, to two significant digits.
    pub p50_ns: u64,
    /// 99th percentile of the latency, to two significant digits.
    pub p99_ns: u64,
    /// 99.9th percentile of the latency, to two significant digits.
    pub p999_ns: u64,
    /// 99.99th percentile of the latency, to two significant digits.
    pub p9999_ns: u64,
    /// Longest latency of a timed operation. Operations that were not timed may have taken longer.
    pub longest_ns: u64,
}

/// Latencies of user operations, one summary for each kind of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct OperationLatencies {
    /// Gets of a single key. About one in 64 is timed.
    pub get: LatencySummary,
    /// Gets of several keys at once. About one in 64 is timed.
    pub multi_get: LatencySummary,
    /// Commits that do not wait for a sync. About one in 64 is timed.
    pub commit: LatencySummary,
    /// Commits with [`Durability::Disk`](crate::Durability::Disk). Every one is timed.
    pub durable_commit: LatencySummary,
}

type LatencyShard = CachePadded<Mutex<Option<Histogram<u32>>>>;

/// The histograms for one kind of operation. Each thread records in one of them.
#[derive(Default)]
pub(crate) struct LatencyRecorder {
    shards: [LatencyShard; SHARDS],
}

/// The histograms of one store for each kind of operation.
#[derive(Debug, Default)]
pub(crate) struct LatencyRecorders {
    pub(crate) get: LatencyRecorder,
    pub(crate) multi_get: LatencyRecorder,
    pub(crate) commit: LatencyRecorder,
    pub(crate) durable_commit: LatencyRecorder,
}

/// Start time of an operation, or `None` if this operation is not timed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatencyTimer(Option<Instant>);

impl LatencyTimer {
    /// Starts timing about one operation in 64. For the others, returns a timer that records
    /// nothing.
    #[inline]
    pub(crate) fn sampled() -> LatencyTimer {
        thread_local! {
            /// Number of operations until this thread times the next one, counting that operation.
            static LEFT: Cell<u32> = const { Cell::new(1) };
        }
        let left = LEFT.get() - 1;
        if left > 0 {
            LEFT.set(left);
            return LatencyTimer(None);
        }
        LEFT.set(fastrand::u32(1..2 * SAMPLED));
        LatencyTimer::now()
    }

    /// Starts timing an operation. Unlike [`LatencyTimer::sampled`], this times every operation.
    pub(crate) fn now() -> LatencyTimer {
        LatencyTimer(Some(Instant::now()))
    }

    /// Ends the operation and adds its latency to `recorder` if the operation was timed.
    #[inline]
    pub(crate) fn over(self, recorder: &LatencyRecorder) {
        if let Some(began) = self.0 {
            recorder.record(began.elapsed().as_nanos().try_into().unwrap_or(u64::MAX));
        }
    }
}

fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are in order")
}

impl LatencyRecorder {
    #[cold]
    fn record(&self, ns: u64) {
        let mut shard = self.shards[thread_number() % SHARDS].lock();
        shard.get_or_insert_with(histogram).saturating_record(ns);
    }

    fn distribution(&self) -> LatencyDistribution {
        let mut distribution = LatencyDistribution::default();
        for shard in &self.shards {
            if let Some(times) = &*shard.lock() {
                for step in times.iter_recorded() {
                    distribution.add(step.value_iterated_to(), step.count_since_last_iteration());
                }
            }
        }
        distribution
    }

    fn latency(&self) -> LatencySummary {
        let mut sum = histogram();
        for shard in &self.shards {
            if let Some(times) = &*shard.lock() {
                sum.add(times).expect("all have the same bounds");
            }
        }
        LatencySummary {
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

impl LatencyRecorders {
    pub(crate) fn distributions(&self) -> LatencyDistributions {
        LatencyDistributions {
            get: self.get.distribution(),
            multi_get: self.multi_get.distribution(),
            commit: self.commit.distribution(),
            durable_commit: self.durable_commit.distribution(),
        }
    }

    pub(crate) fn latencies(&self) -> OperationLatencies {
        OperationLatencies {
            get: self.get.latency(),
            multi_get: self.multi_get.latency(),
            commit: self.commit.latency(),
            durable_commit: self.durable_commit.latency(),
        }
    }
}

impl fmt::Debug for LatencyRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.latency(), f)
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_operations_is_timed_and_what_is_timed_is_told() {
        let recorder = LatencyRecorder::default();
        assert_eq!(recorder.latency(), LatencySummary::default());
        const OPERATIONS: u64 = 100_000;
        for _ in 0..OPERATIONS {
            LatencyTimer::sampled().over(&recorder);
        }
        let timed = recorder.latency().timed;
        let expected = OPERATIONS / u64::from(SAMPLED);
        assert!(
            (expected / 2..expected * 2).contains(&timed),
            "{timed} were timed"
        );
        let recorder = LatencyRecorder::default();
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
