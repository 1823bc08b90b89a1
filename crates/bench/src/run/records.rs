//! Tracks which records exist while several threads insert records, and after deletions.

use super::deletion::RecordDeletion;
use crate::workload::keys::scatter;
use std::sync::atomic::{AtomicU64, Ordering};

/// The live records, which have consecutive places, numbered from 0. A thread acquires the next
/// place, inserts the record, and acknowledges the insertion. Readers access only places below the
/// smallest unacknowledged one. A record's number, from which its key is derived, never changes.
/// Before the first deletion, it equals the place.
#[derive(Debug)]
pub(super) struct LiveRecords {
    next: AtomicU64,
    /// For each thread, a lower bound of the place at which it is inserting, or `NOTHING`.
    pending: Vec<AtomicU64>,
    deletions: Vec<RecordDeletion>,
}

const NOTHING: u64 = u64::MAX;

impl LiveRecords {
    /// Creates the state for `records` existing records.
    pub(super) fn new(records: u64, threads: usize) -> LiveRecords {
        LiveRecords {
            next: AtomicU64::new(records),
            pending: (0..threads).map(|_| AtomicU64::new(NOTHING)).collect(),
            deletions: Vec::new(),
        }
    }

    /// Draws the records of a deletion from a seed. No thread may insert records meanwhile.
    pub(super) fn plan(&self, percent: u8, seed: u64) -> RecordDeletion {
        let key = scatter(seed ^ scatter(self.deletions.len() as u64));
        RecordDeletion::new(self.limit(), percent, key)
    }

    /// Returns the state after a planned deletion.
    pub(super) fn without(&self, deletion: RecordDeletion) -> LiveRecords {
        let mut deletions = self.deletions.clone();
        deletions.push(deletion);
        LiveRecords {
            deletions,
            ..LiveRecords::new(deletion.kept, self.pending.len())
        }
    }

    /// Returns the number of the record at a place.
    pub(super) fn number(&self, place: u64) -> u64 {
        let later = self.deletions.iter().rev();
        later.fold(place, |place, deletion| deletion.place_before(place))
    }

    /// Returns the numbers of up to `most` deleted records per deletion.
    pub(super) fn deleted(&self, most: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        for (at, deletion) in self.deletions.iter().enumerate() {
            let step = (deletion.before - deletion.kept).div_ceil(most).max(1);
            for place in (deletion.kept..deletion.before).step_by(step as usize) {
                let earlier = self.deletions[..at].iter().rev();
                let place = deletion.shuffled(place);
                numbers.push(earlier.fold(place, |place, deletion| deletion.place_before(place)));
            }
        }
        numbers
    }

    /// Acquires the place of a new record. The thread must then insert the record.
    pub(super) fn begin(&self, thread: usize) -> u64 {
        // Store the value before acquiring the place, so that a thread that sees the place acquired
        // also sees the insertion pending.
        self.pending[thread].store(self.next.load(Ordering::SeqCst), Ordering::SeqCst);
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        self.pending[thread].store(number, Ordering::SeqCst);
        number
    }

    /// Acknowledges the thread's insertion, after which the record may be read.
    pub(super) fn end(&self, thread: usize) {
        self.pending[thread].store(NOTHING, Ordering::SeqCst);
    }

    /// Returns a limit below which the records at all places exist.
    pub(super) fn limit(&self) -> u64 {
        let next = self.next.load(Ordering::SeqCst);
        self.pending
            .iter()
            .map(|pending| pending.load(Ordering::SeqCst))
            .fold(next, u64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn what_is_below_the_limit_has_been_put() {
        const EACH: usize = 2000;
        let records = LiveRecords::new(10, 3);
        let there: Vec<AtomicBool> = (0..10 + 3 * EACH).map(|at| AtomicBool::new(at < 10)).collect();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (records, there) = (&records, &there);
                scope.spawn(move || {
                    for _ in 0..EACH {
                        let number = records.begin(thread);
                        there[number as usize].store(true, Ordering::SeqCst);
                        records.end(thread);
                        let limit = records.limit() as usize;
                        assert!(there[limit - 1].load(Ordering::SeqCst), "{limit}");
                    }
                });
            }
        });
        assert_eq!(records.limit(), 10 + 3 * EACH as u64);
    }

    #[test]
    fn after_deletions_places_are_those_of_the_survivors_and_of_new_records() {
        use std::collections::BTreeSet;
        let mut records = LiveRecords::new(1000, 1);
        let mut live: BTreeSet<u64> = (0..1000).collect();
        let mut numbers_taken = 1000;
        for (percent, puts) in [(90, 50), (50, 7), (10, 0)] {
            let deletion = records.plan(percent, 5);
            for place in deletion.kept..deletion.before {
                assert!(live.remove(&records.number(deletion.shuffled(place))));
            }
            records = records.without(deletion);
            for _ in 0..puts {
                let number = records.number(records.begin(0));
                records.end(0);
                assert!(live.insert(number) && number >= numbers_taken, "{number}");
                numbers_taken = number + 1;
            }
            let seen: BTreeSet<u64> = (0..records.limit()).map(|place| records.number(place)).collect();
            assert_eq!(seen, live);
            let deleted = records.deleted(u64::MAX);
            assert!(deleted.iter().all(|number| !live.contains(number)));
            assert_eq!(deleted.len() + live.len(), numbers_taken as usize);
        }
        assert!(records.deleted(10).len() <= 30);
    }
}
