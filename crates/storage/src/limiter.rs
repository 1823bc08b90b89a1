//! A token bucket that limits the rate of background work. The caller supplies the current time.

use std::time::Duration;

/// Limits work to a rate in units per second, with bursts.
///
/// Work is charged after it was done, and the caller must then wait for the returned duration. A
/// single charge may therefore exceed the burst size, but the long-term rate still holds.
///
/// ```
/// use alluvium_storage::limiter::RateLimiter;
/// use std::time::Duration;
/// let mut limiter = RateLimiter::new(1000, 500);
/// let begin = Duration::ZERO;
/// assert_eq!(limiter.take(begin, 500), Duration::ZERO);
/// assert_eq!(limiter.take(begin, 250), Duration::from_millis(250));
/// // The wait is over, and as much again is paid for.
/// assert_eq!(limiter.take(begin + Duration::from_millis(250), 0), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RateLimiter {
    per_second: u64,
    burst: u64,
    /// The time at which the bucket was or will be full. Each charged unit postpones it.
    full_at: Duration,
}

impl RateLimiter {
    /// Creates a limiter whose bucket is full at time zero. A rate of 0 is treated as 1.
    #[must_use]
    pub fn new(per_second: u64, burst: u64) -> RateLimiter {
        RateLimiter {
            per_second: per_second.max(1),
            burst,
            full_at: Duration::ZERO,
        }
    }

    /// Returns the rate limit in units per second.
    #[must_use]
    pub fn per_second(&self) -> u64 {
        self.per_second
    }

    /// Charges `units` units of work at time `now`, measured from an arbitrary fixed origin.
    /// Returns how long the caller must wait before it goes on.
    pub fn take(&mut self, now: Duration, units: u64) -> Duration {
        let from = self.full_at.max(now);
        self.full_at = from.saturating_add(self.time_of(units));
        assert!(self.full_at >= now, "what was taken is paid for in the future");
        self.full_at
            .saturating_sub(now.saturating_add(self.time_of(self.burst)))
    }

    /// Returns how long the bucket takes to gain `units` units.
    fn time_of(&self, units: u64) -> Duration {
        let ns = u128::from(units) * 1_000_000_000 / u128::from(self.per_second);
        Duration::from_nanos(ns.try_into().unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_a_long_time_the_rate_holds_whatever_is_taken_when() {
        let mut random = fastrand::Rng::with_seed(5);
        for (rate, burst) in [(10_000, 0), (1_000_000, 50_000), (3, 1)] {
            let mut limiter = RateLimiter::new(rate, burst);
            let (mut now, mut taken) = (Duration::ZERO, 0);
            for _ in 0..2000 {
                let units = random.u64(0..rate / 2 + 2);
                now += limiter.take(now, units);
                taken += units;
                let most = now.as_secs_f64() * rate as f64 + burst as f64;
                assert!(taken as f64 <= most + 1.0, "{taken} of {most}");
            }
            assert!(taken as f64 > 0.99 * now.as_secs_f64() * rate as f64);
        }
    }

    #[test]
    fn an_idle_time_earns_a_burst_and_no_more() {
        let mut limiter = RateLimiter::new(100, 50);
        let later = Duration::from_secs(1000);
        assert_eq!(limiter.take(later, 50), Duration::ZERO);
        assert_eq!(limiter.take(later, 1), Duration::from_millis(10));
        assert_eq!(
            RateLimiter::new(0, 0).take(Duration::ZERO, u64::MAX),
            Duration::from_nanos(u64::MAX)
        );
    }
}
