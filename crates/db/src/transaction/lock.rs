//! The locks of a transaction, and the limit on their number.

use super::Transaction;
use crate::engine::TransactionEnd;
use crate::error::{Error, Result};
use crate::locking::joining::{KeyInterval, neighbour_groups};
use crate::locking::lock_manager::{HeldLock, RangeLockMode};
use crate::schema::format;
use alluvium_dictionary::range::KeyRange;

impl Transaction {
    /// Locks a range until the transaction ends (T3). If the transaction is aborted to resolve a
    /// deadlock, it has already ended when the call returns the error. The caller must not be
    /// inside an operation of the transaction (see [`Transaction::enter`]).
    pub(super) fn lock(&self, range: &KeyRange, mode: RangeLockMode) -> Result<()> {
        self.limit_locks()?;
        self.acquire(&range.low, range.high.as_deref(), mode)
    }

    /// Locks a range as [`Transaction::lock`] does, but only if that is possible without waiting.
    /// Returns whether the range is locked.
    pub(super) fn try_lock(&self, range: &KeyRange, mode: RangeLockMode) -> Result<bool> {
        self.limit_locks()?;
        let (open, engine) = (&self.handle.open, self.engine());
        let locked = engine.try_lock(open.number, range, mode);
        if let Some(how) = open.ending() {
            // Another thread has ended the transaction (T4).
            self.handle.end(how);
            engine.locks.release_late(open.number);
            self.enter_open().map(drop)?;
        }
        Ok(locked)
    }

    fn acquire(&self, low: &[u8], high: Option<&[u8]>, mode: RangeLockMode) -> Result<()> {
        let (most, open) = (self.options.lock_timeout, &self.handle.open);
        let timeout = open.time_left().map_or(most, |left| left.min(most));
        let locked = self.engine().lock(open.number, low, high, mode, timeout);
        if let Err(Error::Deadlock { .. }) = locked {
            self.handle.end(TransactionEnd::Deadlock);
        }
        if let Some(how) = self.handle.open.ending() {
            // Another thread has ended the transaction. It may have released the locks before this
            // one was granted (T4).
            self.handle.end(how);
            self.engine().locks.release_late(open.number);
            locked?;
            return self.enter_open().map(drop);
        }
        locked
    }

    /// If the transaction has reached its lock limit, joins neighbouring locks in each keyspace
    /// into range locks, until about half as many remain. Locks with the longest common prefixes
    /// are joined first.
    fn limit_locks(&self) -> Result<()> {
        let (locks, number) = (&self.engine().locks, self.number());
        let most = self.options.max_tracked;
        if locks.held(number) < most {
            return Ok(());
        }
        let mut joined = Vec::new();
        let done = self.lock_groups(&locks.locks_of(number), &mut joined);
        locks.join(number, &joined);
        done?;
        if locks.held(number) < most {
            return Ok(());
        }
        Err(Error::TransactionLimit {
            what: "the locks",
            most,
            option: "TransactionOptions::max_tracked",
        })
    }

    /// For each group of neighbouring locks, locks the range from the first to the last of them, in
    /// a mode that permits everything that the group permits. Appends these locks to `joined`.
    fn lock_groups(&self, held: &[HeldLock], joined: &mut Vec<HeldLock>) -> Result<()> {
        let intervals: Vec<KeyInterval<'_>> = held
            .iter()
            .map(|lock| KeyInterval {
                space: format::split(&lock.low).map_or(0, |(_, id)| id),
                low: &lock.low,
                high: lock.high.as_deref(),
            })
            .collect();
        for group in neighbour_groups(&intervals) {
            let (Some((first, others)), true) = (held[group.clone()].split_first(), group.len() > 1) else {
                continue;
            };
            let mut range = first.clone();
            for lock in others {
                range.mode = range.mode.with(lock.mode);
                range.high = range
                    .high
                    .zip(lock.high.clone())
                    .map(|(one, other)| one.max(other));
            }
            self.acquire(&range.low, range.high.as_deref(), range.mode)?;
            joined.push(range);
        }
        Ok(())
    }
}
