//! Admission control for long writes, and for reads of long values that cannot be repeated. Their
//! data uses memory in addition to the connections' buffers, so only a few of these operations may
//! be in progress at a time. They start in order of arrival, and each waiting operation is woken
//! individually.

use super::budget::ConnectionBudget;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The admitted operations (either writes or reads), and those waiting for admission.
#[derive(Debug, Default)]
pub(super) struct AdmissionQueue {
    /// Total size of the admitted operations in bytes.
    bytes: usize,
    /// The operations waiting for admission, in order of arrival.
    waiting: VecDeque<Arc<Condvar>>,
    /// When an admitted operation last ended.
    ended: Option<Instant>,
}

impl AdmissionQueue {
    /// Returns whether an operation of `bytes` bytes may start, either because no other is in
    /// progress or because all of them together use at most half of `limit`.
    fn fits(&self, bytes: usize, limit: usize) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(bytes) <= limit / 2
    }

    /// Notifies the operation that has waited longest.
    fn wake_next(&self) {
        if let Some(next) = self.waiting.front() {
            next.notify_one();
        }
    }

    fn is_next(&self, own: &Arc<Condvar>) -> bool {
        self.waiting.front().is_some_and(|next| Arc::ptr_eq(next, own))
    }
}

impl ConnectionBudget {
    /// Waits until a write of `bytes` bytes may start. Writes start in order of arrival. Returns
    /// false if the write cannot start and no other write has ended within the time `most`.
    pub(crate) fn begin_to_write(&self, bytes: usize, most: Duration) -> bool {
        self.begin(&self.writing, bytes, most)
    }

    /// Ends an admitted write. `bytes` must be its size at admission.
    pub(crate) fn end_to_write(&self, bytes: usize) {
        self.end(&self.writing, bytes);
    }

    /// Waits until a read of `bytes` bytes of values may start, by the rules of
    /// [`ConnectionBudget::begin_to_write`]. An admitted operation waits only for the device, so it
    /// always ends, whatever locks others hold.
    pub(crate) fn begin_to_read(&self, bytes: usize, most: Duration) -> bool {
        self.begin(&self.reading, bytes, most)
    }

    /// Ends an admitted read. `bytes` must be its size at admission.
    pub(crate) fn end_to_read(&self, bytes: usize) {
        self.end(&self.reading, bytes);
    }

    /// Returns the total size in bytes of the admitted writes and reads.
    pub(super) fn in_progress_bytes(&self) -> usize {
        self.writing.lock().bytes + self.reading.lock().bytes
    }

    fn begin(&self, turns: &Mutex<AdmissionQueue>, bytes: usize, most: Duration) -> bool {
        let has_begun = self.wait_to_begin(turns, bytes, most);
        if has_begun && bytes >= self.lending_step() / 2 {
            self.wake_reaper();
        }
        has_begun
    }

    fn wait_to_begin(&self, turns: &Mutex<AdmissionQueue>, bytes: usize, most: Duration) -> bool {
        let mut turns = turns.lock();
        if turns.waiting.is_empty() && turns.fits(bytes, self.limit()) {
            turns.bytes += bytes;
            return true;
        }
        if most.is_zero() {
            return false;
        }
        let began = Instant::now();
        let own = Arc::new(Condvar::new());
        turns.waiting.push_back(Arc::clone(&own));
        loop {
            let may_begin = turns.is_next(&own) && turns.fits(bytes, self.limit());
            let until = turns.ended.map_or(began, |ended| ended.max(began)) + most;
            if may_begin || Instant::now() >= until {
                turns.waiting.retain(|waiting| !Arc::ptr_eq(waiting, &own));
                if may_begin {
                    turns.bytes += bytes;
                }
                // The operation now at the head of the queue may be admissible as well.
                turns.wake_next();
                return may_begin;
            }
            own.wait_until(&mut turns, until);
        }
    }

    fn end(&self, turns: &Mutex<AdmissionQueue>, bytes: usize) {
        let mut turns = turns.lock();
        assert!(turns.bytes >= bytes, "what ends has begun");
        turns.bytes -= bytes;
        turns.ended = Some(Instant::now());
        turns.wake_next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(600);

    fn waiting(budget: &ConnectionBudget) -> usize {
        budget.writing.lock().waiting.len()
    }

    #[test]
    fn long_writes_begin_in_the_order_in_which_they_came() {
        let budget = ConnectionBudget::new(1 << 20);
        assert!(budget.begin_to_write(500 << 10, Duration::ZERO));
        let (begun, order) = mpsc::channel();
        std::thread::scope(|scope| {
            // A short write must not overtake a long write that arrived before it.
            for (index, bytes) in [400, 100, 400, 100, 300].into_iter().enumerate() {
                let (budget, begun) = (&budget, begun.clone());
                scope.spawn(move || {
                    assert!(budget.begin_to_write(bytes << 10, LONG));
                    begun.send(index).unwrap();
                });
                while waiting(budget) <= index {
                    std::thread::yield_now();
                }
            }
            assert!(!budget.begin_to_write(1, Duration::ZERO), "others came before");
            budget.end_to_write(500 << 10);
            let mut two = [order.recv().unwrap(), order.recv().unwrap()];
            two.sort_unstable();
            assert_eq!(two, [0, 1], "both fit");
            assert_eq!(waiting(&budget), 3);
            budget.end_to_write(100 << 10);
            budget.end_to_write(400 << 10);
            let mut two = [order.recv().unwrap(), order.recv().unwrap()];
            two.sort_unstable();
            assert_eq!(two, [2, 3]);
            budget.end_to_write(400 << 10);
            assert_eq!(order.recv().unwrap(), 4);
        });
    }

    #[test]
    fn reads_and_writes_have_turns_of_their_own() {
        let budget = ConnectionBudget::new(1 << 20);
        assert!(budget.begin_to_write(500 << 10, Duration::ZERO));
        assert!(budget.begin_to_read(500 << 10, Duration::ZERO));
        assert!(!budget.begin_to_read(100 << 10, Duration::from_millis(1)));
        assert_eq!(budget.in_progress_bytes(), 1000 << 10);
        assert_eq!(
            budget.held_with(2),
            (1000 << 10) + 2 * super::super::budget::PER_CONNECTION
        );
        budget.end_to_read(500 << 10);
        assert!(
            budget.begin_to_read(5 << 20, Duration::ZERO),
            "one always goes on"
        );
        budget.end_to_read(5 << 20);
        budget.end_to_write(500 << 10);
        assert_eq!(budget.in_progress_bytes(), 0);
    }

    #[test]
    fn a_write_that_gives_up_lets_the_next_one_begin() {
        let budget = ConnectionBudget::new(1 << 20);
        assert!(budget.begin_to_write(300 << 10, Duration::ZERO));
        std::thread::scope(|scope| {
            let gives_up = scope.spawn(|| budget.begin_to_write(400 << 10, Duration::from_millis(20)));
            while waiting(&budget) < 1 {
                std::thread::yield_now();
            }
            let next = scope.spawn(|| budget.begin_to_write(100 << 10, LONG));
            assert!(!gives_up.join().unwrap());
            assert!(next.join().unwrap());
        });
    }
}
