//! Detects drops in a phase's throughput from the numbers of operations per interval.

use serde::{Deserialize, Serialize};

/// An interval is a dip if its throughput is below this fraction of the later mean.
const FALLEN: f64 = 0.25;

/// How steady a phase's throughput was. The later mean is the mean throughput in the second half of
/// the phase, when the engine has warmed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThroughputDips {
    /// Mean number of operations per second over the whole phase.
    pub mean_per_s: f64,
    /// Mean number of operations per second over the second half of the phase.
    pub later_mean_per_s: f64,
    /// Number of operations in the one-second window with the fewest, or the mean if the phase is
    /// shorter than a second.
    pub lowest_second_per_s: f64,
    /// Total time in seconds with a throughput below a quarter of the later mean.
    pub below_s: f64,
    /// Longest uninterrupted time in seconds with a throughput below a quarter of the later mean.
    pub longest_below_s: f64,
}

impl ThroughputDips {
    /// Computes the dips of a phase that lasted `seconds`, from its complete intervals, including
    /// those without any operation. Returns `None` if no interval is complete.
    #[must_use]
    pub fn of(series: &[u64], interval_ms: u64, seconds: f64) -> Option<ThroughputDips> {
        let interval_s = interval_ms.max(1) as f64 / 1e3;
        // The measured duration may fall short of the nominal one by a few nanoseconds.
        let whole = (seconds / interval_s + 1e-6) as usize;
        if whole == 0 {
            return None;
        }
        let mut counts = series.to_vec();
        counts.resize(whole, 0);
        let per_s = |counts: &[u64]| {
            let sum: u64 = counts.iter().sum();
            sum as f64 / (counts.len() as f64 * interval_s)
        };
        let later_mean_per_s = per_s(&counts[whole / 2..]);
        let second = ((1.0 / interval_s).round() as usize).clamp(1, whole);
        let lowest_second_per_s = counts.windows(second).map(per_s).fold(f64::MAX, f64::min);
        let least = later_mean_per_s * FALLEN * interval_s;
        let (mut below, mut longest, mut now) = (0usize, 0usize, 0usize);
        for &count in &counts {
            now = if (count as f64) < least { now + 1 } else { 0 };
            below += usize::from(now > 0);
            longest = longest.max(now);
        }
        Some(ThroughputDips {
            mean_per_s: per_s(&counts),
            later_mean_per_s,
            lowest_second_per_s,
            below_s: below as f64 * interval_s,
            longest_below_s: longest as f64 * interval_s,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_phase_has_no_dips() {
        let dips = ThroughputDips::of(&[10; 30], 100, 3.0).unwrap();
        assert_eq!((dips.mean_per_s, dips.later_mean_per_s), (100.0, 100.0));
        assert_eq!(dips.lowest_second_per_s, 100.0);
        assert_eq!((dips.below_s, dips.longest_below_s), (0.0, 0.0));
    }

    #[test]
    fn a_slow_beginning_is_measured_by_what_comes_later() {
        // The throughput is a fifth of the later one for two and a half seconds, half a second of
        // which is separate from the rest.
        let mut series = vec![2; 20];
        series.extend([10; 10]);
        series.extend([2; 5]);
        series.extend([10; 45]);
        let dips = ThroughputDips::of(&series, 100, 8.0).unwrap();
        assert_eq!(dips.later_mean_per_s, 100.0);
        assert_eq!(dips.lowest_second_per_s, 20.0);
        assert!((dips.below_s - 2.5).abs() < 1e-9 && (dips.longest_below_s - 2.0).abs() < 1e-9);
        assert!((dips.mean_per_s - 75.0).abs() < 1e-9, "{dips:?}");
    }

    #[test]
    fn an_operation_that_ends_late_leaves_intervals_without_any() {
        // Twenty complete intervals, and then none with an operation until one ends a second later.
        let mut series = vec![10; 20];
        series.extend([0; 10]);
        series.push(1);
        let dips = ThroughputDips::of(&series, 100, 3.05).unwrap();
        assert_eq!(dips.lowest_second_per_s, 0.0);
        assert!((dips.longest_below_s - 1.0).abs() < 1e-9, "{dips:?}");
        // The result is the same if the series ends early.
        assert_eq!(ThroughputDips::of(&series[..20], 100, 3.05), Some(dips));
    }

    #[test]
    fn a_phase_without_a_whole_interval_says_nothing() {
        assert_eq!(ThroughputDips::of(&[5], 100, 0.05), None);
        let dips = ThroughputDips::of(&[5, 5, 1], 100, 0.25).unwrap();
        assert_eq!((dips.mean_per_s, dips.lowest_second_per_s), (50.0, 50.0));
    }
}
