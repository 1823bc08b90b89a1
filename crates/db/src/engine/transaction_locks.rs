//! Locks that transactions hold on keys and key ranges, and that all other writes respect.
//!
//! Ordinary writes acquire these locks only while there are locking transactions, so a store
//! without them has no locking cost. The first locking transaction waits until all writes that
//! started without locks have finished and are visible. Once no locking transaction has been open
//! for a while, writes stop acquiring locks.
//!
//! A writer holds its locks until its writes are visible. A reader that holds a key's lock
//! therefore finds the key's newest value among the visible commits.

use super::Engine;
use super::commit_record::CommitRecord;
use super::conditional_locks::wait_for_grace_period;
use crate::error::{Error, Result};
use crate::locking::fault::{IsolationFault, is_planted};
use crate::locking::lock_manager::{HeldLock, LockManager, LockOwner, LockRefusal, RangeLockMode};
use crate::schema::format::{self, LogWrite, TreeKey};
use alluvium_base::MessageKind;
use alluvium_dictionary::range::KeyRange;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum time that a write outside transactions waits for locks.
const PATIENCE: Duration = Duration::from_secs(10);

/// The locks of transactions, and whether other writes must acquire locks.
#[derive(Debug, Default)]
pub(crate) struct TransactionLocks {
    manager: LockManager,
    /// Whether all writes must acquire locks. Changed only while holding the lock of `demand`.
    wanted: AtomicBool,
    demand: Mutex<LockDemand>,
    /// Whether writes outside transactions fail instead of waiting for a lock, as single-threaded
    /// tests need.
    #[cfg(all(test, not(alluvium_model_check)))]
    impatient: AtomicBool,
}

/// Counts the open locking transactions. While there are any, all writes must acquire locks.
#[derive(Debug, Default)]
struct LockDemand {
    /// Number of open locking transactions.
    open: usize,
    /// Whether every write in progress has acquired locks.
    is_settled: bool,
    /// Whether no locking transaction was open when [`TransactionLocks::disable_if_idle`] was last
    /// called, and none has begun since.
    is_idle: bool,
}

/// Locks held by a commit that is not part of a locking transaction. Dropping this releases them.
#[derive(Debug)]
pub(super) struct CommitLocks<'e> {
    locks: &'e TransactionLocks,
    number: u64,
}

impl Drop for CommitLocks<'_> {
    fn drop(&mut self) {
        self.locks.manager.release(self.number);
    }
}

impl TransactionLocks {
    /// Returns whether writes must acquire locks. A writer must have pinned `writers` before
    /// calling this.
    #[inline]
    pub(crate) fn are_required(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) && !is_planted(IsolationFault::WritesIgnoreLocks)
    }

    /// Returns the maximum time that a write outside transactions waits for locks.
    fn patience(&self) -> Duration {
        #[cfg(all(test, not(alluvium_model_check)))]
        if self.impatient.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        PATIENCE
    }

    /// Makes writes outside transactions fail instead of waiting for a lock.
    #[cfg(all(test, not(alluvium_model_check)))]
    pub(crate) fn be_impatient(&self) {
        self.impatient.store(true, Ordering::Relaxed);
    }

    /// Returns a new transaction number, which is higher than all earlier ones.
    pub(crate) fn next_number(&self) -> u64 {
        self.manager.next_number()
    }

    /// Releases all locks of a locking transaction that has ended.
    pub(crate) fn end(&self, number: u64) {
        self.manager.release(number);
        let mut demand = self.demand.lock();
        assert!(demand.open > 0, "each end has its begin");
        demand.open -= 1;
    }

    /// Releases the locks that were granted to a transaction after it had ended.
    pub(crate) fn release_late(&self, number: u64) {
        self.manager.release(number);
    }

    /// Makes writes stop acquiring locks if no locking transaction is open or has been open since
    /// the previous call. A locking transaction that begins later waits until all writes acquire
    /// locks again.
    pub(crate) fn disable_if_idle(&self) {
        // Do not wait for this lock. `begin_locking` holds it while it waits for writers, and one
        // of those writers may be waiting for the calling thread.
        let Some(mut demand) = self.demand.try_lock() else {
            return;
        };
        if demand.open > 0 || !demand.is_settled {
            return;
        }
        if std::mem::replace(&mut demand.is_idle, true) {
            demand.is_settled = false;
            self.wanted.store(false, Ordering::SeqCst);
        }
    }

    /// Returns the number of locks that a transaction holds.
    pub(crate) fn held(&self, number: u64) -> usize {
        self.manager.held(number)
    }

    /// Returns the numbers of the transactions whose locks this transaction is waiting for.
    pub(crate) fn waits_for(&self, number: u64) -> Vec<u64> {
        self.manager.waits_for(number)
    }

    /// Returns the locks of a transaction, ordered by their lower bounds.
    pub(crate) fn locks_of(&self, number: u64) -> Vec<HeldLock> {
        self.manager.locks_of(number)
    }

    /// Returns the parts of a range that a transaction has locked only for merging.
    pub(crate) fn merge_locks(&self, number: u64, range: &KeyRange) -> Vec<KeyRange> {
        self.manager
            .merge_locks(number, &range.low, range.high.as_deref())
    }

    /// Merges all locks that a transaction holds inside each of the given ranges into a single
    /// lock. The transaction must have locked the ranges, which must be disjoint and ordered.
    pub(crate) fn join(&self, number: u64, joined: &[HeldLock]) {
        self.manager.join(number, joined);
    }
}

/// Returns the range that contains only the key `key`.
pub(crate) fn single_key_range(key: &[u8]) -> KeyRange {
    let mut behind: SmallVec<[u8; 128]> = SmallVec::from_slice(key);
    behind.push(0);
    KeyRange::new(key, Some(&behind))
}

impl Engine {
    /// Begins a locking transaction. All writes respect its locks until [`TransactionLocks::end`]
    /// is called.
    pub(crate) fn begin_locking(&self) {
        let mut demand = self.locks.demand.lock();
        demand.open += 1;
        demand.is_idle = false;
        if demand.is_settled {
            return;
        }
        self.locks.wanted.store(true, Ordering::SeqCst);
        wait_for_grace_period(&self.writers, || {});
        // An attachment of ingests may have begun without locks. Wait for it too.
        drop(self.ingests.attaching.read());
        self.visible.wait_for(self.queue.last());
        demand.is_settled = true;
    }

    /// Locks a key range for a transaction, waiting at most `timeout` for owners of conflicting
    /// locks.
    pub(crate) fn lock(
        &self,
        number: u64,
        low: &[u8],
        high: Option<&[u8]>,
        mode: RangeLockMode,
        timeout: Duration,
    ) -> Result<()> {
        let owner = LockOwner::Transaction(number);
        let locked = self.locks.manager.lock(owner, low, high, mode, timeout);
        locked.map_err(|refused| match refused {
            LockRefusal::Deadlock(cycle) => Error::Deadlock {
                victim: number,
                cycle: cycle
                    .into_iter()
                    .map(|(number, key)| (number, self.users_key(&key).1))
                    .collect(),
            },
            LockRefusal::OwnerEnded => Error::TransactionEnded {
                why: "another thread ended it while this one was waiting for a lock",
            },
            LockRefusal::TimedOut(holders) => self.lock_timed_out(low, timeout, holders),
        })
    }

    /// Locks a key range for a transaction if that is possible without waiting. Returns whether the
    /// range is locked.
    pub(crate) fn try_lock(&self, number: u64, range: &KeyRange, mode: RangeLockMode) -> bool {
        let owner = LockOwner::Transaction(number);
        let high = range.high.as_deref();
        self.locks.manager.try_lock(owner, &range.low, high, mode)
    }

    /// Returns whether a write of a key outside transactions would have to wait for a lock. The
    /// answer may be outdated when the caller receives it.
    pub(crate) fn is_locked(&self, key: &[u8]) -> bool {
        let range = single_key_range(key);
        let high = range.high.as_deref();
        self.locks.are_required() && self.locks.manager.is_locked(&range.low, high)
    }

    #[cold]
    fn lock_timed_out(&self, key: &[u8], waited: Duration, holders: Vec<u64>) -> Error {
        let (keyspace, key) = self.users_key(key);
        Error::LockTimedOut {
            keyspace,
            key,
            waited,
            holders,
        }
    }

    /// Returns the keyspace name and the user's key for a dictionary key.
    pub(crate) fn users_key(&self, key: &[u8]) -> (String, Vec<u8>) {
        let Some((len, id)) = format::split(key) else {
            return (String::new(), key.to_vec());
        };
        let definition = self.catalog.by_id(id);
        let name = definition.map_or_else(String::new, |definition| definition.name());
        (name, key.get(len..).unwrap_or_default().to_vec())
    }

    /// Locks all keys and ranges that a commit writes to. Dropping the result releases the locks.
    pub(super) fn lock_commit(&self, commit: &CommitRecord<'_>) -> Result<CommitLocks<'_>> {
        let mut ranges: Vec<(KeyRange, RangeLockMode)> = Vec::with_capacity(commit.count as usize);
        let exclusive = |range| (range, RangeLockMode::Exclusive);
        for write in commit.writes().flatten() {
            ranges.extend(match write {
                LogWrite::One { key, kind, .. } => {
                    let mode = match kind == MessageKind::Merge && self.merges_commute(key) {
                        true => RangeLockMode::Merge,
                        false => RangeLockMode::Exclusive,
                    };
                    Some((single_key_range(key), mode))
                }
                LogWrite::Range { start, end } => Some(exclusive(KeyRange::new(start, Some(end)))),
                LogWrite::Ingest { first, last } => Some(exclusive(from_to(first, last))),
                LogWrite::Volatile => None,
            });
        }
        self.lock_ranges(&mut ranges)
    }

    /// Locks the ranges that an ingest writes to, each given by its first and last key.
    pub(super) fn lock_stretches(&self, stretches: &[(TreeKey, TreeKey)]) -> Result<CommitLocks<'_>> {
        let ranges = stretches
            .iter()
            .map(|(first, last)| (from_to(first, last), RangeLockMode::Exclusive));
        self.lock_ranges(&mut ranges.collect::<Vec<_>>())
    }

    /// Returns whether operands for a dictionary key may be applied in any order.
    fn merges_commute(&self, key: &[u8]) -> bool {
        let definition = format::split(key).and_then(|(_, id)| self.catalog.by_id(id));
        definition.is_some_and(|definition| definition.merges_commute)
    }

    /// Locks several ranges one after the other. If this causes a deadlock, releases all of them
    /// and starts over. A commit outside transactions can always do so, because it holds no other
    /// locks.
    fn lock_ranges(&self, ranges: &mut [(KeyRange, RangeLockMode)]) -> Result<CommitLocks<'_>> {
        ranges.sort_by(|(one, _), (other, _)| one.low.cmp(&other.low));
        let (began, patience) = (Instant::now(), self.locks.patience());
        loop {
            let number = self.locks.next_number();
            let held = CommitLocks {
                locks: &self.locks,
                number,
            };
            let refused = ranges.iter().find_map(|(range, mode)| {
                let left = patience.saturating_sub(began.elapsed());
                let (owner, high) = (LockOwner::Commit(number), range.high.as_deref());
                let manager = &self.locks.manager;
                let locked = manager.lock(owner, &range.low, high, *mode, left);
                locked.err().map(|refused| (range, refused))
            });
            match refused {
                None => return Ok(held),
                Some((range, LockRefusal::TimedOut(holders))) => {
                    return Err(self.lock_timed_out(&range.low, patience, holders));
                }
                Some((_, LockRefusal::Deadlock(_) | LockRefusal::OwnerEnded)) => {}
            }
        }
    }
}

fn from_to(first: &[u8], last: &[u8]) -> KeyRange {
    KeyRange {
        high: single_key_range(last).high,
        low: first.into(),
    }
}
