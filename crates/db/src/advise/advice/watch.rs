//! Measures one change on trial, as a state machine fed with counters and times.
//!
//! ```text
//! settle 10 s     caches fill; what is read then says nothing
//! intervals       5 s and 1000 lookups at least, each judged
//!                 two in a row outside            → taken back
//!                 four in a row within            → kept
//! 60 s            the last interval decides; without any, an hour passes → taken back
//! ```

use super::{CacheAdvice, TrialOutcome};

/// Milliseconds after a change in which nothing is measured, because the caches are still filling.
const SETTLE_MS: u64 = 10_000;
/// Minimum length of a measurement interval, in milliseconds and in lookups.
const INTERVAL_MS: u64 = 5_000;
const LOOKUPS: u64 = 1000;
/// Number of consecutive intervals above the bound after which a change is reverted, and number of
/// consecutive intervals within the bound after which it is kept.
const OUTSIDE: u32 = 2;
const WITHIN: u32 = 4;
/// Time limits in milliseconds. At the first, the latest interval decides whether the change is
/// kept. At the second, the change is reverted because there were too few lookups.
const LONG_MS: u64 = 60_000;
const LONGEST_MS: u64 = 3_600_000;
/// Tolerance of a comparison, as an absolute number of reads per lookup and as a fraction of the
/// reads per lookup before the change.
const CLOSE: f64 = 0.02;

/// The lookup counters at one point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LookupCounters {
    pub(crate) at_ms: u64,
    /// Number of keys looked up.
    pub(crate) lookups: u64,
    /// Number of device reads caused by these lookups.
    pub(crate) reads: u64,
}

impl LookupCounters {
    /// Returns the reads per lookup since an earlier point in time, or `None` if there were too few
    /// lookups.
    pub(crate) fn since(&self, before: &LookupCounters) -> Option<f64> {
        let lookups = self.lookups.saturating_sub(before.lookups);
        let reads = self.reads.saturating_sub(before.reads);
        (lookups >= LOOKUPS).then(|| reads as f64 / lookups as f64)
    }
}

/// Whether to continue the trial or to end it with an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrialDecision {
    Wait,
    End(TrialOutcome),
}

#[derive(Debug)]
pub(crate) struct TrialWatch {
    /// Maximum reads per lookup allowed by the prediction, including the tolerance.
    most: f64,
    before: Option<f64>,
    began_ms: u64,
    /// The counters at the start of the current interval.
    from: LookupCounters,
    measured: Option<f64>,
    outside: u32,
    within: u32,
    last: TrialOutcome,
}

impl TrialWatch {
    /// Starts measuring a change. `before` is the number of reads per lookup before the change, if
    /// known.
    pub(crate) fn new(advice: &CacheAdvice, before: Option<f64>, now: LookupCounters) -> TrialWatch {
        TrialWatch {
            most: advice.p90 + CLOSE,
            before,
            began_ms: now.at_ms,
            from: now,
            measured: None,
            outside: 0,
            within: 0,
            last: TrialOutcome::TooFewLookups,
        }
    }

    /// Returns the reads per lookup in the last complete interval.
    pub(crate) fn measured(&self) -> Option<f64> {
        self.measured
    }

    /// Evaluates the current interval if it is complete, and returns whether the trial ends and
    /// with which outcome. Call this periodically with the current counters.
    pub(crate) fn look(&mut self, now: LookupCounters) -> TrialDecision {
        let age_ms = now.at_ms.saturating_sub(self.began_ms);
        if age_ms < SETTLE_MS {
            self.from = now;
            return TrialDecision::Wait;
        }
        let took_ms = now.at_ms.saturating_sub(self.from.at_ms);
        if took_ms >= INTERVAL_MS
            && let Some(reads) = now.since(&self.from)
        {
            self.judge(reads);
            self.from = now;
        }
        if self.outside >= OUTSIDE || self.within >= WITHIN || self.measured.is_some() && age_ms >= LONG_MS {
            return TrialDecision::End(self.last);
        }
        match age_ms >= LONGEST_MS {
            true => TrialDecision::End(TrialOutcome::TooFewLookups),
            false => TrialDecision::Wait,
        }
    }

    fn judge(&mut self, reads: f64) {
        self.measured = Some(reads);
        let is_worse = |before: f64| reads > before * (1.0 + CLOSE) + CLOSE;
        self.last = if reads > self.most {
            TrialOutcome::AboveBand
        } else if self.before.is_some_and(is_worse) {
            TrialOutcome::WorseThanBefore
        } else {
            TrialOutcome::Kept
        };
        (self.outside, self.within) = match self.last {
            TrialOutcome::Kept => (0, self.within + 1),
            _ => (self.outside + 1, 0),
        };
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    const ADVICE: CacheAdvice = CacheAdvice {
        record_share: 0.5,
        p10: 0.2,
        predicted: 0.3,
        p90: 0.4,
    };

    /// Simulates a trial in steps of one second. Each second has `rate` lookups, which cause
    /// `reads(second)` device reads each. Returns the outcome and the duration of the trial in
    /// seconds.
    fn watched(before: Option<f64>, rate: u64, reads: impl Fn(u64) -> f64) -> (TrialOutcome, u64) {
        let mut now = LookupCounters {
            at_ms: 1_000_000,
            lookups: 77,
            reads: 5,
        };
        let mut watch = TrialWatch::new(&ADVICE, before, now);
        for second in 1.. {
            now.at_ms += 1000;
            now.lookups += rate;
            now.reads += (reads(second) * rate as f64) as u64;
            if let TrialDecision::End(outcome) = watch.look(now) {
                return (outcome, second);
            }
        }
        unreachable!("each change ends");
    }

    #[test]
    fn what_lies_within_the_band_is_kept_and_what_does_not_is_taken_back() {
        assert_eq!(watched(Some(0.5), 1000, |_| 0.3), (TrialOutcome::Kept, 29));
        assert_eq!(watched(Some(0.5), 1000, |_| 0.45), (TrialOutcome::AboveBand, 19));
        assert_eq!(watched(None, 1000, |_| 0.39), (TrialOutcome::Kept, 29));
        assert_eq!(
            watched(Some(0.25), 1000, |_| 0.3),
            (TrialOutcome::WorseThanBefore, 19)
        );
        assert_eq!(
            watched(Some(0.5), 1000, |_| 0.05),
            (TrialOutcome::Kept, 29),
            "better is no harm"
        );
    }

    #[test]
    fn caches_have_time_to_fill_and_one_interval_alone_decides_nothing() {
        let filling = |second| if second < 10 { 2.0 } else { 0.3 };
        assert_eq!(watched(Some(0.5), 1000, filling), (TrialOutcome::Kept, 29));
        let burst = |second| if (10..15).contains(&second) { 2.0 } else { 0.3 };
        assert_eq!(watched(Some(0.5), 1000, burst).0, TrialOutcome::Kept);
        // Every other interval is above the bound, so neither count is reached. After about a
        // minute, the latest interval decides the outcome.
        let waves = |second| if second / 5 % 2 == 0 { 2.0 } else { 0.3 };
        let (outcome, seconds) = watched(Some(0.5), 1000, waves);
        assert!(
            outcome != TrialOutcome::TooFewLookups && seconds <= 61,
            "{outcome:?} {seconds}"
        );
    }

    #[test]
    fn without_lookups_nothing_is_claimed() {
        assert_eq!(
            watched(Some(0.5), 0, |_| 0.0),
            (TrialOutcome::TooFewLookups, 3600)
        );
        assert_eq!(
            watched(Some(0.5), 20, |_| 0.3).0,
            TrialOutcome::Kept,
            "a few at a time"
        );
        let (outcome, seconds) = watched(Some(0.5), 20, |_| 0.9);
        assert_eq!(outcome, TrialOutcome::AboveBand);
        assert!(seconds <= 110, "{seconds}");
    }
}
