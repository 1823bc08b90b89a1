//! The monitor behind LATENCY, which records events that took longer than a threshold, separately
//! for each kind of event.

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Maximum number of samples per kind of event, as in Redis.
const KEPT: usize = 160;

/// One occurrence of an event that took longer than the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LatencySample {
    pub(crate) at_s: u64,
    pub(crate) took_ms: u64,
}

/// The recorded samples of one kind of event.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatencyHistory {
    pub(crate) samples: VecDeque<LatencySample>,
    pub(crate) most_ms: u64,
}

/// The samples of all kinds of events, under their names in LATENCY.
#[derive(Debug, Default)]
pub(crate) struct LatencyMonitor {
    /// Minimum duration in milliseconds of an event to record; 0 disables recording.
    pub(crate) threshold_ms: AtomicU64,
    events: Mutex<BTreeMap<&'static str, LatencyHistory>>,
}

impl LatencyMonitor {
    /// Returns whether recording is enabled and `took` reaches the threshold. This cheap check
    /// saves most calls of [`LatencyMonitor::note`].
    #[inline]
    pub(crate) fn may_note(&self, took: Duration) -> bool {
        let threshold = self.threshold_ms.load(Ordering::Relaxed);
        threshold != 0 && took >= Duration::from_millis(threshold)
    }

    /// Records an event if its duration reaches the threshold. Of several events of a kind in the
    /// same second, keeps only the longest.
    pub(crate) fn note(&self, name: &'static str, at_s: impl FnOnce() -> u64, took: Duration) {
        if !self.may_note(took) {
            return;
        }
        let took_ms = took.as_millis() as u64;
        let at_s = at_s();
        let mut events = self.events.lock();
        let event = events.entry(name).or_default();
        event.most_ms = event.most_ms.max(took_ms);
        match event.samples.back_mut() {
            Some(last) if last.at_s == at_s => last.took_ms = last.took_ms.max(took_ms),
            _ => event.samples.push_back(LatencySample { at_s, took_ms }),
        }
        if event.samples.len() > KEPT {
            event.samples.pop_front();
        }
    }

    pub(crate) fn all(&self) -> Vec<(&'static str, LatencyHistory)> {
        let events = self.events.lock();
        events
            .iter()
            .map(|(name, event)| (*name, event.clone()))
            .collect()
    }

    /// Deletes the samples of the kind of event with this name, ignoring case. Returns whether
    /// there were any.
    pub(crate) fn reset(&self, name: &[u8]) -> bool {
        let mut events = self.events.lock();
        let before = events.len();
        events.retain(|known, _| !name.eq_ignore_ascii_case(known.as_bytes()));
        events.len() < before
    }

    /// Deletes all samples. Returns for how many kinds of events there were any.
    pub(crate) fn reset_all(&self) -> usize {
        let mut events = self.events.lock();
        let count = events.len();
        events.clear();
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_above_the_threshold_are_kept_the_longest_of_each_second() {
        let latencies = LatencyMonitor::default();
        let note = |at_s: u64, ms: u64| latencies.note("command", || at_s, Duration::from_millis(ms));
        note(1, 900);
        assert!(latencies.all().is_empty(), "without a threshold nothing is noted");
        latencies.threshold_ms.store(10, Ordering::Relaxed);
        note(1, 9);
        note(2, 20);
        note(2, 30);
        note(2, 25);
        let all = latencies.all();
        let expected = LatencySample { at_s: 2, took_ms: 30 };
        assert_eq!(all[0].1.samples, [expected]);
        for second in 0..1000 {
            note(second, 10 + second);
        }
        assert_eq!(latencies.all()[0].1.samples.len(), KEPT);
        assert_eq!(latencies.all()[0].1.most_ms, 1009);
        assert!(!latencies.reset(b"none") && latencies.reset(b"COMMAND"));
        assert_eq!(latencies.reset_all(), 0);
    }
}
