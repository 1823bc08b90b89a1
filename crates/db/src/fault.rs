//! Mistakes that tests plant, to see that they would find them.

/// A mistake that isolation could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "only tests plant them"))]
pub(crate) enum Fault {
    /// A commit does not ask about the keys that were read.
    PointsAreNotValidated,
    /// A commit does not ask about the ranges that were read.
    RangesAreNotValidated,
    /// A commit asks memtables only, even where they do not reach down to the begin.
    DictionaryIsNotAsked,
    /// A commit does not see that others have deleted ranges.
    RangeDeletesAreNotSeen,
    /// Under snapshot isolation a commit does not ask about the keys that it writes.
    FirstCommitterLoses,
    /// Reading for an update is just reading.
    UpdatesAreReads,
    /// Reads see what was committed after the begin.
    ReadsAreNotRepeatable,
    /// Reads do not see the transaction's own writes.
    OwnWritesAreHidden,
    /// The keys of a read of many are not tracked.
    MultiGetIsUntracked,
    /// A walk that has ended is tracked up to its last key only.
    EndOfWalkIsUntracked,
    /// A walk from the back is not tracked.
    BackwardWalkIsUntracked,
    /// A walk is not tracked while it has not ended.
    PartOfWalkIsUntracked,
    /// A rollback to a savepoint keeps the writes.
    SavepointKeepsWrites,
    /// The writes to the last keyspace are not committed.
    KeyspaceIsLeftOut,
    /// A transaction that writes holds a shared lock.
    WritesLockShared,
    /// A walk under locks locks the keys that it finds, and nothing between them.
    GapsAreNotLocked,
    /// Locks of keys that were read are not held until the commit.
    LocksAreReleasedEarly,
    /// Writes outside of transactions do not respect locks.
    WritesIgnoreLocks,
    /// The first commit after the begin is not seen by those that are validated.
    FirstCommitIsNotSeen,
    /// A rollback to a savepoint forgets what was read since.
    SavepointForgetsReads,
    /// A conditional write of a transaction does not track its key.
    CompareAndSetIsUntracked,
    /// A merge of the transaction hides what the store has.
    MergesHideTheStore,
    /// Reads do not see the ranges that the transaction has deleted.
    DeletedRangesAreRead,
    /// Who upgrades a lock does not wait for other readers.
    UpgradesIgnoreReaders,
    /// A transaction begins before what was committed last.
    BeginIsStale,
    /// Under snapshot isolation the ranges that are deleted are not asked about.
    DeletedRangesAreNoWrites,
    /// Walks do not see the transaction's own writes.
    WalksMissOwnWrites,
    /// Reads do not see the transaction's writes that were spilled.
    SpilledWritesAreHidden,
    /// A rollback to a savepoint keeps writes that were spilled since.
    SavepointKeepsSpilledWrites,
    /// Under snapshot isolation a commit does not ask about the spilled keys that it writes.
    SpilledWritesAreNotValidated,
    /// A walk under locks does not lock what lies behind its last key.
    EndOfWalkIsNotLocked,
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Returns whether a test has planted a mistake on this thread.
#[cfg(test)]
pub(crate) fn is_planted(fault: Fault) -> bool {
    PLANTED.with(|planted| planted.get() == Some(fault))
}

/// Returns whether a test has planted a mistake: never outside of tests.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn is_planted(_: Fault) -> bool {
    false
}

/// Plants a mistake on this thread while something runs.
#[cfg(all(test, not(alluvium_model_check)))]
pub(crate) fn with<R>(fault: Fault, run: impl FnOnce() -> R) -> R {
    struct Removed;
    impl Drop for Removed {
        fn drop(&mut self) {
            PLANTED.with(|planted| planted.set(None));
        }
    }
    PLANTED.with(|planted| planted.set(Some(fault)));
    let _removed = Removed;
    run()
}

/// Returns the mistake that is planted on this thread.
#[cfg(all(test, not(alluvium_model_check)))]
pub(crate) fn planted() -> Option<Fault> {
    PLANTED.with(std::cell::Cell::get)
}

/// As [`with`], or without a mistake.
#[cfg(all(test, not(alluvium_model_check)))]
pub(crate) fn with_any<R>(fault: Option<Fault>, run: impl FnOnce() -> R) -> R {
    match fault {
        Some(fault) => with(fault, run),
        None => run(),
    }
}
