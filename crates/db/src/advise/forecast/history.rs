//! The hours since the store was opened, with the model inputs and counters at the start of each.

use super::measurement::ForecastSample;
use super::question::ModelQuery;
use super::{PastHour, compared};
use crate::options::kind::DictionaryPlace;
use alluvium_dictionary::contract::DistinctKeys;
use alluvium_model::structures::StructureCost;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const HOUR_MS: u64 = 3_600_000;
/// Number of bytes that users must write before the first write mark is recorded.
const LEAST_MARK: u64 = 1 << 20;
/// Maximum number of past hours in the history (N11).
const HOURS: usize = 48;

/// Model inputs and counters at the start of an hour.
#[derive(Clone, Debug)]
struct HourStart {
    at_ms: u64,
    truth: ForecastSample,
    /// Model inputs, or `None` if no request had been sampled when the hour began.
    question: Option<ModelQuery>,
    /// The model's result for these inputs; `None` until it is computed.
    cost: Option<Arc<StructureCost>>,
}

/// The history of an open store. It covers at most [`HOURS`] hours and needs a few hundred bytes of
/// memory for each.
#[derive(Debug)]
pub(crate) struct ForecastHistory {
    opened: ForecastSample,
    /// Hour starts, oldest first. There is one more entry than complete hours, because each hour
    /// ends when the next begins.
    noted: Mutex<VecDeque<HourStart>>,
    /// Counters recorded each time the number of bytes written by users doubles. The list never
    /// exceeds a few dozen entries.
    marks: Mutex<Vec<WriteMark>>,
    /// The latest distinct-key count of each dictionary's data files.
    counted: Mutex<BTreeMap<DictionaryPlace, KeyCount>>,
}

/// A count of the distinct keys in data files.
#[derive(Clone, Copy, Debug)]
struct KeyCount {
    /// Number of writes that the store had received when the keys were counted.
    writes: u64,
    distinct: DistinctKeys,
}

/// Distinct keys are counted again once the number of writes has changed by more than a fraction
/// 1/`RECOUNT`.
const RECOUNT: u64 = 16;
/// Uncertainty of a count, as a fraction. Two counts that differ by less may be of the same keys.
const COUNTED_TO: f64 = 0.03;

/// Counters at one point in time: bytes written by users and to the device, number of writes, and
/// number of keys in data files.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct WriteMark {
    pub(crate) user_bytes: u64,
    pub(crate) device_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) keys: f64,
}

impl WriteMark {
    /// Returns the fraction of writes since this mark that wrote new keys, or of all writes if
    /// there were few since the mark. `writes` and `keys` are the current numbers of writes and
    /// keys.
    pub(crate) fn new_keys(&self, writes: u64, keys: f64) -> f64 {
        let since = writes.saturating_sub(self.writes) as f64;
        let more = keys - self.keys;
        let share = match since < keys / 16.0 {
            true => keys / writes.max(1) as f64,
            false if more < COUNTED_TO * keys => 0.0,
            false => more / since,
        };
        share.clamp(0.0, 1.0)
    }
}

impl ForecastHistory {
    /// Returns the history of a store that was opened at the time `now_ms`.
    pub(crate) fn new(now_ms: u64) -> ForecastHistory {
        let opened = ForecastSample::at_opening();
        let first = HourStart {
            at_ms: now_ms,
            truth: opened,
            question: None,
            cost: None,
        };
        ForecastHistory {
            opened,
            noted: Mutex::new(VecDeque::from([first])),
            marks: Mutex::default(),
            counted: Mutex::default(),
        }
    }

    /// Records a mark if users have written at least twice as many bytes as at the previous mark.
    pub(crate) fn mark(&self, user_bytes: u64, mark: impl FnOnce() -> WriteMark) {
        let is_due = |marks: &[WriteMark]| {
            let last = marks.last().map_or(LEAST_MARK / 2, |mark| mark.user_bytes);
            user_bytes / 2 >= last
        };
        if !is_due(&self.marks.lock()) {
            return;
        }
        // Computing the mark may read from the device, so the list must not be locked at the time.
        let mark = mark();
        let mut marks = self.marks.lock();
        if is_due(&marks) {
            marks.push(WriteMark { user_bytes, ..mark });
        }
    }

    /// Returns the newest mark recorded when users had written at most half of the present bytes.
    /// Write amplification is measured from this mark because it grows with the amount of data. The
    /// models compute it for the present amount, but a store that has been filling since it was
    /// opened had a lower write amplification at first.
    pub(crate) fn half(&self, user_bytes: u64) -> WriteMark {
        let marks = self.marks.lock();
        let before = marks.iter().rev().find(|mark| mark.user_bytes <= user_bytes / 2);
        before.copied().unwrap_or_default()
    }

    /// Returns the number of distinct keys in a dictionary's data files, or `None` if counting them
    /// fails. The latest count is reused unless `writes`, the number of writes, has changed
    /// considerably since.
    pub(crate) fn distinct_keys(
        &self,
        place: DictionaryPlace,
        writes: u64,
        count: impl FnOnce() -> Option<DistinctKeys>,
    ) -> Option<DistinctKeys> {
        let mut counted = self.counted.lock();
        let is_near = |last: &&KeyCount| writes.abs_diff(last.writes) <= last.writes / RECOUNT;
        if let Some(last) = counted.get(&place).filter(is_near) {
            return Some(last.distinct);
        }
        let distinct = count()?;
        counted.insert(place, KeyCount { writes, distinct });
        Some(distinct)
    }

    /// Returns the counters as they were when the store was opened.
    pub(crate) fn opened(&self) -> ForecastSample {
        self.opened
    }

    /// Returns whether a new clock hour has begun since the last recorded one.
    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        let noted = self.noted.lock();
        noted
            .back()
            .is_none_or(|last| now_ms / HOUR_MS > last.at_ms / HOUR_MS)
    }

    /// Records the start of an hour, unless another thread has already recorded it.
    pub(crate) fn note(&self, now_ms: u64, truth: ForecastSample, question: Option<ModelQuery>) {
        if !self.is_due(now_ms) {
            return;
        }
        let mut noted = self.noted.lock();
        if noted.len() > HOURS {
            noted.pop_front();
        }
        noted.push_back(HourStart {
            at_ms: now_ms,
            truth,
            question,
            cost: None,
        });
        assert!(noted.len() <= HOURS + 1, "N11: what is kept is bounded");
    }

    /// Returns the past hours that have a prediction.
    pub(crate) fn past(&self) -> Vec<PastHour> {
        // Do not hold the lock while evaluating the models, which takes time.
        let mut noted: Vec<HourStart> = self.noted.lock().iter().cloned().collect();
        for hour in &mut noted {
            if hour.cost.is_none() {
                hour.cost = hour.question.and_then(|question| question.cost()).map(Arc::new);
            }
        }
        for hour in self.noted.lock().iter_mut() {
            let computed = noted.iter().find(|one| one.at_ms == hour.at_ms);
            hour.cost = computed.and_then(|one| one.cost.clone());
        }
        let hours = noted.windows(2).filter_map(|pair| {
            let (began, ended) = (&pair[0], &pair[1]);
            let mut was = compared(began.cost.as_ref()?, &began.truth, &ended.truth);
            was.retain(|row| row.measured.is_some());
            Some(PastHour {
                began_ms: began.at_ms,
                ended_ms: ended.at_ms,
                was,
            })
        });
        hours.collect()
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn the_newer_half_of_what_was_written_counts() {
        let forecasts = ForecastHistory::new(0);
        assert_eq!(forecasts.half(1 << 30), WriteMark::default());
        for mib in 0..100u64 {
            forecasts.mark(mib << 20, || WriteMark {
                device_bytes: 3 * (mib << 20),
                ..WriteMark::default()
            });
        }
        let marks = forecasts.marks.lock().clone();
        let mib: Vec<u64> = marks.iter().map(|mark| mark.user_bytes >> 20).collect();
        assert_eq!(mib, [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(forecasts.half(100 << 20), marks[5]);
        assert_eq!(forecasts.half(128 << 20), marks[6]);
        assert_eq!(forecasts.half(1 << 20), WriteMark::default());
    }

    #[test]
    fn new_keys_are_those_that_came_since_a_mark() {
        let mark = WriteMark {
            writes: 1_000_000,
            keys: 1e6,
            ..WriteMark::default()
        };
        assert_eq!(mark.new_keys(2_000_000, 1.02e6), 0.0, "a count is not exact");
        assert_eq!(mark.new_keys(2_000_000, 1.5e6), 0.5);
        assert_eq!(mark.new_keys(2_000_000, 0.5e6), 0.0, "keys were deleted");
        assert!(
            (mark.new_keys(1_010_000, 1.01e6) - 1.0).abs() < 1e-6,
            "few writes"
        );
        assert_eq!(WriteMark::default().new_keys(4_000_000, 1e6), 0.25);
    }

    #[test]
    fn an_hour_is_noted_once_and_the_oldest_are_forgotten() {
        let forecasts = ForecastHistory::new(HOUR_MS - 1);
        assert!(!forecasts.is_due(HOUR_MS - 1) && forecasts.is_due(HOUR_MS));
        for hour in 1..=100 {
            for moment in [0, 5] {
                forecasts.note(hour * HOUR_MS + moment, ForecastSample::default(), None);
            }
        }
        let noted = forecasts.noted.lock();
        assert_eq!(noted.len(), HOURS + 1);
        let ends = (noted[0].at_ms, noted[HOURS].at_ms);
        assert_eq!(ends, (52 * HOUR_MS, 100 * HOUR_MS));
        drop(noted);
        assert!(forecasts.past().is_empty(), "nothing had been predicted");
        assert!(!forecasts.is_due(0), "a clock that goes back begins no hour");
    }
}
