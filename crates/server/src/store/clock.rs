//! The server's clock. It returns a time earlier than a previous one only if the system clock is
//! set back by more than a day.

use parking_lot::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How far the system clock may fall behind the last known time, in milliseconds, before the server
/// follows it backwards. A store's readers tolerate the same difference.
pub(crate) const MOST_BEHIND_MS: u64 = 24 * 60 * 60 * 1000;

/// A clock that counts milliseconds since 1970. When the system clock is set back, this clock keeps
/// advancing at the rate of the monotonic clock until the system clock has caught up, so that
/// expired keys stay expired.
///
/// If the system clock is more than a day behind, either it is wrong now or it was wrong earlier.
/// In both cases the server adopts the system clock's time and logs a warning.
#[derive(Debug)]
pub(crate) struct StoreClock {
    last: Mutex<(u64, Instant)>,
}

impl StoreClock {
    /// Creates a clock whose time is at least `mark`, unless the system clock is more than a day
    /// behind `mark`.
    pub(crate) fn new(mark: u64) -> StoreClock {
        StoreClock::started(mark, machine_ms(), Instant::now())
    }

    fn started(mark: u64, machine: u64, instant: Instant) -> StoreClock {
        StoreClock {
            last: Mutex::new((not_behind(mark, machine), instant)),
        }
    }

    /// Returns the current time in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        self.at(machine_ms(), Instant::now())
    }

    fn at(&self, machine: u64, instant: Instant) -> u64 {
        let mut last = self.last.lock();
        let passed = whole_ms(instant.saturating_duration_since(last.1));
        let now = not_behind(last.0.saturating_add(passed), machine);
        // Update `last` only after a whole millisecond, so that fractions of a millisecond add up.
        if now != last.0 {
            *last = (now, instant);
        }
        now
    }
}

/// Returns the later of `time` and `machine` (the system clock). If `machine` is more than a day
/// behind `time`, logs a warning and returns `machine`.
fn not_behind(time: u64, machine: u64) -> u64 {
    if time.saturating_sub(machine) > MOST_BEHIND_MS {
        return set_back(time, machine);
    }
    machine.max(time)
}

#[cold]
fn set_back(time: u64, machine: u64) -> u64 {
    tracing::warn!(
        "the system clock is {} days behind the latest time that the server has recorded; the server now \
         follows the system clock, and expired keys may reappear; check the system clock",
        (time - machine) / MOST_BEHIND_MS
    );
    machine
}

fn machine_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, whole_ms)
}

/// Converts a duration to whole milliseconds, without 128-bit arithmetic.
fn whole_ms(time: Duration) -> u64 {
    time.as_secs()
        .saturating_mul(1000)
        .saturating_add(u64::from(time.subsec_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_does_not_stop_time() {
        let clock = StoreClock::new(0);
        let begin = Instant::now();
        let at = |machine, ms| clock.at(machine, begin + Duration::from_millis(ms));
        let far = machine_ms() + 1_000_000;
        assert_eq!(at(far, 1_000), far);
        assert_eq!(at(far - 500_000, 1_250), far + 250);
        assert_eq!(at(far - 499_000, 2_000), far + 1_000);
        assert_eq!(at(far + 5_000, 3_000), far + 5_000);
    }

    #[test]
    fn a_mark_of_an_earlier_life_is_not_undercut() {
        let mark = machine_ms() + 100_000;
        assert!(StoreClock::new(mark).now_ms() >= mark);
    }

    #[test]
    fn a_clock_that_is_behind_by_more_than_a_day_is_believed() {
        let begin = Instant::now();
        let now = 20_000 * MOST_BEHIND_MS;
        for mark in [now + 30 * 365 * MOST_BEHIND_MS, u64::MAX] {
            let clock = StoreClock::started(mark, now, begin);
            assert_eq!(clock.at(now + 5, begin + Duration::from_millis(5)), now + 5);
        }
        let clock = StoreClock::started(now + MOST_BEHIND_MS, now, begin);
        let at = |machine, ms| clock.at(machine, begin + Duration::from_millis(ms));
        assert_eq!(
            at(now + 1_000, 1_000),
            now + MOST_BEHIND_MS + 1_000,
            "a day is waited for"
        );
        // The system clock is set back again and is now more than a day behind.
        let back = now - 1;
        assert_eq!(at(back, 1_000), back);
        assert_eq!(at(back + 10, 1_010), back + 10);
        // Afterwards the time advances normally.
        assert_eq!(at(back - 7_000, 2_010), back + 1_010);
    }
}
