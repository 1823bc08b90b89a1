//! A background thread that samples the counters several times a second. Rates and peaks are
//! computed from the samples. The thread also ends expired CLIENT PAUSEs.

use crate::shared::StoreContext;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval between two samples of the server's counters.
const TICK: Duration = Duration::from_millis(100);

/// Number of counter samples per sample of the store's statistics, which take longer to read.
const TICKS_PER_PEAK: u32 = 10;

/// Number of sampling intervals of the store's statistics to keep.
const PRESSURE_LOOKS: usize = 10;

/// Number of samples over which rates are averaged.
const LOOKS: usize = 16;

/// The values of the counters at one point in time.
#[derive(Clone, Copy, Debug)]
struct CounterSample {
    at: Instant,
    counts: [u64; 3],
}

/// Rates per second, averaged over the last [`LOOKS`] samples of the counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrafficRates {
    pub(crate) commands: f64,
    pub(crate) received_bytes: f64,
    pub(crate) sent_bytes: f64,
}

/// How much the store throttled writers in the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct WriteStallStats {
    pub(crate) waits: u64,
    /// Fraction of the observed period in which writers were delayed.
    pub(crate) delayed_share: f64,
    /// Length of the observed period in seconds.
    pub(crate) seconds: u64,
}

/// A sample of the store's write throttling: the time, the number of write stalls so far, and the
/// writers' total delay so far in microseconds.
type StallSample = (Instant, u64, u64);

/// The most recent samples, and the peak values.
#[derive(Debug, Default)]
pub(crate) struct SampleHistory {
    looks: Mutex<Vec<CounterSample>>,
    held: Mutex<Vec<StallSample>>,
    peak_used: AtomicU64,
}

impl SampleHistory {
    fn look(&self, at: Instant, counts: [u64; 3]) {
        let mut looks = self.looks.lock();
        if looks.len() > LOOKS {
            looks.remove(0);
        }
        looks.push(CounterSample { at, counts });
    }

    /// Returns the rates per second, averaged over the last samples.
    pub(crate) fn rates(&self) -> TrafficRates {
        let looks = self.looks.lock();
        let (Some(first), Some(last)) = (looks.first(), looks.last()) else {
            return TrafficRates::default();
        };
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        // Report a rate of zero for a counter that was reset between the samples.
        let rate = |index: usize| match last.counts[index].saturating_sub(first.counts[index]) {
            count if seconds > 0.0 => count as f64 / seconds,
            _ => 0.0,
        };
        TrafficRates {
            commands: rate(0),
            received_bytes: rate(1),
            sent_bytes: rate(2),
        }
    }

    fn note_pressure(&self, held: StallSample) {
        let mut looks = self.held.lock();
        if looks.len() > PRESSURE_LOOKS {
            looks.remove(0);
        }
        looks.push(held);
    }

    /// Returns how much the store throttled writers in about the last ten seconds.
    pub(crate) fn pressure(&self) -> WriteStallStats {
        let looks = self.held.lock();
        let (Some(first), Some(last)) = (looks.first(), looks.last()) else {
            return WriteStallStats::default();
        };
        let passed = last.0.duration_since(first.0);
        let delayed_us = last.2.saturating_sub(first.2) as f64;
        WriteStallStats {
            waits: last.1.saturating_sub(first.1),
            delayed_share: delayed_us / (passed.as_micros() as f64).max(1.0),
            seconds: passed.as_secs_f64().round() as u64,
        }
    }

    /// Updates the peak memory use with the current use `now`, and returns the peak, both in bytes.
    pub(crate) fn peak_used(&self, now: u64) -> u64 {
        self.peak_used.fetch_max(now, Ordering::Relaxed).max(now)
    }

    pub(crate) fn reset_peak(&self) {
        self.peak_used.store(0, Ordering::Relaxed);
    }
}

/// Starts the sampling thread, which ends when the server closes its
/// [`pause`](StoreContext::pause).
pub(crate) fn start(shared: &Arc<StoreContext>) -> std::io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    std::thread::Builder::new()
        .name("alluvium-sample".to_owned())
        .spawn(move || {
            let mut ticks = 0u32;
            while shared.pause.watch(TICK) {
                ticks = ticks.wrapping_add(1);
                let counters = &shared.counters;
                let counts = [&counters.commands, &counters.received, &counters.sent]
                    .map(|counter| counter.load(Ordering::Relaxed));
                shared.samples.look(Instant::now(), counts);
                if ticks.is_multiple_of(TICKS_PER_PEAK) {
                    shared.samples.peak_used(shared.used_memory());
                    let stats = shared.store.db.stats();
                    let held = (Instant::now(), stats.waits, stats.delays.total_us());
                    shared.samples.note_pressure(held);
                }
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_means_over_the_looks_that_are_kept() {
        let samples = SampleHistory::default();
        let began = Instant::now();
        for step in 0..100u64 {
            samples.look(
                began + Duration::from_millis(100 * step),
                [50 * step, 1000 * step, 0],
            );
        }
        let rates = samples.rates();
        assert!((rates.commands - 500.0).abs() < 1e-6, "{rates:?}");
        assert!((rates.received_bytes - 10_000.0).abs() < 1e-6, "{rates:?}");
        assert!(rates.sent_bytes.abs() < 1e-6, "{rates:?}");
        assert_eq!(samples.peak_used(5), 5);
        assert_eq!(samples.peak_used(3), 5);
    }

    #[test]
    fn pressure_is_what_was_held_up_within_the_looks_that_are_kept() {
        let samples = SampleHistory::default();
        let began = Instant::now();
        for step in 0..100u64 {
            samples.note_pressure((began + Duration::from_secs(step), step / 50, 500_000 * step));
        }
        let pressure = samples.pressure();
        assert_eq!((pressure.waits, pressure.seconds), (0, 10));
        assert!((pressure.delayed_share - 0.5).abs() < 1e-6, "{pressure:?}");
    }
}
