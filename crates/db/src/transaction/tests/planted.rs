//! Tests that the checkers detect each injected fault.

use super::driver::{Plan, Trouble};
use super::{driver, findings};
use crate::locking::fault::{self, IsolationFault};
use crate::options::{Concurrency, Isolation};

/// Maximum number of histories to run for each fault.
const SEEDS: u64 = 400;

/// Injects a fault, and returns whether any history reveals it, either because a checker finds a
/// violation or because the store panics.
fn is_found(fault: IsolationFault, isolation: Isolation, concurrency: Concurrency) -> bool {
    let troubles = Trouble::ALL.into_iter().cycle();
    (1..=SEEDS).zip(troubles).any(|(seed, trouble)| {
        let plan = Plan {
            seed,
            isolation,
            concurrency,
            trouble,
            transactions: 100,
        };
        let run = || findings(&driver::run(&plan), isolation);
        let found = std::panic::catch_unwind(|| fault::with(fault, run));
        found.map_or(true, |found| !found.is_empty())
    })
}

/// The faults, each with an isolation level and a concurrency control under which it is detected.
const FAULTS: [(IsolationFault, Isolation, Concurrency); 55] = {
    use Concurrency::{Locking, Optimistic};
    use Isolation::{Serializable, Snapshot};
    [
        (IsolationFault::PointsAreNotValidated, Serializable, Optimistic),
        (IsolationFault::RangesAreNotValidated, Serializable, Optimistic),
        (IsolationFault::DictionaryIsNotAsked, Serializable, Optimistic),
        (IsolationFault::RangeDeletesAreNotSeen, Serializable, Optimistic),
        (IsolationFault::FirstCommitterLoses, Snapshot, Optimistic),
        (IsolationFault::FirstCommitterLoses, Snapshot, Locking),
        (IsolationFault::UpdatesAreReads, Snapshot, Optimistic),
        (IsolationFault::UpdatesAreReads, Snapshot, Locking),
        (IsolationFault::MergesIgnoreReplacements, Snapshot, Optimistic),
        (IsolationFault::MergesIgnoreReplacements, Snapshot, Locking),
        (IsolationFault::ObservedKeysAreForgotten, Snapshot, Optimistic),
        (IsolationFault::ObservedKeysAreForgotten, Snapshot, Locking),
        (IsolationFault::MergeLocksAreNotUpgraded, Snapshot, Locking),
        (IsolationFault::MergesIgnoreReaders, Serializable, Locking),
        (IsolationFault::GroupsLoseTheirLastKeys, Serializable, Optimistic),
        (IsolationFault::SharedReadsAreReads, Snapshot, Optimistic),
        (IsolationFault::SharedReadsAreReads, Snapshot, Locking),
        (
            IsolationFault::DeclaredRangesAreForgotten,
            Serializable,
            Optimistic,
        ),
        (IsolationFault::DeclaredRangesAreForgotten, Serializable, Locking),
        (IsolationFault::DeclaredRangesAreForgotten, Snapshot, Optimistic),
        (IsolationFault::DeclaredRangesAreForgotten, Snapshot, Locking),
        (
            IsolationFault::UntrackedReadsAreNotRepeatable,
            Serializable,
            Optimistic,
        ),
        (IsolationFault::UntrackedReadsAreNotRepeatable, Snapshot, Locking),
        (IsolationFault::ReadsAreNotRepeatable, Snapshot, Optimistic),
        (IsolationFault::ReadsAreNotRepeatable, Serializable, Optimistic),
        (IsolationFault::OwnWritesAreHidden, Serializable, Optimistic),
        (IsolationFault::MultiGetIsUntracked, Serializable, Optimistic),
        (IsolationFault::MultiGetIsUntracked, Serializable, Locking),
        (IsolationFault::EndOfWalkIsUntracked, Serializable, Optimistic),
        (IsolationFault::BackwardWalkIsUntracked, Serializable, Optimistic),
        (IsolationFault::PartOfWalkIsUntracked, Serializable, Optimistic),
        (IsolationFault::SavepointKeepsWrites, Serializable, Optimistic),
        (IsolationFault::KeyspaceIsLeftOut, Snapshot, Optimistic),
        (IsolationFault::WritesLockShared, Serializable, Locking),
        (IsolationFault::WritesLockShared, Snapshot, Locking),
        (IsolationFault::GapsAreNotLocked, Serializable, Locking),
        (IsolationFault::LocksAreReleasedEarly, Serializable, Locking),
        (IsolationFault::WritesIgnoreLocks, Serializable, Locking),
        (IsolationFault::FirstCommitIsNotSeen, Serializable, Optimistic),
        (IsolationFault::SavepointForgetsReads, Serializable, Optimistic),
        (IsolationFault::CompareAndSetIsUntracked, Serializable, Optimistic),
        (IsolationFault::CompareAndSetIsUntracked, Serializable, Locking),
        (IsolationFault::MergesHideTheStore, Serializable, Locking),
        (IsolationFault::DeletedRangesAreRead, Snapshot, Optimistic),
        (IsolationFault::UpgradesIgnoreReaders, Serializable, Locking),
        (IsolationFault::BeginIsStale, Serializable, Optimistic),
        (IsolationFault::BeginIsStale, Snapshot, Locking),
        (IsolationFault::DeletedRangesAreNoWrites, Snapshot, Optimistic),
        (IsolationFault::WalksMissOwnWrites, Snapshot, Locking),
        (IsolationFault::EndOfWalkIsNotLocked, Serializable, Locking),
        (IsolationFault::SpilledWritesAreHidden, Serializable, Optimistic),
        (IsolationFault::SpilledWritesAreHidden, Snapshot, Locking),
        (
            IsolationFault::SavepointKeepsSpilledWrites,
            Serializable,
            Optimistic,
        ),
        (IsolationFault::SpilledWritesAreNotValidated, Snapshot, Optimistic),
        (IsolationFault::FlushedKeysAreForgotten, Snapshot, Optimistic),
    ]
};

#[test]
fn every_planted_mistake_is_found() {
    let missed: Vec<_> = FAULTS
        .into_iter()
        .filter(|&(fault, isolation, concurrency)| !is_found(fault, isolation, concurrency))
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
}
