//! Records the latencies of operations, and throughput over time.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Maximum recordable latency in nanoseconds: one hour.
const MOST_NS: u64 = 3_600_000_000_000;

/// The recorded latencies and throughput of one or more threads.
#[derive(Clone, Debug)]
pub struct PhaseRecorder {
    histogram: Histogram<u64>,
    start: Instant,
    interval_ns: u64,
    counts: Vec<u64>,
    /// End of the current interval, in nanoseconds since the start.
    ends_ns: u64,
}

/// The latencies in a report, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyPercentiles {
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
    /// Percentiles and their latencies, for plotting curves.
    pub curve: Vec<(f64, f64)>,
}

/// The percentiles of a curve.
const CURVE: [f64; 12] = [
    1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 100.0,
];

impl PhaseRecorder {
    /// Creates a recorder that counts completed operations in consecutive intervals, the first of
    /// which begins at `start`.
    #[must_use]
    pub fn new(start: Instant, interval: Duration) -> PhaseRecorder {
        let interval_ns = (interval.as_nanos() as u64).max(1);
        PhaseRecorder {
            histogram: Histogram::new_with_bounds(1, MOST_NS, 3).expect("constants that fit"),
            start,
            interval_ns,
            counts: vec![0],
            ends_ns: interval_ns,
        }
    }

    /// Records an operation, whose latency is the time from its intended start `began` to `ended`.
    pub fn record(&mut self, began: Instant, ended: Instant) {
        self.histogram
            .saturating_record(ended.saturating_duration_since(began).as_nanos() as u64);
        let now = ended.saturating_duration_since(self.start).as_nanos() as u64;
        while now >= self.ends_ns {
            self.counts.push(0);
            self.ends_ns += self.interval_ns;
        }
        *self.counts.last_mut().expect("there is always one") += 1;
    }

    /// Adds the records of another thread. Both recorders must have the same start.
    pub fn add(&mut self, other: &PhaseRecorder) {
        self.histogram
            .add(&other.histogram)
            .expect("both have the same bounds");
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum += count;
        }
    }

    /// Returns the number of recorded operations.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the number of operations completed in each interval.
    #[must_use]
    pub fn series(&self) -> &[u64] {
        &self.counts
    }

    #[must_use]
    pub fn percentiles(&self) -> LatencyPercentiles {
        let us = |ns: u64| ns as f64 / 1000.0;
        let at = |percentile: f64| us(self.histogram.value_at_percentile(percentile));
        LatencyPercentiles {
            p50_us: at(50.0),
            p99_us: at(99.0),
            p999_us: at(99.9),
            max_us: us(self.histogram.max()),
            curve: CURVE
                .iter()
                .map(|&percentile| (percentile, at(percentile)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_and_intervals_add_up() {
        let start = Instant::now();
        let mut all = PhaseRecorder::new(start, Duration::from_millis(100));
        let mut other = all.clone();
        let at = |ms: u64| start + Duration::from_millis(ms);
        for ms in 0..990 {
            all.record(at(ms), at(ms) + Duration::from_micros(10));
        }
        for ms in 1000..1010 {
            other.record(at(ms - 5), at(ms));
        }
        all.add(&other);
        assert_eq!(all.operations(), 1000);
        assert_eq!(all.series()[..3], [100, 100, 100]);
        assert_eq!((all.series().len(), all.series()[10]), (11, 10));
        let found = all.percentiles();
        let near = |one: f64, other: f64| (one / other - 1.0).abs() < 0.002;
        assert!(near(found.p50_us, 10.0) && near(found.p99_us, 10.0), "{found:?}");
        assert!(
            near(found.p999_us, 5000.0) && near(found.max_us, 5000.0),
            "{found:?}"
        );
    }

    #[test]
    fn what_was_late_before_it_began_counts_from_when_it_was_meant_to() {
        let start = Instant::now();
        let mut recorder = PhaseRecorder::new(start, Duration::from_secs(1));
        recorder.record(start, start + Duration::from_secs(2));
        assert!((recorder.percentiles().max_us / 2e6 - 1.0).abs() < 0.002);
        assert_eq!(recorder.series(), [0, 0, 1]);
    }
}
