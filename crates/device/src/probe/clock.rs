//! The clock of a measurement, which is a parameter: real, or that of a simulated machine.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Measures elapsed time and CPU time.
pub trait ProbeClock {
    /// Returns the nanoseconds since some fixed start.
    fn now_ns(&self) -> u64;

    /// Returns the CPU time of this process in nanoseconds.
    fn cpu_ns(&self) -> u64;

    /// Returns the date in seconds since 1970.
    fn date_s(&self) -> u64;
}

/// Real time, and the CPU time of this process with all its threads.
#[derive(Clone, Copy, Debug)]
pub struct ProcessClock {
    began: Instant,
}

impl ProcessClock {
    /// Creates a clock that starts now.
    #[must_use]
    pub fn new() -> ProcessClock {
        ProcessClock {
            began: Instant::now(),
        }
    }
}

impl Default for ProcessClock {
    fn default() -> ProcessClock {
        ProcessClock::new()
    }
}

impl ProbeClock for ProcessClock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn cpu_ns(&self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
    }

    fn date_s(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time_of_the_processor_and_sleep_does_not() {
        let watch = ProcessClock::new();
        let (now, cpu) = (watch.now_ns(), watch.cpu_ns());
        while watch.cpu_ns() < cpu + 1_000_000 {
            std::hint::black_box(0);
        }
        assert!(watch.now_ns() > now);
    }
}
