//! What transactions have done and seen.

use std::collections::BTreeMap;
use std::fmt;

/// Keys with their values.
pub(super) type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// Which keyspace: lists are only appended to, registers are put and deleted.
///
/// The first byte of a key in a history names it.
pub(super) const LISTS: u8 = b'l';
pub(super) const REGISTERS: u8 = b'r';

/// The bytes of an element of a list, and of a register's value. Each is written once.
pub(super) const ELEMENT: usize = 4;

/// An operation, and what it has returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Get {
        key: Vec<u8>,
        seen: Option<Vec<u8>>,
        /// Whether the transaction depends on the key as if it wrote to it.
        for_update: bool,
    },
    /// A walk from a bound on, until some keys were seen or there were no more.
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
    /// A write if the key has the expected value.
    Swap {
        key: Vec<u8>,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
        done: bool,
    },
}

impl Op {
    /// Returns whether it writes.
    pub(super) fn is_write(&self) -> bool {
        !matches!(
            self,
            Op::Get { .. } | Op::Walk { .. } | Op::Swap { done: false, .. }
        )
    }

    /// Does its write to a state.
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

    /// Returns whether it writes to a key, or depends on it as if it did.
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

/// A transaction that was committed, or a write outside of any.
#[derive(Clone, Debug)]
pub(super) struct Committed {
    pub(super) name: usize,
    /// How many commits there were when it began, and how many when its own was done.
    pub(super) began: usize,
    pub(super) ended: usize,
    pub(super) ops: Vec<Op>,
}

impl Committed {
    pub(super) fn writes(&self) -> bool {
        self.ops.iter().any(Op::is_write)
    }
}

/// Transactions in the order of their commits.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) committed: Vec<Committed>,
    /// What the store had at the end.
    pub(super) last: State,
    /// How many transactions were refused.
    pub(super) refused: usize,
    /// How often the disk was full.
    pub(super) full: usize,
    /// How many commits there were while an operation of the device was under way.
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
