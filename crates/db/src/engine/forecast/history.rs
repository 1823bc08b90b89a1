//! The hours since opening: the question as it stood when each began, and what was counted by then.

use super::question::Question;
use super::truth::Truth;
use super::{PastHour, compared};
use crate::structure::Structure;
use alluvium_dictionary::contract::DistinctKeys;
use alluvium_model::structures::Cost;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Milliseconds of an hour.
const HOUR_MS: u64 = 3_600_000;
/// Users' bytes of the first mark, at least.
const LEAST_MARK: u64 = 1 << 20;
/// Hours that are kept.
const HOURS: usize = 48;

/// The beginning of an hour.
#[derive(Clone, Debug)]
struct Noted {
    at_ms: u64,
    truth: Truth,
    /// None if nothing had been seen by then.
    question: Option<Question>,
    /// The answer, once it was computed.
    cost: Option<Arc<Cost>>,
}

/// What is kept while a store is open: at most [`HOURS`] hours, of a few hundred bytes each.
#[derive(Debug)]
pub(crate) struct Forecasts {
    opened: Truth,
    /// One more than the hours, for each ends where the next begins.
    noted: Mutex<VecDeque<Noted>>,
    /// What had been written whenever that had doubled: a few dozen at most.
    marks: Mutex<Vec<Mark>>,
    /// The different keys that the data files of each structure had, when they were counted last.
    counted: Mutex<BTreeMap<Structure, Counted>>,
}

/// A count of the different keys in data files.
#[derive(Clone, Copy, Debug)]
struct Counted {
    /// Writes that there had been.
    writes: u64,
    distinct: DistinctKeys,
}

/// A count is made again when writes are more by one in this number.
const RECOUNT: u64 = 16;
/// Two counts of keys that differ by less than this share of them may be of the same keys.
const COUNTED_TO: f64 = 0.03;

/// What had been written by a moment: users' bytes, and those of the device; how many writes that
/// were, and how many keys there were in data files.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Mark {
    pub(super) user_bytes: u64,
    pub(super) device_bytes: u64,
    pub(super) writes: u64,
    pub(super) keys: f64,
}

impl Mark {
    /// Returns which share of the writes since was of new keys, given how many of both there are
    /// now. Of few writes only the share of all is known that there ever were.
    pub(super) fn new_keys(&self, writes: u64, keys: f64) -> f64 {
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

impl Forecasts {
    /// Returns those of a store that is opened now.
    pub(crate) fn new(now_ms: u64) -> Forecasts {
        let opened = Truth::at_opening();
        let first = Noted {
            at_ms: now_ms,
            truth: opened,
            question: None,
            cost: None,
        };
        Forecasts {
            opened,
            noted: Mutex::new(VecDeque::from([first])),
            marks: Mutex::default(),
            counted: Mutex::default(),
        }
    }

    /// Notes what was written, if users' bytes are twice as many as at the last mark.
    pub(super) fn mark(&self, user_bytes: u64, mark: impl FnOnce() -> Mark) {
        let is_due = |marks: &[Mark]| {
            let last = marks.last().map_or(LEAST_MARK / 2, |mark| mark.user_bytes);
            user_bytes / 2 >= last
        };
        if !is_due(&self.marks.lock()) {
            return;
        }
        // Reads of the device: nothing waits for the list meanwhile.
        let mark = mark();
        let mut marks = self.marks.lock();
        if is_due(&marks) {
            marks.push(Mark { user_bytes, ..mark });
        }
    }

    /// Returns the newest mark behind which at least a half of all that was written lies. What is
    /// written for a byte grows with the data. The models tell it for the data that there is, and a
    /// store that was filled since its opening has written less for the first ones.
    pub(super) fn half(&self, user_bytes: u64) -> Mark {
        let marks = self.marks.lock();
        let before = marks.iter().rev().find(|mark| mark.user_bytes <= user_bytes / 2);
        before.copied().unwrap_or_default()
    }

    /// Returns how many different keys the data files of a structure have after this number of
    /// writes. They are counted again when much has changed since; none where that fails.
    pub(super) fn distinct_keys(
        &self,
        structure: Structure,
        writes: u64,
        count: impl FnOnce() -> Option<DistinctKeys>,
    ) -> Option<DistinctKeys> {
        let mut counted = self.counted.lock();
        let is_near = |last: &&Counted| writes.abs_diff(last.writes) <= last.writes / RECOUNT;
        if let Some(last) = counted.get(&structure).filter(is_near) {
            return Some(last.distinct);
        }
        let distinct = count()?;
        counted.insert(structure, Counted { writes, distinct });
        Some(distinct)
    }

    /// Returns what there was when the store was opened.
    pub(super) fn opened(&self) -> Truth {
        self.opened
    }

    /// Returns whether another hour of the clock has begun since the last note.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        let noted = self.noted.lock();
        noted
            .back()
            .is_none_or(|last| now_ms / HOUR_MS > last.at_ms / HOUR_MS)
    }

    /// Notes that an hour has begun, unless another thread has done so.
    pub(super) fn note(&self, now_ms: u64, truth: Truth, question: Option<Question>) {
        if !self.is_due(now_ms) {
            return;
        }
        let mut noted = self.noted.lock();
        if noted.len() > HOURS {
            noted.pop_front();
        }
        noted.push_back(Noted {
            at_ms: now_ms,
            truth,
            question,
            cost: None,
        });
        assert!(noted.len() <= HOURS + 1, "N11: what is kept is bounded");
    }

    /// Returns the hours that have ended, and for which there was a prediction.
    pub(super) fn past(&self) -> Vec<PastHour> {
        // The models take a while: no lock is held meanwhile.
        let mut noted: Vec<Noted> = self.noted.lock().iter().cloned().collect();
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
        let forecasts = Forecasts::new(0);
        assert_eq!(forecasts.half(1 << 30), Mark::default());
        for mib in 0..100u64 {
            forecasts.mark(mib << 20, || Mark {
                device_bytes: 3 * (mib << 20),
                ..Mark::default()
            });
        }
        let marks = forecasts.marks.lock().clone();
        let mib: Vec<u64> = marks.iter().map(|mark| mark.user_bytes >> 20).collect();
        assert_eq!(mib, [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(forecasts.half(100 << 20), marks[5]);
        assert_eq!(forecasts.half(128 << 20), marks[6]);
        assert_eq!(forecasts.half(1 << 20), Mark::default());
    }

    #[test]
    fn new_keys_are_those_that_came_since_a_mark() {
        let mark = Mark {
            writes: 1_000_000,
            keys: 1e6,
            ..Mark::default()
        };
        assert_eq!(mark.new_keys(2_000_000, 1.02e6), 0.0, "a count is not exact");
        assert_eq!(mark.new_keys(2_000_000, 1.5e6), 0.5);
        assert_eq!(mark.new_keys(2_000_000, 0.5e6), 0.0, "keys were deleted");
        assert!(
            (mark.new_keys(1_010_000, 1.01e6) - 1.0).abs() < 1e-6,
            "few writes"
        );
        assert_eq!(Mark::default().new_keys(4_000_000, 1e6), 0.25);
    }

    #[test]
    fn an_hour_is_noted_once_and_the_oldest_are_forgotten() {
        let forecasts = Forecasts::new(HOUR_MS - 1);
        assert!(!forecasts.is_due(HOUR_MS - 1) && forecasts.is_due(HOUR_MS));
        for hour in 1..=100 {
            for moment in [0, 5] {
                forecasts.note(hour * HOUR_MS + moment, Truth::default(), None);
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
