//! What is done to a store, in words that need no store: keys are numbers, and what is held is
//! named by its place in a list. So any part of a history is a history, and can be pasted into a
//! test.

use alluvium::{Concurrency, Durability, Isolation};
use alluvium_device::simulated::Survival;

/// The place of a keyspace in the plan of its store.
pub(crate) type KeyspaceNumber = usize;

/// A key, by its number: see [`super::keys`].
pub(crate) type KeyNumber = u16;

/// A value, by its length and what it is filled with. In a keyspace whose values are numbers only
/// the second counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u32, pub(crate) u8);

/// The end of a range of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// That of the keyspace.
    Whole,
    At(KeyNumber),
    Behind(KeyNumber),
}

/// One write to a keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Put(KeyNumber, Bytes),
    /// A put that expires some milliseconds later.
    PutFor(KeyNumber, Bytes, u64),
    Delete(KeyNumber),
    Merge(KeyNumber, Bytes),
    DeleteRange(Edge, Edge),
}

/// What a conditional write expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// What is there.
    Right,
    Absent,
    Another,
}

/// Whose view is read: that of now, or a snapshot's, by its place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Now,
    Snapshot(usize),
}

/// Which way a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Forward,
    Backward,
    /// From both ends, in an order that a seed draws.
    Both(u64),
}

/// A walk over a range, which ends after a number of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    pub(crate) low: Edge,
    pub(crate) high: Edge,
    pub(crate) way: Way,
    pub(crate) most: usize,
}

/// Something that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Get(View, KeyspaceNumber, KeyNumber),
    Contains(KeyspaceNumber, KeyNumber),
    GetMany(View, KeyspaceNumber, Vec<KeyNumber>),
    Walk(View, KeyspaceNumber, Walk),
    /// A walk over keys with a prefix: the first bytes of a key.
    Prefix(KeyspaceNumber, KeyNumber, usize, Way),
    Unordered(View, KeyspaceNumber),
    /// Everything that a keyspace has, both ways.
    Keyspace(KeyspaceNumber),
    /// Everything, in every view.
    All,
}

/// How a store is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Closed,
    Dropped,
    /// The machine ends; a seed draws the rest.
    Crashed(Survival, u64),
}

/// What a transaction does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Write(KeyspaceNumber, Write),
    Set(KeyspaceNumber, KeyNumber, Expected, Option<Bytes>),
    /// It sees itself, whatever the view.
    Read(Read),
    GetForUpdate(KeyspaceNumber, KeyNumber),
    Savepoint,
    RollBackTo(usize),
    Release(usize),
    /// Another writes, and commits at once; only beside an optimistic transaction.
    Other(KeyspaceNumber, Write),
}

/// A transaction from its beginning to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) isolation: Isolation,
    pub(crate) concurrency: Concurrency,
    /// Bytes of memory beyond which it spills.
    pub(crate) memory: Option<usize>,
    pub(crate) steps: Vec<Step>,
    /// None where it is rolled back.
    pub(crate) commit: Option<Durability>,
}

/// One operation of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Batch(Durability, Vec<(KeyspaceNumber, Write)>),
    Set(KeyspaceNumber, KeyNumber, Expected, Option<Bytes>),
    Take(KeyspaceNumber, KeyNumber),
    Read(Read),
    /// Some milliseconds pass.
    Pass(u64),
    Snapshot,
    DropSnapshot(usize),
    NameSnapshot,
    RemoveSnapshot(usize),
    /// An iterator is held while the store changes.
    Hold(KeyspaceNumber),
    /// It goes on by a number of keys.
    GoOn(usize, Way, usize),
    LetGo(usize),
    Transaction(Transaction),
    /// Records are loaded; the load is finished, or given up.
    Ingest(KeyspaceNumber, Vec<(KeyNumber, Bytes, Option<u64>)>, Load),
    Checkpoint,
    Compact,
    /// Some slices of background work.
    Work(u32),
    Reopen(Ending),
    BackUp,
    /// The disk has space for some bytes more, and then none.
    Narrow(u32),
    Widen,
    /// Bits of a copy are flipped, which a seed draws.
    Damage(u64),
    DropKeyspace(KeyspaceNumber),
    RenameKeyspace(KeyspaceNumber),
    Check,
}

/// How a load of records ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Finished,
    GivenUp,
}

impl Read {
    fn keyspace(&mut self) -> Option<&mut KeyspaceNumber> {
        match self {
            Read::Get(_, keyspace, _)
            | Read::Contains(keyspace, _)
            | Read::GetMany(_, keyspace, _)
            | Read::Walk(_, keyspace, _)
            | Read::Prefix(keyspace, ..)
            | Read::Unordered(_, keyspace)
            | Read::Keyspace(keyspace) => Some(keyspace),
            Read::All => None,
        }
    }
}

impl Step {
    fn keyspace(&mut self) -> Option<&mut KeyspaceNumber> {
        match self {
            Step::Write(keyspace, _)
            | Step::Set(keyspace, ..)
            | Step::GetForUpdate(keyspace, _)
            | Step::Other(keyspace, _) => Some(keyspace),
            Step::Read(read) => read.keyspace(),
            Step::Savepoint | Step::RollBackTo(_) | Step::Release(_) => None,
        }
    }
}

impl Operation {
    /// Visits every keyspace that the operation names.
    pub(crate) fn visit_keyspaces(&mut self, mut visit: impl FnMut(&mut KeyspaceNumber)) {
        match self {
            Operation::Batch(_, writes) => writes.iter_mut().for_each(|(keyspace, _)| visit(keyspace)),
            Operation::Transaction(transaction) => {
                let steps = transaction.steps.iter_mut();
                steps.filter_map(Step::keyspace).for_each(visit);
            }
            Operation::Read(read) => read.keyspace().into_iter().for_each(visit),
            Operation::Set(keyspace, ..)
            | Operation::Take(keyspace, _)
            | Operation::Hold(keyspace)
            | Operation::Ingest(keyspace, ..)
            | Operation::DropKeyspace(keyspace)
            | Operation::RenameKeyspace(keyspace) => visit(keyspace),
            Operation::Pass(_)
            | Operation::Snapshot
            | Operation::DropSnapshot(_)
            | Operation::NameSnapshot
            | Operation::RemoveSnapshot(_)
            | Operation::GoOn(..)
            | Operation::LetGo(_)
            | Operation::Checkpoint
            | Operation::Compact
            | Operation::Work(_)
            | Operation::Reopen(_)
            | Operation::BackUp
            | Operation::Narrow(_)
            | Operation::Widen
            | Operation::Damage(_)
            | Operation::Check => {}
        }
    }
}
