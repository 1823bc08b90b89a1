//! How much of the device and of the processors the background may take. Nothing here does
//! anything, or looks at a clock.

use crate::{Error, Result};
use alluvium_base::MIB;
use std::time::Duration;

/// The least cap on bytes: with less, compactions would not come to an end within reason.
const LEAST_BYTES: u64 = MIB;

/// A shorter rest is not worth its while.
const SHORTEST_REST: Duration = Duration::from_millis(1);

/// One who may not go on asks again after so long at most.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// Caps on what the background takes. Compactions keep to them while they can be put off. When so
/// much work is due that writers would be held back, they do not, and
/// [`Stats::cap_yields`](crate::Stats::cap_yields) counts it. Writing memtables out, checkpoints
/// and the log are never put off.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let path = place.path().join("store");
/// use alluvium::{Background, Options};
/// let caps = Background::new().bytes_per_second(50 << 20).cpu_percent(25);
/// let db = Options::new().background(caps).open(&path)?;
/// # drop(db);
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Background {
    bytes_per_second: Option<u64>,
    cpu_percent: Option<u32>,
}

impl Background {
    /// No caps.
    #[must_use]
    pub fn new() -> Background {
        Background::default()
    }

    /// Sets how many bytes a second compactions, and memtables that are written out, may read and
    /// write, on the average of a second; at least a mebibyte.
    #[must_use]
    pub fn bytes_per_second(mut self, bytes: u64) -> Background {
        self.bytes_per_second = Some(bytes);
        self
    }

    /// Sets how many hundredths of the time each thread that compacts may use, from 1 to 100. How
    /// many threads there are [`Options::workers`](crate::Options::workers) says.
    #[must_use]
    pub fn cpu_percent(mut self, percent: u32) -> Background {
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
            return bad(format!("{bytes} bytes a second is less than {LEAST_BYTES}"));
        }
        if let Some(percent) = self.cpu_percent.filter(|percent| !(1..=100).contains(percent)) {
            return bad(format!("{percent} % of the time is not from 1 to 100"));
        }
        Ok(())
    }
}

/// Whether a compaction may do another slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// It may.
    Go,
    /// It must, whatever the cap says, for writers would be held back.
    Yield,
    /// It rests for this long and asks again.
    Rest(Duration),
}

/// A bucket into which as many bytes flow as the cap allows, and out of which everything is taken
/// that was moved. It holds those of a quarter of a second, and what was taken too much is owed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket {
    level: i64,
    /// When it was looked at last, and how many bytes had been moved by then.
    at: Duration,
    moved: u64,
}

impl Bucket {
    /// Asks at a time, when `moved` bytes have been moved in all.
    pub(crate) fn ask(&mut self, caps: &Background, now: Duration, moved: u64, hurries: bool) -> Leave {
        let Some(rate) = caps.bytes_per_second else {
            return Leave::Go;
        };
        let flown = u128::from(rate) * now.saturating_sub(self.at).as_nanos() / 1_000_000_000;
        let most = (rate / 4) as i64;
        let taken = moved.saturating_sub(self.moved) as i64;
        let flown = flown.min(i64::MAX as u128 / 2) as i64;
        self.level = self.level.saturating_add(flown).min(most).saturating_sub(taken);
        (self.at, self.moved) = (now, moved);
        if self.level >= 0 {
            Leave::Go
        } else if hurries {
            // What is done beyond the cap is not owed: the debt is paid for by then.
            self.level = 0;
            Leave::Yield
        } else {
            let owed = Duration::from_secs_f64(-self.level as f64 / rate as f64);
            Leave::Rest(owed.clamp(SHORTEST_REST, LONGEST_REST))
        }
    }
}

/// Returns how long to rest after a slice that took so long.
pub(crate) fn rest_after(caps: &Background, slice: Duration) -> Option<Duration> {
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
        let caps = Background::new().bytes_per_second(100 * MIB);
        let (mut bucket, mut now, mut moved) = (Bucket::default(), Duration::ZERO, 0);
        while now < ms(10_000) {
            match bucket.ask(&caps, now, moved, false) {
                Leave::Go => {
                    // Far faster than the cap allows.
                    moved += 4 * MIB;
                    now += ms(2);
                }
                Leave::Rest(rest) => {
                    assert!(rest <= LONGEST_REST && rest > Duration::ZERO);
                    now += rest;
                }
                Leave::Yield => panic!("nobody hurries"),
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
        let caps = Background::new().bytes_per_second(100 * MIB);
        let mut bucket = Bucket::default();
        assert_eq!(bucket.ask(&caps, ms(60_000), 0, false), Leave::Go);
        assert_eq!(bucket.ask(&caps, ms(60_000), 25 * MIB, false), Leave::Go);
        let Leave::Rest(rest) = bucket.ask(&caps, ms(60_000), 26 * MIB, false) else {
            panic!("it is empty");
        };
        assert_eq!(rest.as_millis(), 10);
    }

    #[test]
    fn the_cap_yields_to_those_who_would_be_held_back_and_is_kept_again_afterwards() {
        let caps = Background::new().bytes_per_second(MIB);
        let mut bucket = Bucket::default();
        for turn in 1..100u64 {
            assert_eq!(bucket.ask(&caps, ms(turn), turn * 50 * MIB, true), Leave::Yield);
        }
        assert!(matches!(
            bucket.ask(&caps, ms(100), 5000 * MIB, false),
            Leave::Rest(_)
        ));
        assert_eq!(bucket.ask(&caps, ms(200_000), 5000 * MIB, false), Leave::Go);
        assert_eq!(bucket.ask(&Background::new(), ms(1), u64::MAX, false), Leave::Go);
    }

    #[test]
    fn a_share_of_the_time_is_used() {
        let quarter = Background::new().cpu_percent(25);
        assert_eq!(rest_after(&quarter, ms(2)), Some(ms(6)));
        assert_eq!(rest_after(&quarter, ms(1000)), Some(LONGEST_REST));
        assert_eq!(rest_after(&Background::new().cpu_percent(100), ms(2)), None);
        assert_eq!(rest_after(&Background::new(), ms(2)), None);
        assert!(Background::new().cpu_percent(0).check().is_err());
        assert!(Background::new().bytes_per_second(1000).check().is_err());
        assert!(quarter.bytes_per_second(LEAST_BYTES).check().is_ok());
    }
}
