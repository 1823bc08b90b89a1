//! Sequence numbers pinned by readers, which determine the versions that must be kept.

use alluvium_base::SequenceNumber;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The pinned sequence numbers, each with the number of readers that have pinned it.
#[derive(Debug, Default)]
pub(crate) struct SnapshotRegistry {
    open: Mutex<BTreeMap<SequenceNumber, usize>>,
    /// The sequence numbers of removed named snapshots, each with the commit that removed the
    /// snapshot. Until that commit is durable, a power failure may bring the snapshot back.
    leaving: Mutex<Vec<(SequenceNumber, SequenceNumber)>>,
}

impl SnapshotRegistry {
    /// Calls `now`, pins the sequence number that it returns, and returns that number.
    pub(crate) fn open(&self, now: impl FnOnce() -> SequenceNumber) -> SequenceNumber {
        let mut open = self.open.lock();
        // Call `now` while holding the lock. Otherwise the horizon could pass the sequence number
        // before it is pinned.
        let at = now();
        *open.entry(at).or_default() += 1;
        at
    }

    /// Releases one pin of the sequence number `at`.
    pub(crate) fn close(&self, at: SequenceNumber) {
        let mut open = self.open.lock();
        let count = open.get_mut(&at).expect("it was opened");
        *count -= 1;
        if *count == 0 {
            open.remove(&at);
        }
    }

    /// Schedules one pin of the sequence number `at` for release, once the commit `removed` is
    /// durable.
    pub(crate) fn leave(&self, at: SequenceNumber, removed: SequenceNumber) {
        self.leaving.lock().push((at, removed));
    }

    /// Removes and returns the scheduled sequence numbers that can be released now that all commits
    /// up to `durable` are durable. The caller must release their pins.
    pub(crate) fn left(&self, durable: SequenceNumber) -> Vec<SequenceNumber> {
        let mut leaving = self.leaving.lock();
        let left = leaving.extract_if(.., |&mut (_, removed)| removed <= durable);
        left.map(|(at, _)| at).collect()
    }

    /// Calls `raise` with all pinned sequence numbers in ascending order and the result of `now`.
    /// No reader can pin a sequence number during the call.
    pub(crate) fn raise(
        &self,
        now: impl FnOnce() -> SequenceNumber,
        raise: impl FnOnce(&mut dyn Iterator<Item = SequenceNumber>, SequenceNumber),
    ) {
        let open = self.open.lock();
        raise(&mut open.keys().copied(), now());
    }

    /// Returns the oldest pinned sequence number, if there is one.
    pub(crate) fn oldest(&self) -> Option<SequenceNumber> {
        self.open.lock().keys().next().copied()
    }

    /// Returns the number of pins, not counting those of removed named snapshots.
    pub(crate) fn len(&self) -> usize {
        let leaving = self.leaving.lock().len();
        self.open.lock().values().sum::<usize>() - leaving
    }
}
