//! Tests that the checkers find each injected fault.

use super::driver::{Plan, Trouble};
use super::{driver, findings};
use crate::locking::fault::{self, Fault};
use crate::options::{Concurrency, Isolation};

/// Number of histories to try.
const SEEDS: u64 = 400;

/// Returns whether the checkers find a fault in histories of a kind, or the store panics.
fn is_found(fault: Fault, isolation: Isolation, concurrency: Concurrency) -> bool {
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

#[test]
fn every_planted_mistake_is_found() {
    use Concurrency::{Locking, Optimistic};
    use Isolation::{Serializable, Snapshot};
    let faults = [
        (Fault::PointsAreNotValidated, Serializable, Optimistic),
        (Fault::RangesAreNotValidated, Serializable, Optimistic),
        (Fault::DictionaryIsNotAsked, Serializable, Optimistic),
        (Fault::RangeDeletesAreNotSeen, Serializable, Optimistic),
        (Fault::FirstCommitterLoses, Snapshot, Optimistic),
        (Fault::FirstCommitterLoses, Snapshot, Locking),
        (Fault::UpdatesAreReads, Snapshot, Optimistic),
        (Fault::UpdatesAreReads, Snapshot, Locking),
        (Fault::ReadsAreNotRepeatable, Snapshot, Optimistic),
        (Fault::ReadsAreNotRepeatable, Serializable, Optimistic),
        (Fault::OwnWritesAreHidden, Serializable, Optimistic),
        (Fault::MultiGetIsUntracked, Serializable, Optimistic),
        (Fault::MultiGetIsUntracked, Serializable, Locking),
        (Fault::EndOfWalkIsUntracked, Serializable, Optimistic),
        (Fault::BackwardWalkIsUntracked, Serializable, Optimistic),
        (Fault::PartOfWalkIsUntracked, Serializable, Optimistic),
        (Fault::SavepointKeepsWrites, Serializable, Optimistic),
        (Fault::KeyspaceIsLeftOut, Snapshot, Optimistic),
        (Fault::WritesLockShared, Serializable, Locking),
        (Fault::WritesLockShared, Snapshot, Locking),
        (Fault::GapsAreNotLocked, Serializable, Locking),
        (Fault::LocksAreReleasedEarly, Serializable, Locking),
        (Fault::WritesIgnoreLocks, Serializable, Locking),
        (Fault::FirstCommitIsNotSeen, Serializable, Optimistic),
        (Fault::SavepointForgetsReads, Serializable, Optimistic),
        (Fault::CompareAndSetIsUntracked, Serializable, Optimistic),
        (Fault::CompareAndSetIsUntracked, Serializable, Locking),
        (Fault::MergesHideTheStore, Serializable, Locking),
        (Fault::DeletedRangesAreRead, Snapshot, Optimistic),
        (Fault::UpgradesIgnoreReaders, Serializable, Locking),
        (Fault::BeginIsStale, Serializable, Optimistic),
        (Fault::BeginIsStale, Snapshot, Locking),
        (Fault::DeletedRangesAreNoWrites, Snapshot, Optimistic),
        (Fault::WalksMissOwnWrites, Snapshot, Locking),
        (Fault::EndOfWalkIsNotLocked, Serializable, Locking),
        (Fault::SpilledWritesAreHidden, Serializable, Optimistic),
        (Fault::SpilledWritesAreHidden, Snapshot, Locking),
        (Fault::SavepointKeepsSpilledWrites, Serializable, Optimistic),
        (Fault::SpilledWritesAreNotValidated, Snapshot, Optimistic),
    ];
    let missed: Vec<_> = faults
        .into_iter()
        .filter(|&(fault, isolation, concurrency)| !is_found(fault, isolation, concurrency))
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
}
