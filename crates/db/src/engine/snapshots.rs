//! Pinned read positions, which determine the versions that must be kept.

use alluvium_base::SequenceNumber;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The pinned sequence numbers, each with its number of readers.
#[derive(Debug, Default)]
pub(crate) struct SnapshotRegistry {
    open: Mutex<BTreeMap<SequenceNumber, usize>>,
    /// The sequence numbers of removed named snapshots, each with the commit that removed it. Until
    /// this commit is durable, a power loss brings the snapshot back.
    leaving: Mutex<Vec<(SequenceNumber, SequenceNumber)>>,
}

impl SnapshotRegistry {
    /// Pins the sequence number that `now` returns.
    pub(crate) fn open(&self, now: impl FnOnce() -> SequenceNumber) -> SequenceNumber {
        let mut open = self.open.lock();
        // Call it under the lock, so that the horizon cannot pass the sequence number before it is
        // pinned.
        let at = now();
        *open.entry(at).or_default() += 1;
        at
    }

    /// Releases one pin of a sequence number.
    pub(crate) fn close(&self, at: SequenceNumber) {
        let mut open = self.open.lock();
        let count = open.get_mut(&at).expect("it was opened");
        *count -= 1;
        if *count == 0 {
            open.remove(&at);
        }
    }

    /// Schedules the release of one pin, once the commit `removed` survives power loss.
    pub(crate) fn leave(&self, at: SequenceNumber, removed: SequenceNumber) {
        self.leaving.lock().push((at, removed));
    }

    /// Takes the sequence numbers whose removal is durable, given that all commits up to `durable`
    /// are. The caller releases the pins.
    pub(crate) fn left(&self, durable: SequenceNumber) -> Vec<SequenceNumber> {
        let mut leaving = self.leaving.lock();
        let left = leaving.extract_if(.., |&mut (_, removed)| removed <= durable);
        left.map(|(at, _)| at).collect()
    }

    /// Passes all pinned sequence numbers in ascending order, and then `now`, to `raise`. No reader
    /// can begin during the call.
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

    /// Returns the number of pins, without those of removed snapshots.
    pub(crate) fn len(&self) -> usize {
        let leaving = self.leaving.lock().len();
        self.open.lock().values().sum::<usize>() - leaving
    }
}
