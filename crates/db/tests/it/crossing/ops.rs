//! Operations that refer to no particular store: keys are numbers, and open snapshots and iterators
//! are named by their position in a list. Any part of a history is therefore itself a history and
//! can be pasted into a test.

use alluvium::{Concurrency, Durability, Isolation};
use alluvium_device::simulated::CrashSurvival;

/// The index of a keyspace in the plan of its store.
pub(crate) type KeyspaceNumber = usize;

/// A key by its number: see [`super::keys`].
pub(crate) type KeyNumber = u16;

/// A value by its length and its fill byte. Keyspaces with numeric values use only the fill byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u32, pub(crate) u8);

/// One end of a key range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// The end of the keyspace.
    Whole,
    At(KeyNumber),
    Behind(KeyNumber),
}

/// One write to a keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Put(KeyNumber, Bytes),
    /// A put that expires after this number of milliseconds.
    PutFor(KeyNumber, Bytes, u64),
    Delete(KeyNumber),
    /// A delete that takes effect after this number of milliseconds.
    DeleteIn(KeyNumber, u64),
    Merge(KeyNumber, Bytes),
    DeleteRange(Edge, Edge),
}

/// What a conditional write expects of the current value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The present value.
    Right,
    Absent,
    Another,
}

/// What a read sees: the current state, or a snapshot by its index in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Now,
    Snapshot(usize),
}

/// The direction of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Forward,
    Backward,
    /// From both ends, in an order drawn from a seed.
    Both(u64),
}

/// An iteration over a range, limited to a number of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    pub(crate) low: Edge,
    pub(crate) high: Edge,
    pub(crate) way: Way,
    pub(crate) most: usize,
}

/// A read operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Get(View, KeyspaceNumber, KeyNumber),
    Contains(KeyspaceNumber, KeyNumber),
    GetMany(View, KeyspaceNumber, Vec<KeyNumber>),
    Walk(View, KeyspaceNumber, Walk),
    /// An iteration over the keys that share a prefix, which is the first bytes of a key.
    Prefix(KeyspaceNumber, KeyNumber, usize, Way),
    Unordered(View, KeyspaceNumber),
    /// All pairs of a keyspace, in both directions.
    Keyspace(KeyspaceNumber),
    /// Everything, in every view.
    All,
}

/// How a store ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Closed,
    Dropped,
    /// The machine crashes; the seed draws the details.
    Crashed(CrashSurvival, u64),
}

/// A step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Write(KeyspaceNumber, Write),
    Set(KeyspaceNumber, KeyNumber, Expected, Option<Bytes>),
    /// Reads what the transaction itself sees, whatever the view of the read.
    Read(Read),
    GetForUpdate(KeyspaceNumber, KeyNumber),
    Savepoint,
    RollBackTo(usize),
    Release(usize),
    /// Another writer commits immediately. For optimistic transactions only.
    Other(KeyspaceNumber, Write),
}

/// A transaction from begin to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) isolation: Isolation,
    pub(crate) concurrency: Concurrency,
    /// Bytes of memory above which the transaction spills.
    pub(crate) memory: Option<usize>,
    pub(crate) steps: Vec<Step>,
    /// Durability of the commit, or `None` for a rollback.
    pub(crate) commit: Option<Durability>,
}

/// One operation of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Batch(Durability, Vec<(KeyspaceNumber, Write)>),
    Set(KeyspaceNumber, KeyNumber, Expected, Option<Bytes>),
    Take(KeyspaceNumber, KeyNumber),
    Read(Read),
    /// Advances the clock by some milliseconds.
    Pass(u64),
    Snapshot,
    DropSnapshot(usize),
    NameSnapshot,
    RemoveSnapshot(usize),
    /// Opens an iterator that is kept while the store changes.
    Hold(KeyspaceNumber),
    /// Advances a held iterator by a number of keys.
    GoOn(usize, Way, usize),
    LetGo(usize),
    Transaction(Transaction),
    /// Loads records, then finishes or abandons the load.
    Ingest(KeyspaceNumber, Vec<(KeyNumber, Bytes, Option<u64>)>, Load),
    Checkpoint,
    Compact,
    /// Runs slices of background work.
    Work(u32),
    Reopen(Ending),
    BackUp,
    /// Limits the disk to this number of additional bytes.
    Narrow(u32),
    Widen,
    /// Flips bits in a copy of the store, drawn from the seed.
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
