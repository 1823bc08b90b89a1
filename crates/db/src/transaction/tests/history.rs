//! The operations of transactions and their results.

use std::collections::BTreeMap;
use std::fmt;

/// The contents of the keyspaces, by key.
pub(super) type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// The keyspaces. The first byte of a key in a history identifies its keyspace. Lists are only
/// appended to, registers are put and deleted, and counters are added to, put and deleted.
pub(super) const LISTS: u8 = b'l';
pub(super) const REGISTERS: u8 = b'r';
pub(super) const COUNTERS: u8 = b'c';

/// Length of a list element and of a register value, in bytes. Each element and each value is
/// written only once.
pub(super) const ELEMENT: usize = 4;

/// An operation of a transaction and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Get {
        key: Vec<u8>,
        seen: Option<Vec<u8>>,
        /// Whether the transaction depends on the key as if it had written to it.
        for_update: bool,
    },
    /// A read that the transaction does not depend on.
    Peek {
        key: Vec<u8>,
        seen: Option<Vec<u8>>,
    },
    /// A declaration that the transaction depends on a range. `since` is the number of commits made
    /// before the declaration was complete.
    Depend {
        low: Vec<u8>,
        high: Vec<u8>,
        since: usize,
    },
    /// An iteration from one bound of a range, which ended after a number of keys or at the end of
    /// the range.
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
    /// A merge of a number into a counter.
    Add {
        key: Vec<u8>,
        number: i64,
    },
    Delete {
        key: Vec<u8>,
    },
    DeleteRange {
        low: Vec<u8>,
        high: Vec<u8>,
    },
    /// A compare-and-set, which writes only if the key has the expected value.
    Swap {
        key: Vec<u8>,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
        done: bool,
    },
}

/// Returns the number in the value of a counter.
fn counter(value: &[u8]) -> i64 {
    i64::from_le_bytes(value.try_into().expect("a counter has 8 bytes"))
}

impl Op {
    /// Returns whether the operation shows the transaction the value of a key that the transaction
    /// may rely on.
    pub(super) fn reads(&self, key: &[u8]) -> bool {
        match self {
            Op::Get { key: own, .. } => own == key,
            Op::Walk {
                low,
                high,
                is_backward,
                seen,
                has_ended,
            } => {
                let last = seen.last().map(|(key, _)| &key[..]);
                let is_passed = last.is_some_and(|last| match is_backward {
                    false => key <= last,
                    true => key >= last,
                });
                &low[..] <= key && key < &high[..] && (*has_ended || is_passed)
            }
            _ => false,
        }
    }

    /// Returns whether the operation writes to a key.
    pub(super) fn is_write(&self) -> bool {
        !matches!(
            self,
            Op::Get { .. }
                | Op::Peek { .. }
                | Op::Depend { .. }
                | Op::Walk { .. }
                | Op::Swap { done: false, .. }
        )
    }

    /// Applies the operation's write to a state. Does nothing for a read.
    pub(super) fn apply(&self, state: &mut State) {
        match self {
            Op::Get { .. }
            | Op::Peek { .. }
            | Op::Depend { .. }
            | Op::Walk { .. }
            | Op::Swap { done: false, .. } => {}
            Op::Put { key, value } | Op::Swap { key, value, .. } => {
                state.insert(key.clone(), value.clone());
            }
            Op::Append { key, element } => state.entry(key.clone()).or_default().extend(element),
            Op::Add { key, number } => {
                let before = state.get(key).map_or(0, |value| counter(value));
                state.insert(key.clone(), (before + number).to_le_bytes().into());
            }
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
            Op::Walk { .. } | Op::Peek { .. } => false,
            Op::Put { key: own, .. }
            | Op::Append { key: own, .. }
            | Op::Add { key: own, .. }
            | Op::Delete { key: own }
            | Op::Swap { key: own, .. } => own == key,
            Op::DeleteRange { low, high } | Op::Depend { low, high, .. } => {
                &low[..] <= key && key < &high[..]
            }
        }
    }
}

/// A committed transaction, or a write outside of any transaction.
#[derive(Clone, Debug)]
pub(super) struct Committed {
    pub(super) name: usize,
    /// Number of commits before the transaction began, and number of commits up to and including
    /// its own.
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
    /// Whether the transactions are both serializable and locking, so that untracked reads return
    /// the newest data.
    pub(super) reads_newest: bool,
    /// Number of transactions that were rejected.
    pub(super) refused: usize,
    /// Number of operations that failed because the disk was full.
    pub(super) full: usize,
    /// Number of commits made in the middle of a device operation.
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
