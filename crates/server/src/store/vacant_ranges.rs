//! Key ranges in which a transaction found no elements because it has deleted them itself.
//!
//! Without these ranges, each command in a batch that removes first elements, such as ZPOPMIN,
//! would iterate over all elements deleted by the preceding commands, because these deletions are
//! not committed yet. The ranges stay valid because the transaction holds the locks of the keys, so
//! that no other transaction can add elements.

use super::model::format::{self, InnerKey};
use std::cell::RefCell;

/// Maximum number of ranges. A batch that pops from several keys in turn needs several.
const MOST: usize = 8;

/// Key ranges that contain no elements, as the transaction sees them.
#[derive(Debug, Default)]
pub(super) struct VacantRanges {
    /// The first key and exclusive end of each range.
    ranges: RefCell<Vec<(InnerKey, InnerKey)>>,
}

impl VacantRanges {
    /// Returns a key range without the parts at either end that are known to be empty.
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

    /// Adds a key range that was found empty. Ignores ranges that are not within one collection,
    /// because a key's lock protects only the elements of its own collection.
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

    /// Shortens the range that contains `key`, because the transaction is writing an element with
    /// this key.
    pub(super) fn fill(&mut self, key: &[u8]) {
        let ranges = self.ranges.get_mut();
        for (low, high) in &mut *ranges {
            if **low <= *key && *key < **high {
                *high = key.into();
            }
        }
        ranges.retain(|(low, high)| low < high);
    }

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
        let mut vacancies = VacantRanges::default();
        let narrow = |vacancies: &VacantRanges, from, to| {
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
        // Ranges of records are ignored, because iterating over records does not lock them.
        let (start, end) = format::records(0);
        vacancies.note(&start, &end);
        assert_eq!(vacancies.narrow(&start, &end), (start, end));
    }
}
