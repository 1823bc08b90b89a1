//! Where a transaction has found no elements, among those that it has deleted itself.
//!
//! A batch of commands that take what comes first, as ZPOPMIN does, walks each time over what the
//! commands before have deleted: they are not committed yet, so that the store does not know. The
//! locks of their keys are held, so that only the transaction itself changes what is there.

use crate::model::format::{self, InnerKey};
use std::cell::RefCell;

/// How many ranges are remembered: for batches that take from several keys in turn.
const MOST: usize = 8;

/// Ranges of elements in which the transaction sees none.
#[derive(Debug, Default)]
pub(super) struct Vacancies {
    /// First keys, and the first ones behind.
    ranges: RefCell<Vec<(InnerKey, InnerKey)>>,
}

impl Vacancies {
    /// Returns where a walk from `start` on and before `end` finds its first element, and before
    /// which its last one.
    pub(super) fn narrow(&self, start: &[u8], end: &[u8]) -> (InnerKey, InnerKey) {
        let (mut start, mut end): (InnerKey, InnerKey) = (start.into(), end.into());
        for (low, high) in &*self.ranges.borrow() {
            if *low <= start && start < *high {
                start = high.clone().min(end.clone());
            }
            if *low < end && end <= *high {
                end = low.clone().max(start.clone());
            }
        }
        (start, end)
    }

    /// There are no elements from `start` on and before `end`. Only elements of one collection are
    /// those of a key that is locked: others are not remembered.
    pub(super) fn note(&self, start: &[u8], end: &[u8]) {
        if start >= end || !format::are_of_one_collection(start, end) {
            return;
        }
        let (mut low, mut high): (InnerKey, InnerKey) = (start.into(), end.into());
        let mut ranges = self.ranges.borrow_mut();
        ranges.retain(|(from, to)| {
            let meets = *from <= high && low <= *to;
            if meets {
                low = low.clone().min(from.clone());
                high = high.clone().max(to.clone());
            }
            !meets
        });
        if ranges.len() == MOST {
            ranges.remove(0);
        }
        ranges.push((low, high));
    }

    /// The transaction puts an element.
    pub(super) fn fill(&mut self, key: &[u8]) {
        let ranges = self.ranges.get_mut();
        for (low, high) in &mut *ranges {
            if **low <= *key && *key < **high {
                *high = key.into();
            }
        }
        ranges.retain(|(low, high)| low < high);
    }

    /// Anything may be anywhere.
    pub(super) fn clear(&mut self) {
        self.ranges.get_mut().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(score: f64) -> InnerKey {
        format::score_key(0, 1, score, b"m")
    }

    #[test]
    fn a_walk_begins_behind_what_was_found_empty_until_something_is_put_there() {
        let mut vacancies = Vacancies::default();
        let narrow = |vacancies: &Vacancies, from, to| {
            let (start, end) = vacancies.narrow(&place(from), &place(to));
            assert!(start <= end);
            (start, end)
        };
        vacancies.note(&place(1.0), &place(5.0));
        vacancies.note(&place(5.0), &place(7.0));
        assert_eq!(narrow(&vacancies, 1.0, 9.0), (place(7.0), place(9.0)));
        assert_eq!(narrow(&vacancies, 0.0, 6.0), (place(0.0), place(1.0)));
        let (start, end) = narrow(&vacancies, 2.0, 4.0);
        assert_eq!(start, end);
        vacancies.fill(&place(3.0));
        assert_eq!(narrow(&vacancies, 1.0, 9.0), (place(3.0), place(9.0)));
        assert_eq!(narrow(&vacancies, 4.0, 9.0), (place(4.0), place(9.0)));
        for number in 10..30 {
            vacancies.note(&place(f64::from(2 * number)), &place(f64::from(2 * number + 1)));
        }
        assert_eq!(
            narrow(&vacancies, 1.0, 9.0),
            (place(1.0), place(9.0)),
            "forgotten"
        );
        assert_eq!(narrow(&vacancies, 58.0, 90.0).0, place(59.0));
        vacancies.clear();
        assert_eq!(narrow(&vacancies, 58.0, 90.0).0, place(58.0));
        // Records are not locked by those that walk over them.
        let (start, end) = format::records(0);
        vacancies.note(&start, &end);
        assert_eq!(vacancies.narrow(&start, &end), (start, end));
    }
}
