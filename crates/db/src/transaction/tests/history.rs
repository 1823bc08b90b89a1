//! The operations of transactions, with their results.

use std::collections::BTreeMap;
use std::fmt;

/// The contents of the keyspaces: keys with their values.
pub(super) type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// The two keyspaces. The first byte of a key in a history identifies its keyspace. Lists are only
/// appended to, and registers are put and deleted.
pub(super) const LISTS: u8 = b'l';
pub(super) const REGISTERS: u8 = b'r';

/// Length in bytes of a list element and of a register value. Each element and each value is
/// written only once.
pub(super) const ELEMENT: usize = 4;

/// An operation of a transaction, with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Get {
        key: Vec<u8>,
        seen: Option<Vec<u8>>,
        /// Whether the transaction depends on the key as if it had written to it.
        for_update: bool,
    },
    /// An iteration from one bound of a range. It ended when a number of keys was seen, or at the
    /// end of the range.
    Walk {
        low: Vec<u8>,
        high: Vec<u8>,
        is_backward: bool,
        seen: Vec<(Vec<u8>, Vec<u8>)>,
        has_ended: bool,
    },
    Put {
        key: Vec<u8>,
        value: Vec<u8>,
    },
    Append {
        key: Vec<u8>,
        element: Vec<u8>,
    },
    Delete {
        key: Vec<u8>,
    },
    DeleteRange {
        low: Vec<u8>,
        high: Vec<u8>,
    },
    /// A compare-and-set: a write that takes effect only if the key has the expected value.
    Swap {
        key: Vec<u8>,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
        done: bool,
    },
}

impl Op {
    /// Returns whether the operation writes to a key.
    pub(super) fn is_write(&self) -> bool {
        !matches!(
            self,
            Op::Get { .. } | Op::Walk { .. } | Op::Swap { done: false, .. }
        )
    }

    /// Applies the write of the operation to a state. Does nothing for a read.
    pub(super) fn apply(&self, state: &mut State) {
        match self {
            Op::Get { .. } | Op::Walk { .. } | Op::Swap { done: false, .. } => {}
            Op::Put { key, value } | Op::Swap { key, value, .. } => {
                state.insert(key.clone(), value.clone());
            }
            Op::Append { key, element } => state.entry(key.clone()).or_default().extend(element),
            Op::Delete { key } => {
                state.remove(key);
            }
            Op::DeleteRange { low, high } => state.retain(|key, _| key < low || key >= high),
        }
    }

    /// Returns whether the operation writes to a key, or depends on it as if it wrote to it.
    pub(super) fn touches(&self, key: &[u8]) -> bool {
        match self {
            Op::Get {
                key: own, for_update, ..
            } => *for_update && own == key,
            Op::Walk { .. } => false,
            Op::Put { key: own, .. }
            | Op::Append { key: own, .. }
            | Op::Delete { key: own }
            | Op::Swap { key: own, .. } => own == key,
            Op::DeleteRange { low, high } => &low[..] <= key && key < &high[..],
        }
    }
}

/// A committed transaction, or a write outside of any transaction.
#[derive(Clone, Debug)]
pub(super) struct Committed {
    pub(super) name: usize,
    /// Number of commits before the transaction began, and number of commits including its own.
    pub(super) began: usize,
    pub(super) ended: usize,
    pub(super) ops: Vec<Op>,
}

impl Committed {
    pub(super) fn writes(&self) -> bool {
        self.ops.iter().any(Op::is_write)
    }
}

/// The committed transactions of a history, in commit order.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) committed: Vec<Committed>,
    /// Final contents of the keyspaces.
    pub(super) last: State,
    /// Number of transactions that were rejected.
    pub(super) refused: usize,
    /// Number of operations that failed because the disk was full.
    pub(super) full: usize,
    /// Number of commits that happened in the middle of a device operation.
    pub(super) beside: usize,
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for one in &self.committed {
            writeln!(f, "{} [{}, {}]", one.name, one.began, one.ended)?;
            for op in &one.ops {
                writeln!(f, "    {op:?}")?;
            }
        }
        Ok(())
    }
}
