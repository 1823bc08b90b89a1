//! Limits the memory of a transaction's writes, and moves writes to runs on disk (spilling).

use super::Transaction;
use super::own_writes::OwnWrites;
use super::spilled_writes::too_much_memory;
use crate::engine::TransactionEnd;
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::options::{Concurrency, Isolation};
use crate::read::iter;
use crate::schema::format::KeyspaceId;
use crate::transaction::write_set::WriteSet;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::Ordering;

/// Estimated memory of a write in addition to its key and value, in bytes.
const PER_WRITE: usize = 128;

impl Transaction {
    /// Makes sure that a write of `bytes` bytes fits in memory, spilling earlier writes if
    /// necessary. Returns an error if the write would exceed the transaction's size limit.
    pub(super) fn admit(&self, own: &mut OwnWrites, keyspace: &Keyspace, bytes: usize) -> Result<()> {
        drop(self.enter(keyspace)?);
        let more = bytes + PER_WRITE;
        if let Some(most) = self.options.max_write_bytes
            && self.written() + more > most
        {
            self.forget_overwritten(own);
            if self.written() + more > most {
                return Err(Error::TransactionLimit {
                    what: "the bytes of the writes",
                    most,
                    option: "TransactionOptions::max_write_bytes",
                });
            }
        }
        let share = self.share();
        if own.in_memory > 0 && own.in_memory + more > share {
            self.forget_overwritten(own);
            // If overwritten writes held most of the memory, it has just been freed, and no spill
            // is needed.
            if 2 * (own.in_memory + more) > share {
                self.spill(own)?;
            }
        }
        Ok(())
    }

    /// Returns whether the commit of a transaction with spilled writes reads them back and logs all
    /// writes. It does so if they need at most twice the memory that the transaction may use.
    pub(super) fn is_logged(&self, own: &OwnWrites) -> bool {
        let spilled = self
            .engine()
            .memtable_bytes(own.spilled.bytes(), own.spilled.records());
        let bytes = spilled.saturating_add(own.in_memory as u64);
        bytes <= self.engine().most_read_back(2 * self.share() as u64)
    }

    /// Returns the number of bytes of writes that the transaction may keep in memory.
    fn share(&self) -> usize {
        let share = self.options.memory;
        share.unwrap_or_else(|| self.engine().share_of_transaction(&self.handle.open))
    }

    /// Returns the total size of the transaction's writes in bytes, both in memory and spilled.
    fn written(&self) -> usize {
        let spilled = self.handle.open.spilled_bytes.load(Ordering::Relaxed);
        let kept = self.handle.open.write_bytes.load(Ordering::Relaxed);
        kept.saturating_add(usize::try_from(spilled).unwrap_or(usize::MAX))
    }

    /// Sets the memory of the unspilled writes, and publishes it for the list of open transactions.
    pub(super) fn tell_writes(&self, own: &mut OwnWrites, in_memory: usize) {
        own.in_memory = in_memory;
        let kept = in_memory + own.savepoints.memory();
        self.engine().set_write_bytes(&self.handle.open, kept);
    }

    /// Recomputes the memory of the unspilled writes.
    pub(super) fn count_writes(&self, own: &mut OwnWrites) {
        let written = own.sets.values().map(WriteSet::memory).sum();
        self.tell_writes(own, written);
        let spilled = own.spilled.bytes();
        self.handle.open.spilled_bytes.store(spilled, Ordering::Relaxed);
    }

    /// Frees the memory of writes that later writes to the same keys have replaced.
    fn forget_overwritten(&self, own: &mut OwnWrites) {
        for set in own.sets.values_mut() {
            set.forget_overwritten();
        }
        self.count_writes(own);
    }

    /// Moves all writes in memory to runs on disk. After an error, the transaction is unchanged.
    pub(super) fn spill(&self, own: &mut OwnWrites) -> Result<()> {
        let open = &self.handle.open;
        if open.is_too_old() {
            self.handle.end(TransactionEnd::TooOld);
        }
        let entered = open.enter()?;
        self.engine().health()?;
        let most = self.engine().most_memory_of_transaction();
        if own.spilled.memory_bytes() + own.savepoints.memory() as u64 > most {
            return Err(too_much_memory(most));
        }
        let before = own.spilled.mark()?;
        self.announce_move();
        let OwnWrites {
            sets,
            spilled,
            savepoints,
            ..
        } = own;
        spilled.pour(self.engine(), open, sets, &savepoints.spilled_marks())?;
        self.track_deleted_ranges(sets);
        savepoints.put_aside(sets, before);
        spilled.protect(&savepoints.spilled_marks());
        sets.clear();
        self.count_writes(own);
        self.engine().call_all();
        own.spilled.merge_if_behind()?;
        drop(entered);
        Ok(())
    }

    /// Adds the deleted ranges to the transaction's dependencies if the commit must validate them,
    /// because the first committer wins under snapshot isolation.
    fn track_deleted_ranges(&self, sets: &BTreeMap<KeyspaceId, WriteSet>) {
        let is_asked = self.options.isolation == Isolation::Snapshot
            && self.options.concurrency == Concurrency::Optimistic;
        if !is_asked {
            return;
        }
        let mut tracker = self.tracker.lock();
        for set in sets.values() {
            let definition = set.keyspace().definition();
            for (start, end) in set.deleted_ranges() {
                let high = end.map_or(Bound::Unbounded, Bound::Excluded);
                let range = iter::bounds::<&[u8]>(definition, &(Bound::Included(start), high));
                tracker.add_range(definition, &range);
            }
        }
    }
}
