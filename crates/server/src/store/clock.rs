//! The time, which never goes back.

use parking_lot::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970 that never go back and never stand still: when the machine's clock is
/// set back, time goes on by what really passes, until the clock has caught up. What has expired
/// stays so.
#[derive(Debug)]
pub(crate) struct Clock {
    last: Mutex<(u64, Instant)>,
}

impl Clock {
    /// Creates a clock that was at `mark` at least once.
    pub(crate) fn new(mark: u64) -> Clock {
        Clock {
            last: Mutex::new((mark.max(machine_ms()), Instant::now())),
        }
    }

    /// Returns the time now.
    pub(crate) fn now_ms(&self) -> u64 {
        self.at(machine_ms(), Instant::now())
    }

    fn at(&self, machine: u64, instant: Instant) -> u64 {
        let mut last = self.last.lock();
        let passed = whole_ms(instant.saturating_duration_since(last.1));
        let now = machine.max(last.0 + passed);
        // Fractions of a millisecond are not lost: the moment moves by whole ones only.
        if now > last.0 {
            *last = (now, instant);
        }
        now
    }
}

fn machine_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, whole_ms)
}

/// Milliseconds of a time that a clock has passed, without the wide numbers that longer ones need.
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
        let clock = Clock::new(0);
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
        assert!(Clock::new(mark).now_ms() >= mark);
    }
}
