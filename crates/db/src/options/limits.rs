//! Limits the device bandwidth and processor time of background work. This module only computes
//! pauses; it performs no background work and reads no clock.

use crate::error::{Error, Result};
use alluvium_base::MIB;
use std::time::Duration;

/// Smallest permitted limit in bytes per second. Below it, compactions would take unreasonably
/// long.
const LEAST_BYTES: u64 = MIB;

/// Shortest pause. Anything shorter is not worth its overhead.
const SHORTEST_REST: Duration = Duration::from_millis(1);

/// Longest pause, after which the paused thread checks the limits again.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// Limits on the device bandwidth and processor time of background work. Compactions respect the
/// limits as long as they can be deferred, but exceed them if they have fallen so far behind that
/// writers would be throttled. [`Stats::cap_yields`](crate::Stats::cap_yields) counts how often
/// this happens. Flushes, checkpoints and the log are never delayed.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let path = place.path().join("store");
/// use alluvium::{BackgroundLimits, Options};
/// let caps = BackgroundLimits::new().bytes_per_second(50 << 20).cpu_percent(25);
/// let db = Options::new().background(caps).open(&path)?;
/// # drop(db);
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackgroundLimits {
    bytes_per_second: Option<u64>,
    cpu_percent: Option<u32>,
}

impl BackgroundLimits {
    /// Returns limits that restrict nothing.
    #[must_use]
    pub fn new() -> BackgroundLimits {
        BackgroundLimits::default()
    }

    /// Sets the maximum number of bytes per second that compactions and flushes together read and
    /// write, averaged over a second. At least 1 MiB.
    #[must_use]
    pub fn bytes_per_second(mut self, bytes: u64) -> BackgroundLimits {
        self.bytes_per_second = Some(bytes);
        self
    }

    /// Sets the maximum share of time in which a compaction thread uses its processor, from 1 to
    /// 100 percent. The limit applies to each of the [`Options::workers`](crate::Options::workers)
    /// threads.
    #[must_use]
    pub fn cpu_percent(mut self, percent: u32) -> BackgroundLimits {
        self.cpu_percent = Some(percent);
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        let bad = |why| {
            Err(Error::BadOption {
                option: "background",
                why,
            })
        };
        if let Some(bytes) = self.bytes_per_second.filter(|&bytes| bytes < LEAST_BYTES) {
            return bad(format!(
                "{bytes} bytes per second is below the minimum of {LEAST_BYTES}"
            ));
        }
        if let Some(percent) = self.cpu_percent.filter(|percent| !(1..=100).contains(percent)) {
            return bad(format!("{percent} % of the time is out of range: give 1 to 100"));
        }
        Ok(())
    }
}

/// Whether the next slice of a compaction may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SliceDecision {
    Go,
    /// The slice runs although the limit is exceeded, because writers would otherwise be throttled.
    Yield,
    /// The compaction pauses for this long and then checks the limits again.
    Rest(Duration),
}

/// A token bucket whose tokens are bytes. It refills at the limit's rate and drains by all bytes
/// that background work reads and writes. It holds the bytes of a quarter of a second, and its
/// level may become negative.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TokenBucket {
    level: i64,
    /// Time of the last request, and the number of bytes read and written by then.
    at: Duration,
    moved: u64,
}

impl TokenBucket {
    /// Returns whether a slice may run at the time `now`. `moved` is the number of bytes read and
    /// written so far.
    pub(crate) fn ask(
        &mut self,
        caps: &BackgroundLimits,
        now: Duration,
        moved: u64,
        hurries: bool,
    ) -> SliceDecision {
        let Some(rate) = caps.bytes_per_second else {
            return SliceDecision::Go;
        };
        let flown = u128::from(rate) * now.saturating_sub(self.at).as_nanos() / 1_000_000_000;
        let most = (rate / 4) as i64;
        let taken = moved.saturating_sub(self.moved) as i64;
        let flown = flown.min(i64::MAX as u128 / 2) as i64;
        self.level = self.level.saturating_add(flown).min(most).saturating_sub(taken);
        (self.at, self.moved) = (now, moved);
        if self.level >= 0 {
            SliceDecision::Go
        } else if hurries {
            // Writers are waiting, so no later pause makes up for the bytes above the limit.
            self.level = 0;
            SliceDecision::Yield
        } else {
            let owed = Duration::from_secs_f64(-self.level as f64 / rate as f64);
            SliceDecision::Rest(owed.clamp(SHORTEST_REST, LONGEST_REST))
        }
    }
}

/// Returns how long to pause after a slice of this duration to respect the processor limit, or
/// `None` if no pause is needed.
pub(crate) fn rest_after(caps: &BackgroundLimits, slice: Duration) -> Option<Duration> {
    let percent = caps.cpu_percent.filter(|&percent| percent < 100)?;
    Some((slice * (100 - percent) / percent).min(LONGEST_REST))
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_mean_of_what_is_moved_keeps_to_the_cap() {
        let caps = BackgroundLimits::new().bytes_per_second(100 * MIB);
        let (mut bucket, mut now, mut moved) = (TokenBucket::default(), Duration::ZERO, 0);
        while now < ms(10_000) {
            match bucket.ask(&caps, now, moved, false) {
                SliceDecision::Go => {
                    // Each slice moves far more bytes than the limit allows.
                    moved += 4 * MIB;
                    now += ms(2);
                }
                SliceDecision::Rest(rest) => {
                    assert!(rest <= LONGEST_REST && rest > Duration::ZERO);
                    now += rest;
                }
                SliceDecision::Yield => panic!("nobody hurries"),
            }
        }
        let allowed = 1000 * MIB;
        assert!(
            (allowed * 95 / 100..allowed * 105 / 100).contains(&moved),
            "{moved} bytes"
        );
    }

    #[test]
    fn who_was_idle_has_a_quarter_of_a_second_saved_and_no_more() {
        let caps = BackgroundLimits::new().bytes_per_second(100 * MIB);
        let mut bucket = TokenBucket::default();
        assert_eq!(bucket.ask(&caps, ms(60_000), 0, false), SliceDecision::Go);
        assert_eq!(bucket.ask(&caps, ms(60_000), 25 * MIB, false), SliceDecision::Go);
        let SliceDecision::Rest(rest) = bucket.ask(&caps, ms(60_000), 26 * MIB, false) else {
            panic!("it is empty");
        };
        assert_eq!(rest.as_millis(), 10);
    }

    #[test]
    fn the_cap_yields_to_those_who_would_be_held_back_and_is_kept_again_afterwards() {
        let caps = BackgroundLimits::new().bytes_per_second(MIB);
        let mut bucket = TokenBucket::default();
        for turn in 1..100u64 {
            assert_eq!(
                bucket.ask(&caps, ms(turn), turn * 50 * MIB, true),
                SliceDecision::Yield
            );
        }
        assert!(matches!(
            bucket.ask(&caps, ms(100), 5000 * MIB, false),
            SliceDecision::Rest(_)
        ));
        assert_eq!(
            bucket.ask(&caps, ms(200_000), 5000 * MIB, false),
            SliceDecision::Go
        );
        assert_eq!(
            bucket.ask(&BackgroundLimits::new(), ms(1), u64::MAX, false),
            SliceDecision::Go
        );
    }

    #[test]
    fn a_share_of_the_time_is_used() {
        let quarter = BackgroundLimits::new().cpu_percent(25);
        assert_eq!(rest_after(&quarter, ms(2)), Some(ms(6)));
        assert_eq!(rest_after(&quarter, ms(1000)), Some(LONGEST_REST));
        assert_eq!(rest_after(&BackgroundLimits::new().cpu_percent(100), ms(2)), None);
        assert_eq!(rest_after(&BackgroundLimits::new(), ms(2)), None);
        assert!(BackgroundLimits::new().cpu_percent(0).check().is_err());
        assert!(BackgroundLimits::new().bytes_per_second(1000).check().is_err());
        assert!(quarter.bytes_per_second(LEAST_BYTES).check().is_ok());
    }
}
