//! A write of a set, and its effect on the key's value in the store.

use crate::locking::ranges::InlineKey;
use crate::read::value::Value;
use alluvium_dictionary::merge::{BadOperand, MergeOperator};
use std::sync::Arc;

/// The combined effect of all writes of a set to one key.
#[derive(Clone, Debug)]
pub(super) enum KeyWrite {
    Put {
        value: Vec<u8>,
        expires_ms: u64,
    },
    Delete,
    /// Operands to merge into the value in the store, combined into one operand.
    Merge {
        operand: Vec<u8>,
    },
    /// Operands merged into a put of the set, combined into one operand. They are kept separate
    /// from the put's value if that value expires, or if the operator cannot merge operands into
    /// it.
    MergeUpon {
        operand: Vec<u8>,
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
}

impl<'w> OwnWrite<'w> {
    /// Returns the value that the set gives the key, or `None` if the set deletes it. For a merge,
    /// returns the operand alone.
    #[must_use]
    pub fn value(self) -> Option<&'w [u8]> {
        match self {
            OwnWrite::Put(value) | OwnWrite::Merged(value) => Some(value),
            OwnWrite::Deleted => None,
        }
    }
}

fn is_over(expires_ms: u64, now_ms: u64) -> bool {
    expires_ms != 0 && expires_ms <= now_ms
}

/// Merges an operand into `base`. Without a `base` value, the operand becomes the value.
fn folded(
    base: Option<Vec<u8>>,
    operand: &[u8],
    operator: &dyn MergeOperator,
) -> Result<Vec<u8>, BadOperand> {
    let Some(mut value) = base else {
        return Ok(operand.to_vec());
    };
    operator.check_base(&value)?;
    operator.fold(&mut value, operand);
    Ok(value)
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
            KeyWrite::Merge { operand } => operand.len(),
            KeyWrite::MergeUpon { operand, value, .. } => operand.len() + value.len(),
        };
        KeyWrite::PER_WRITE + key.len() + bytes
    }

    /// Returns the write that results from merging the operand `newer` into this write.
    pub(super) fn merged(&self, newer: &[u8], operator: &dyn MergeOperator) -> KeyWrite {
        match self {
            KeyWrite::Delete => KeyWrite::Put {
                value: newer.to_vec(),
                expires_ms: 0,
            },
            KeyWrite::Put { value, expires_ms } => match folded(Some(value.clone()), newer, operator) {
                Ok(value) if *expires_ms == 0 => KeyWrite::Put { value, expires_ms: 0 },
                _ => KeyWrite::MergeUpon {
                    operand: newer.to_vec(),
                    value: value.clone(),
                    expires_ms: *expires_ms,
                },
            },
            KeyWrite::Merge { operand } => {
                let mut operand = operand.clone();
                operator.fold(&mut operand, newer);
                KeyWrite::Merge { operand }
            }
            KeyWrite::MergeUpon {
                operand,
                value,
                expires_ms,
            } => {
                let mut operand = operand.clone();
                operator.fold(&mut operand, newer);
                KeyWrite::MergeUpon {
                    operand,
                    value: value.clone(),
                    expires_ms: *expires_ms,
                }
            }
        }
    }

    /// Returns as much of the write's effect as is known without the value in the store.
    pub(super) fn own(&self, now_ms: u64) -> OwnWrite<'_> {
        match self {
            KeyWrite::Put { expires_ms, .. } if is_over(*expires_ms, now_ms) => OwnWrite::Deleted,
            KeyWrite::Put { value, .. } => OwnWrite::Put(value),
            KeyWrite::Delete => OwnWrite::Deleted,
            KeyWrite::Merge { operand } | KeyWrite::MergeUpon { operand, .. } => OwnWrite::Merged(operand),
        }
    }

    /// Returns whether the key's value depends on its value in the store.
    pub(super) fn asks_store(&self) -> bool {
        matches!(self, KeyWrite::Merge { .. })
    }

    /// Applies the write to `base`, the key's value in the store, and returns the value that a
    /// reader at time `now_ms` sees. Returns an error if the operator cannot merge into the value.
    pub(super) fn over(
        &self,
        base: Option<Value>,
        now_ms: u64,
        operator: Option<&dyn MergeOperator>,
    ) -> Result<Option<Value>, BadOperand> {
        let value = match (self, operator) {
            (KeyWrite::Merge { operand }, Some(operator)) => {
                Some(folded(base.map(Value::into_vec), operand, operator)?)
            }
            (
                KeyWrite::MergeUpon {
                    operand,
                    value,
                    expires_ms,
                },
                Some(operator),
            ) => {
                let base = (!is_over(*expires_ms, now_ms)).then(|| value.clone());
                Some(folded(base, operand, operator)?)
            }
            _ => self.own(now_ms).value().map(<[u8]>::to_vec),
        };
        Ok(value.map(|value| Value::new(value.into())))
    }
}
