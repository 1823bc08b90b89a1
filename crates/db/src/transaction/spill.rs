//! Limits the memory of a transaction's writes, and moves writes to runs on disk (spilling).

use super::Transaction;
use super::spilled_writes::too_much_memory;
use crate::engine::TransactionEnd;
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::options::{Concurrency, Isolation};
use crate::read::iter;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Estimated memory of a write in addition to its key and value, in bytes.
const PER_WRITE: usize = 128;

impl Transaction {
    /// Makes sure that a write of `bytes` bytes fits in memory, spilling earlier writes if
    /// necessary. Returns an error if the write would exceed the transaction's size limit.
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
        let share = share.unwrap_or_else(|| self.engine().share_of_transaction(&self.handle.open));
        if self.in_memory > 0 && self.in_memory + more > share {
            self.forget_overwritten();
            // If overwritten writes held most of the memory, it has just been freed, and no spill
            // is needed.
            if 2 * (self.in_memory + more) > share {
                self.spill()?;
            }
        }
        Ok(())
    }

    /// Returns the total size of the transaction's writes in bytes, both in memory and spilled.
    fn written(&self) -> usize {
        let spilled = self.handle.open.spilled_bytes.load(Ordering::Relaxed);
        let kept = self.handle.open.write_bytes.load(Ordering::Relaxed);
        kept.saturating_add(usize::try_from(spilled).unwrap_or(usize::MAX))
    }

    /// Sets the memory of the unspilled writes, and publishes it for the list of open transactions.
    pub(super) fn tell_writes(&mut self, in_memory: usize) {
        self.in_memory = in_memory;
        let kept = in_memory + self.savepoints.memory();
        self.engine().set_write_bytes(&self.handle.open, kept);
    }

    /// Recomputes the memory of the unspilled writes.
    pub(super) fn count_writes(&mut self) {
        let written = self
            .writes
            .values()
            .map(crate::transaction::write_set::WriteSet::memory)
            .sum();
        self.tell_writes(written);
        let spilled = self.spilled.bytes();
        self.handle.open.spilled_bytes.store(spilled, Ordering::Relaxed);
    }

    /// Frees the memory of writes that later writes to the same keys have replaced.
    fn forget_overwritten(&mut self) {
        for set in self.writes.values_mut() {
            set.forget_overwritten();
        }
        self.count_writes();
    }

    /// Moves all writes in memory to runs on disk. After an error, the transaction is unchanged.
    pub(super) fn spill(&mut self) -> Result<()> {
        let open = Arc::clone(&self.handle.open);
        if open.is_too_old() {
            self.handle.end(TransactionEnd::TooOld);
        }
        let entered = open.enter()?;
        self.engine().health()?;
        let most = self.engine().most_memory_of_transaction();
        if self.spilled.memory_bytes() + self.savepoints.memory() as u64 > most {
            return Err(too_much_memory(most));
        }
        let before = self.spilled.mark()?;
        let engine = Arc::clone(&self.handle.engine);
        let kept = self.savepoints.spilled_marks();
        self.spilled.pour(&engine, &open, &self.writes, &kept)?;
        self.track_deleted_ranges();
        self.savepoints.put_aside(&mut self.writes, before);
        self.spilled.protect(&self.savepoints.spilled_marks());
        engine.call_all();
        self.spilled.merge_if_behind()?;
        self.writes.clear();
        self.count_writes();
        drop(entered);
        Ok(())
    }

    /// Adds the deleted ranges to the transaction's dependencies if the commit must validate them,
    /// because the first committer wins under snapshot isolation.
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
