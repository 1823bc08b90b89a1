//! Faults that tests inject to prove that they would detect them.

/// A possible bug in transaction isolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "only tests plant them"))]
pub(crate) enum IsolationFault {
    /// Commits do not validate the keys that were read.
    PointsAreNotValidated,
    /// Commits do not validate the ranges that were read.
    RangesAreNotValidated,
    /// Commits validate against memtables only, even if these do not reach back to the beginning.
    DictionaryIsNotAsked,
    /// Commits do not see range deletes of others.
    RangeDeletesAreNotSeen,
    /// Under snapshot isolation, commits do not validate the keys that they write.
    FirstCommitterLoses,
    /// Reads for update behave like plain reads.
    UpdatesAreReads,
    /// Reads see commits after the beginning of the transaction.
    ReadsAreNotRepeatable,
    /// Reads do not see the transaction's own writes.
    OwnWritesAreHidden,
    /// The keys of a multi-key read are not tracked.
    MultiGetIsUntracked,
    /// An exhausted iterator is tracked up to its last key only.
    EndOfWalkIsUntracked,
    /// Backward iteration is not tracked.
    BackwardWalkIsUntracked,
    /// An iterator that is not exhausted is not tracked.
    PartOfWalkIsUntracked,
    /// A rollback to a savepoint keeps the later writes.
    SavepointKeepsWrites,
    /// Writes to the last keyspace are not committed.
    KeyspaceIsLeftOut,
    /// Writes of a transaction take shared locks.
    WritesLockShared,
    /// A locking iterator locks the keys that it finds, but not the gaps between them.
    GapsAreNotLocked,
    /// Locks of read keys are released before the commit.
    LocksAreReleasedEarly,
    /// Writes outside transactions ignore locks.
    WritesIgnoreLocks,
    /// Validation misses the first commit after the beginning of the transaction.
    FirstCommitIsNotSeen,
    /// A rollback to a savepoint discards the reads tracked since.
    SavepointForgetsReads,
    /// A conditional write in a transaction does not track its key.
    CompareAndSetIsUntracked,
    /// A merge in a transaction hides the store's value.
    MergesHideTheStore,
    /// Reads do not see the transaction's own range deletes.
    DeletedRangesAreRead,
    /// Lock upgrades do not wait for other readers.
    UpgradesIgnoreReaders,
    /// A transaction starts before the latest commit.
    BeginIsStale,
    /// Under snapshot isolation, deleted ranges are not validated.
    DeletedRangesAreNoWrites,
    /// Iterators do not see the transaction's own writes.
    WalksMissOwnWrites,
    /// Reads do not see the transaction's spilled writes.
    SpilledWritesAreHidden,
    /// A rollback to a savepoint keeps writes that were spilled later.
    SavepointKeepsSpilledWrites,
    /// Under snapshot isolation, commits do not validate the spilled keys that they write.
    SpilledWritesAreNotValidated,
    /// A locking iterator does not lock the range after its last key.
    EndOfWalkIsNotLocked,
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<IsolationFault>> = const { std::cell::Cell::new(None) };
}

/// Returns whether a test has injected this fault on the current thread.
#[cfg(test)]
pub(crate) fn is_planted(fault: IsolationFault) -> bool {
    PLANTED.with(|planted| planted.get() == Some(fault))
}

/// Returns whether a test has injected this fault: always false outside tests.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn is_planted(_: IsolationFault) -> bool {
    false
}

/// Injects a fault on the current thread while `run` executes.
#[cfg(all(test, not(alluvium_model_check)))]
pub(crate) fn with<R>(fault: IsolationFault, run: impl FnOnce() -> R) -> R {
    struct FaultGuard;
    impl Drop for FaultGuard {
        fn drop(&mut self) {
            PLANTED.with(|planted| planted.set(None));
        }
    }
    PLANTED.with(|planted| planted.set(Some(fault)));
    let _removed = FaultGuard;
    run()
}

/// Returns the fault injected on the current thread.
#[cfg(all(test, not(alluvium_model_check)))]
pub(crate) fn planted() -> Option<IsolationFault> {
    PLANTED.with(std::cell::Cell::get)
}

/// Like [`with`], or without a fault.
#[cfg(all(test, not(alluvium_model_check)))]
pub(crate) fn with_any<R>(fault: Option<IsolationFault>, run: impl FnOnce() -> R) -> R {
    match fault {
        Some(fault) => with(fault, run),
        None => run(),
    }
}
