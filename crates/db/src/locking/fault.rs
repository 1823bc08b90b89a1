//! Faults that tests inject on purpose, to prove that they would be detected.

/// A transaction isolation bug that a test can inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "only tests plant them"))]
pub(crate) enum IsolationFault {
    /// A commit does not validate the keys that its transaction has read.
    PointsAreNotValidated,
    /// A commit does not validate the ranges that its transaction has read.
    RangesAreNotValidated,
    /// A commit validates only against memtables, even if they do not contain all commits since the
    /// transaction began.
    DictionaryIsNotAsked,
    /// A commit ignores the range deletes of other commits.
    RangeDeletesAreNotSeen,
    /// Under snapshot isolation, write conflicts on single keys go undetected, so the last
    /// committer wins instead of the first.
    FirstCommitterLoses,
    /// A read for update behaves like a plain read.
    UpdatesAreReads,
    /// A shared read behaves like a plain read.
    SharedReadsAreReads,
    /// A range that a transaction declares as its dependency is ignored.
    DeclaredRangesAreForgotten,
    /// A merge of commuting operands does not conflict with a put or delete by another commit.
    MergesIgnoreReplacements,
    /// Under snapshot isolation, a merge of commuting operands is not validated against other
    /// merges, although the transaction has read the key.
    ObservedKeysAreForgotten,
    /// When a locking transaction under snapshot isolation reads a key that it has merged into, it
    /// does not exclude merges by others.
    MergeLocksAreNotUpgraded,
    /// A lock for merging is also granted while another owner holds a shared lock.
    MergesIgnoreReaders,
    /// When neighbouring keys are joined to bound memory, only the first key of a group is kept.
    GroupsLoseTheirLastKeys,
    /// An untracked read sees commits made after its transaction began.
    UntrackedReadsAreNotRepeatable,
    /// A read sees commits made after its transaction began.
    ReadsAreNotRepeatable,
    /// A read does not see its own transaction's writes.
    OwnWritesAreHidden,
    /// The keys of a multi-key read are not tracked.
    MultiGetIsUntracked,
    /// An iterator that reached the end of its range is tracked only up to the last key that it
    /// returned.
    EndOfWalkIsUntracked,
    /// A backward iteration is not tracked.
    BackwardWalkIsUntracked,
    /// An iterator that did not reach the end of its range is not tracked.
    PartOfWalkIsUntracked,
    /// Rolling back to a savepoint keeps writes made after the savepoint.
    SavepointKeepsWrites,
    /// A commit leaves out the writes to the last keyspace.
    KeyspaceIsLeftOut,
    /// The writes of a transaction acquire shared locks instead of exclusive locks.
    WritesLockShared,
    /// A locking iterator locks the keys that it returns, but not the gaps between them.
    GapsAreNotLocked,
    /// The locks of keys that were read are released before the commit.
    LocksAreReleasedEarly,
    /// A write outside transactions ignores the locks of transactions.
    WritesIgnoreLocks,
    /// Validation misses the first commit after the transaction began.
    FirstCommitIsNotSeen,
    /// Rolling back to a savepoint discards the reads tracked since the savepoint.
    SavepointForgetsReads,
    /// A conditional write in a transaction does not track its key.
    CompareAndSetIsUntracked,
    /// After a merge in a transaction, reads no longer see the value stored for the key.
    MergesHideTheStore,
    /// A read does not see its own transaction's range deletes.
    DeletedRangesAreRead,
    /// Upgrading a lock does not wait for other readers.
    UpgradesIgnoreReaders,
    /// A transaction misses the latest commit made before it began.
    BeginIsStale,
    /// Under snapshot isolation, write conflicts in ranges that a transaction deletes go
    /// undetected.
    DeletedRangesAreNoWrites,
    /// An iterator does not see its own transaction's writes.
    WalksMissOwnWrites,
    /// A read does not see its own transaction's writes that were spilled to disk.
    SpilledWritesAreHidden,
    /// Rolling back to a savepoint keeps writes made after the savepoint if they were spilled to
    /// disk.
    SavepointKeepsSpilledWrites,
    /// Under snapshot isolation, write conflicts on keys whose writes were spilled to disk go
    /// undetected.
    SpilledWritesAreNotValidated,
    /// When a memtable is flushed, the keys that a large transaction is validated against are
    /// forgotten.
    FlushedKeysAreForgotten,
    /// A read does not notice that another thread of its transaction has spilled writes meanwhile.
    SpillsAreNotNoticed,
    /// A compare-and-set does not notice that another thread of its transaction has written to the
    /// key meanwhile.
    CompareAndSetIsNotAtomic,
    /// A locking iterator does not lock the range after the last key that it returned.
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

/// Returns whether a test has injected this fault, which is never the case outside tests.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn is_planted(_: IsolationFault) -> bool {
    false
}

/// Injects a fault on the current thread, runs `run`, and removes the fault.
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

/// Returns the fault injected on the current thread, if there is one.
#[cfg(all(test, not(alluvium_model_check)))]
pub(crate) fn planted() -> Option<IsolationFault> {
    PLANTED.with(std::cell::Cell::get)
}

/// Like [`with`], but runs `run` without a fault if `fault` is `None`.
#[cfg(all(test, not(alluvium_model_check)))]
pub(crate) fn with_any<R>(fault: Option<IsolationFault>, run: impl FnOnce() -> R) -> R {
    match fault {
        Some(fault) => with(fault, run),
        None => run(),
    }
}
