//! A write of a set, and its effect on the key's value in the store.

use crate::locking::ranges::InlineKey;
use crate::read::value::Value;
use alluvium_dictionary::merge::{BadOperand, MergeOperator, OperandChain};
use std::sync::Arc;

/// The combined effect of all writes of a set to one key.
#[derive(Clone, Debug)]
pub(super) enum KeyWrite {
    Put {
        value: Vec<u8>,
        expires_ms: u64,
    },
    Delete,
    /// Operands to merge into the value in the store, and timed deletes of it.
    Merge {
        chain: OperandChain,
    },
    /// Operands merged into a put of the set, and timed deletes of it. They are kept separate from
    /// the put's value if that value expires, or if the operator cannot merge operands into it.
    MergeUpon {
        chain: Box<OperandChain>,
        value: Vec<u8>,
        expires_ms: u64,
    },
}

/// The effect of a write set's writes on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnWrite<'w> {
    /// The set gives the key this value.
    Put(&'w [u8]),
    /// The set deletes the key.
    Deleted,
    /// The set merges this operand into the value in the store. [`WriteSet::get`] returns the
    /// result of the merge.
    ///
    /// [`WriteSet::get`]: crate::WriteSet::get
    Merged(&'w [u8]),
    /// The set deletes the key at a later time. [`WriteSet::get`] returns the value until then.
    ///
    /// [`WriteSet::get`]: crate::WriteSet::get
    DeletedLater,
}

impl<'w> OwnWrite<'w> {
    fn above(chain: &'w OperandChain) -> OwnWrite<'w> {
        match chain.newest() {
            Some(operand) if !chain.is_timed() => OwnWrite::Merged(operand),
            _ => OwnWrite::DeletedLater,
        }
    }

    /// Returns the value that the set gives the key, or `None` if the set deletes it, now or later.
    /// For a merge, returns the operand alone.
    #[must_use]
    pub fn value(self) -> Option<&'w [u8]> {
        match self {
            OwnWrite::Put(value) | OwnWrite::Merged(value) => Some(value),
            OwnWrite::Deleted | OwnWrite::DeletedLater => None,
        }
    }
}

fn is_over(expires_ms: u64, now_ms: u64) -> bool {
    expires_ms != 0 && expires_ms <= now_ms
}

/// Applies a chain to `base` at the time `now_ms`.
fn applied(
    chain: &OperandChain,
    base: Option<Vec<u8>>,
    now_ms: u64,
    operator: Option<&dyn MergeOperator>,
) -> Result<Option<Vec<u8>>, BadOperand> {
    let mut chain = chain.clone();
    let base = if chain.pass(now_ms) { None } else { base };
    if let (Some(base), Some(operator)) = (&base, operator)
        && chain.has_operands()
    {
        operator.check_base(base)?;
    }
    Ok(chain.over(base, operator))
}

impl KeyWrite {
    /// Approximate memory of a write in bytes in addition to its key and value, which is the size
    /// of its entry in the map.
    pub(super) const PER_WRITE: usize =
        size_of::<(InlineKey, Arc<KeyWrite>)>() + 2 * size_of::<usize>() + size_of::<KeyWrite>();

    /// Returns a put of the value, or a delete if `value` is `None`.
    pub(super) fn of(value: Option<&[u8]>, expires_ms: u64) -> KeyWrite {
        value.map_or(KeyWrite::Delete, |value| KeyWrite::Put {
            value: value.to_vec(),
            expires_ms,
        })
    }

    /// Returns the memory of the write and its key, in bytes.
    pub(super) fn taken(&self, key: &[u8]) -> usize {
        let bytes = match self {
            KeyWrite::Put { value, .. } => value.len(),
            KeyWrite::Delete => 0,
            KeyWrite::Merge { chain } => chain.memory_bytes(),
            KeyWrite::MergeUpon { chain, value, .. } => chain.memory_bytes() + value.len(),
        };
        KeyWrite::PER_WRITE + key.len() + bytes
    }

    /// Returns the write that results from merging the operand `newer` into this write.
    pub(super) fn merged(&self, newer: &[u8], operator: &dyn MergeOperator) -> KeyWrite {
        self.changed(Some(operator), |chain| chain.merge(newer, operator))
            .unwrap_or_else(|| KeyWrite::of(Some(newer), 0))
    }

    /// Returns the write that results from deleting the effect of this write from the time
    /// `time_ms` on.
    pub(super) fn deleted_at(&self, time_ms: u64, operator: Option<&dyn MergeOperator>) -> KeyWrite {
        self.changed(operator, |chain| chain.delete_at(time_ms, operator))
            .unwrap_or(KeyWrite::Delete)
    }

    /// Returns this write with `change` applied to the chain above it, or `None` if this write is a
    /// delete.
    fn changed(
        &self,
        operator: Option<&dyn MergeOperator>,
        change: impl FnOnce(&mut OperandChain),
    ) -> Option<KeyWrite> {
        let (mut chain, value, expires_ms) = match self {
            KeyWrite::Delete => return None,
            KeyWrite::Merge { chain } => {
                let mut chain = chain.clone();
                change(&mut chain);
                return Some(KeyWrite::Merge { chain });
            }
            KeyWrite::Put { value, expires_ms } => (Box::default(), value, *expires_ms),
            KeyWrite::MergeUpon {
                chain,
                value,
                expires_ms,
            } => (chain.clone(), value, *expires_ms),
        };
        change(&mut chain);
        Some(KeyWrite::upon(chain, value.clone(), expires_ms, operator))
    }

    /// Returns a put with a chain above it. The chain is folded into the value as far as possible.
    fn upon(
        mut chain: Box<OperandChain>,
        mut value: Vec<u8>,
        expires_ms: u64,
        operator: Option<&dyn MergeOperator>,
    ) -> KeyWrite {
        let is_accepted = |operator: &dyn MergeOperator| operator.check_base(&value).is_ok();
        let can_fold = chain.oldest().is_none() || operator.is_some_and(is_accepted);
        let oldest = can_fold.then(|| chain.take_oldest(expires_ms)).flatten();
        let Some((operand, expires_ms)) = oldest else {
            return KeyWrite::MergeUpon {
                chain,
                value,
                expires_ms,
            };
        };
        if let (Some(operand), Some(operator)) = (operand, operator) {
            operator.fold(&mut value, &operand);
        }
        match chain.is_empty() {
            true => KeyWrite::Put { value, expires_ms },
            false => KeyWrite::MergeUpon {
                chain,
                value,
                expires_ms,
            },
        }
    }

    /// Returns as much of the write's effect as is known without the value in the store.
    pub(super) fn own(&self, now_ms: u64) -> OwnWrite<'_> {
        match self {
            KeyWrite::Put { expires_ms, .. } if is_over(*expires_ms, now_ms) => OwnWrite::Deleted,
            KeyWrite::Put { value, .. } => OwnWrite::Put(value),
            KeyWrite::Delete => OwnWrite::Deleted,
            KeyWrite::Merge { chain } => OwnWrite::above(chain),
            KeyWrite::MergeUpon { chain, .. } => OwnWrite::above(chain),
        }
    }

    /// Returns whether the key's value depends on its value in the store.
    pub(super) fn asks_store(&self) -> bool {
        matches!(self, KeyWrite::Merge { .. })
    }

    /// Returns whether the write only merges operands into the value in the store.
    pub(super) fn only_merges(&self) -> bool {
        matches!(self, KeyWrite::Merge { chain } if !chain.is_timed())
    }

    /// Applies the write to `base`, the key's value in the store, and returns the value that a
    /// reader at time `now_ms` sees. Returns an error if the operator cannot merge into the value.
    pub(super) fn over(
        &self,
        base: Option<Value>,
        now_ms: u64,
        operator: Option<&dyn MergeOperator>,
    ) -> Result<Option<Value>, BadOperand> {
        let value = match self {
            KeyWrite::Merge { chain } => applied(chain, base.map(Value::into_vec), now_ms, operator)?,
            KeyWrite::MergeUpon {
                chain,
                value,
                expires_ms,
            } => {
                let base = (!is_over(*expires_ms, now_ms)).then(|| value.clone());
                applied(chain, base, now_ms, operator)?
            }
            KeyWrite::Put { .. } | KeyWrite::Delete => self.own(now_ms).value().map(<[u8]>::to_vec),
        };
        Ok(value.map(|value| Value::new(value.into())))
    }
}
