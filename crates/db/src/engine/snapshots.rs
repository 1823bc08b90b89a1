//! Who reads at which place of the commit order, and therefore what must not be forgotten.

use alluvium_base::Sequence;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The places that are read at, each with how many read there.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    open: Mutex<BTreeMap<Sequence, usize>>,
    /// Those of named snapshots that were removed, each with the commit that did: until that is
    /// durable, the loss of power brings the name back.
    leaving: Mutex<Vec<(Sequence, Sequence)>>,
}

impl Snapshots {
    /// Pins the place that `now` returns for a reader.
    pub(crate) fn open(&self, now: impl FnOnce() -> Sequence) -> Sequence {
        let mut open = self.open.lock();
        // Under the lock, so that the horizon cannot pass in between.
        let at = now();
        *open.entry(at).or_default() += 1;
        at
    }

    /// One fewer reads there.
    pub(crate) fn close(&self, at: Sequence) {
        let mut open = self.open.lock();
        let count = open.get_mut(&at).expect("it was opened");
        *count -= 1;
        if *count == 0 {
            open.remove(&at);
        }
    }

    /// One fewer reads there, once the commit `removed` survives the loss of power.
    pub(crate) fn leave(&self, at: Sequence, removed: Sequence) {
        self.leaving.lock().push((at, removed));
    }

    /// Takes the places whose removal is among the commits up to `durable`: they can be closed.
    pub(crate) fn left(&self, durable: Sequence) -> Vec<Sequence> {
        let mut leaving = self.leaving.lock();
        let left = leaving.extract_if(.., |&mut (_, removed)| removed <= durable);
        left.map(|(at, _)| at).collect()
    }

    /// Hands every pinned place, ascending, and then `now` to `raise`; no reader can begin
    /// meanwhile.
    pub(crate) fn raise(
        &self,
        now: impl FnOnce() -> Sequence,
        raise: impl FnOnce(&mut dyn Iterator<Item = Sequence>, Sequence),
    ) {
        let open = self.open.lock();
        raise(&mut open.keys().copied(), now());
    }

    /// Returns the oldest place that is read at, if there is one.
    pub(crate) fn oldest(&self) -> Option<Sequence> {
        self.open.lock().keys().next().copied()
    }

    /// Returns how many places are read at, without those of snapshots that were removed.
    pub(crate) fn len(&self) -> usize {
        let leaving = self.leaving.lock().len();
        self.open.lock().values().sum::<usize>() - leaving
    }
}
