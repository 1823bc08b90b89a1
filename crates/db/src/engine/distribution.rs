//! Latency distributions with fixed bucket bounds, which allow adding and subtracting two
//! distributions.

/// Number of buckets for each doubling of the latency.
const STEPS: usize = 4;
/// Number of doublings that the buckets cover, starting at the first bucket's upper bound.
const DOUBLINGS: usize = 27;
const BOUNDS: usize = STEPS * DOUBLINGS + 1;
/// Upper bound of the first bucket, in nanoseconds.
const FIRST_NS: u64 = 128;
/// The bounds within one doubling, relative to its first bound, in units of 1/65,536. They are 1
/// and the fourth roots of 2, 4 and 8.
const ROOTS: [u64; STEPS] = [65_536, 77_936, 92_682, 110_218];

const _: () = assert!(FIRST_NS << DOUBLINGS < u64::MAX >> 17, "a bound and its root fit");

/// Latency histogram of one kind of operation: the number of timed operations in each latency
/// bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyDistribution {
    /// Number of operations in each bucket. The last entry counts operations that took longer than
    /// the last bound. Empty before the first operation.
    counts: Vec<u64>,
    sum_ns: f64,
}

/// Latency histograms of user operations, one for each kind of operation, as in
/// [`OperationLatencies`](crate::OperationLatencies).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LatencyDistributions {
    /// Single-key gets, of which about one in 64 is timed.
    pub get: LatencyDistribution,
    /// Multi-key gets, of which about one in 64 is timed.
    pub multi_get: LatencyDistribution,
    /// Commits that do not wait for a sync, of which about one in 64 is timed.
    pub commit: LatencyDistribution,
    /// Commits with [`Durability::Disk`](crate::Durability::Disk), all of which are timed.
    pub durable_commit: LatencyDistribution,
}

fn bound_ns(index: usize) -> u64 {
    ((FIRST_NS << (index / STEPS)) * ROOTS[index % STEPS]) >> 16
}

impl LatencyDistribution {
    pub(super) fn add(&mut self, ns: u64, count: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; BOUNDS + 1];
        }
        // Find the first bucket whose upper bound is not below the latency.
        let (mut low, mut high) = (0, BOUNDS);
        while low < high {
            let middle = low.midpoint(high);
            if bound_ns(middle) < ns {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.counts[low] += count;
        self.sum_ns += ns as f64 * count as f64;
    }

    /// Returns the number of operations that were timed.
    #[must_use]
    pub fn timed(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the latencies of all timed operations, in nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> f64 {
        self.sum_ns
    }

    /// Returns the cumulative histogram: for each bucket bound in nanoseconds, the number of timed
    /// operations that took at most that long. Both numbers ascend. Operations that took longer
    /// than the last bound are counted only by [`LatencyDistribution::timed`]. The bounds never
    /// change, and there are four for each doubling of the latency.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut sum = 0;
        (0..BOUNDS).map(move |index| {
            sum += self.counts.get(index).copied().unwrap_or(0);
            (bound_ns(index), sum)
        })
    }

    /// Returns the distribution of the operations after `earlier`, which must be an earlier
    /// distribution of the same store.
    #[must_use]
    pub fn since(&self, earlier: &LatencyDistribution) -> LatencyDistribution {
        let before = |index| earlier.counts.get(index).copied().unwrap_or(0);
        let counts = self.counts.iter().enumerate();
        LatencyDistribution {
            counts: counts
                .map(|(index, count)| count.saturating_sub(before(index)))
                .collect(),
            sum_ns: (self.sum_ns - earlier.sum_ns).max(0.0),
        }
    }

    /// Returns the sum of two distributions.
    #[must_use]
    pub fn with(&self, other: &LatencyDistribution) -> LatencyDistribution {
        let count = |of: &LatencyDistribution, index| of.counts.get(index).copied().unwrap_or(0);
        let len = self.counts.len().max(other.counts.len());
        LatencyDistribution {
            counts: (0..len)
                .map(|index| count(self, index) + count(other, index))
                .collect(),
            sum_ns: self.sum_ns + other.sum_ns,
        }
    }

    /// Returns the latency in nanoseconds that the fraction `share` of the timed operations did not
    /// exceed. The error is at most a tenth. Returns `None` if no operation was timed.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let before = db.distributions().commit;
    /// for number in 0..1000u32 {
    ///     db.keyspace("years")?.put(number.to_be_bytes(), "")?;
    /// }
    /// let p99 = db.distributions().commit.since(&before).quantile_ns(0.99);
    /// assert!(p99.is_some_and(|ns| ns > 0));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let timed = self.timed();
        if timed == 0 {
            return None;
        }
        let wanted = (share.clamp(0.0, 1.0) * timed as f64).max(f64::MIN_POSITIVE);
        let mut below = 0u64;
        for (index, &count) in self.counts.iter().enumerate() {
            if (below + count) as f64 >= wanted && count > 0 {
                let high = bound_ns(index.min(BOUNDS - 1)) as f64;
                let low = if index == 0 {
                    0.0
                } else {
                    bound_ns(index - 1) as f64
                };
                let part = (wanted - below as f64) / count as f64;
                return Some((low + (high - low).max(0.0) * part) as u64);
            }
            below += count;
        }
        Some(bound_ns(BOUNDS - 1))
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn bounds_ascend_and_four_steps_double_them() {
        for index in 1..BOUNDS {
            assert!(bound_ns(index - 1) < bound_ns(index));
        }
        assert_eq!(bound_ns(STEPS), 2 * bound_ns(0));
    }

    #[test]
    fn quantiles_are_near_and_of_the_time_between() {
        let mut distribution = LatencyDistribution::default();
        assert_eq!(distribution.quantile_ns(0.5), None);
        for us in 1..=1000 {
            distribution.add(us * 1000, 1);
        }
        let near = |found: Option<u64>, wanted: u64| {
            let found = found.expect("something was timed");
            assert!(
                found.abs_diff(wanted) * 10 <= wanted,
                "{found} is not near {wanted}"
            );
        };
        near(distribution.quantile_ns(0.5), 500_000);
        near(distribution.quantile_ns(0.99), 990_000);
        let earlier = distribution.clone();
        distribution.add(5_000_000, 10);
        near(distribution.since(&earlier).quantile_ns(0.5), 5_000_000);
        assert_eq!(distribution.since(&earlier).timed(), 10);
        assert_eq!(distribution.with(&earlier).timed(), 2010);
        let (_, all) = distribution.cumulative().last().expect("there are bounds");
        assert_eq!(all, distribution.timed());
    }
}
