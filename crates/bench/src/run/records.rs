//! Which records there are while several threads put new ones.

use std::sync::atomic::{AtomicU64, Ordering};

/// Records are numbered from 0 on. A thread takes the next number, puts the record and says so;
/// readers see only numbers below the least that is not acknowledged.
#[derive(Debug)]
pub(super) struct Records {
    next: AtomicU64,
    /// For each thread, a number that is not above the one that it is putting; `NOTHING` if it is
    /// not.
    pending: Vec<AtomicU64>,
}

const NOTHING: u64 = u64::MAX;

impl Records {
    /// The first `records` records are there.
    pub(super) fn new(records: u64, threads: usize) -> Records {
        Records {
            next: AtomicU64::new(records),
            pending: (0..threads).map(|_| AtomicU64::new(NOTHING)).collect(),
        }
    }

    /// Returns the number of a new record, which a thread puts now.
    pub(super) fn begin(&self, thread: usize) -> u64 {
        // Stored before the number is taken: a thread that sees the number taken sees that it is
        // pending.
        self.pending[thread].store(self.next.load(Ordering::SeqCst), Ordering::SeqCst);
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        self.pending[thread].store(number, Ordering::SeqCst);
        number
    }

    /// The thread has put it.
    pub(super) fn end(&self, thread: usize) {
        self.pending[thread].store(NOTHING, Ordering::SeqCst);
    }

    /// All records below this number are there.
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
        let records = Records::new(10, 3);
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
}
