//! When writes go from memory to runs, and how much of them there may be.

use super::Transaction;
use super::spilled::too_much_memory;
use crate::engine::Ended;
use crate::iter;
use crate::transaction_options::{Concurrency, Isolation};
use crate::{Error, Keyspace, Result};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How much the memory of a write is taken to be at least, in bytes.
const PER_WRITE: usize = 128;

impl Transaction {
    /// Makes sure that there is memory for a write of `bytes` bytes. Fails if the transaction may
    /// not write so much more.
    pub(super) fn admit(&mut self, keyspace: &Keyspace, bytes: usize) -> Result<()> {
        drop(self.enter(keyspace)?);
        let more = bytes + PER_WRITE;
        if let Some(most) = self.options.max_write_bytes
            && self.written() + more > most
        {
            self.forget_overwritten();
            if self.written() + more > most {
                return Err(Error::TransactionLimit {
                    what: "the bytes of the writes",
                    most,
                    option: "TransactionOptions::max_write_bytes",
                });
            }
        }
        let share = self.options.memory;
        let share = share.unwrap_or_else(|| self.engine().share_of_transaction());
        if self.in_memory > 0 && self.in_memory + more > share {
            self.forget_overwritten();
            // Where the same keys are written again and again, that is enough.
            if 2 * (self.in_memory + more) > share {
                self.spill()?;
            }
        }
        Ok(())
    }

    /// Returns how many bytes of writes there are, in memory and spilled.
    fn written(&self) -> usize {
        let spilled = self.handle.open.spilled_bytes.load(Ordering::Relaxed);
        let kept = self.handle.open.write_bytes.load(Ordering::Relaxed);
        kept.saturating_add(usize::try_from(spilled).unwrap_or(usize::MAX))
    }

    /// Notes how many bytes of memory the newest writes take, and tells those who list
    /// transactions.
    pub(super) fn tell_writes(&mut self, in_memory: usize) {
        self.in_memory = in_memory;
        let kept = in_memory + self.savepoints.memory();
        self.handle.open.write_bytes.store(kept, Ordering::Relaxed);
    }

    /// Counts again what the newest writes take.
    pub(super) fn count_writes(&mut self) {
        let written = self.writes.values().map(crate::WriteSet::memory).sum();
        self.tell_writes(written);
        let spilled = self.spilled.bytes();
        self.handle.open.spilled_bytes.store(spilled, Ordering::Relaxed);
    }

    /// Forgets the writes of keys that were written again.
    fn forget_overwritten(&mut self) {
        for set in self.writes.values_mut() {
            set.forget_overwritten();
        }
        self.count_writes();
    }

    /// Writes what is in memory to runs. Where that fails the transaction is as it was.
    pub(super) fn spill(&mut self) -> Result<()> {
        let open = Arc::clone(&self.handle.open);
        if open.is_too_old() {
            self.handle.end(Ended::TooOld);
        }
        let entered = open.enter()?;
        self.engine().health()?;
        let most = self.engine().most_memory_of_transaction();
        if self.spilled.memory_bytes() + self.savepoints.memory() as u64 > most {
            return Err(too_much_memory(most));
        }
        let before = self.spilled.mark()?;
        let engine = Arc::clone(&self.handle.engine);
        self.spilled.pour(&engine, &open, &self.writes)?;
        self.track_deleted_ranges();
        self.savepoints.put_aside(&mut self.writes, before);
        self.writes.clear();
        self.count_writes();
        drop(entered);
        Ok(())
    }

    /// Has the transaction depend on the ranges that it deletes, if its commit is to ask about
    /// them: the first committer wins.
    fn track_deleted_ranges(&mut self) {
        let is_asked = self.options.isolation == Isolation::Snapshot
            && self.options.concurrency == Concurrency::Optimistic;
        if !is_asked {
            return;
        }
        for set in self.writes.values() {
            let definition = set.keyspace().definition();
            for (start, end) in set.deleted_ranges() {
                let high = end.map_or(Bound::Unbounded, Bound::Excluded);
                let range = iter::bounds::<&[u8]>(definition, &(Bound::Included(start), high));
                self.tracker.get_mut().add_range(definition, &range);
            }
        }
    }
}
