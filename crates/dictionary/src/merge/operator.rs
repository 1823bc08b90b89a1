//! Merge operators, which fold merge operands into values.

use std::fmt;
use thiserror::Error;

/// The error for an operand or a base value that a merge operator rejects.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("operator {operator}: {why}")]
pub struct BadOperand {
    /// Name of the merge operator, from [`MergeOperator::name`].
    pub operator: String,
    /// The operator's reason for the rejection.
    pub why: String,
}

impl BadOperand {
    /// Converts this error into the one that a reader of `key` receives if the operator rejects the
    /// key's value as the base of its operands.
    #[must_use]
    pub fn under_operands_of(self, key: &[u8]) -> alluvium_storage::Error {
        alluvium_storage::Error::BadBase {
            key: key.to_vec(),
            operator: self.operator,
            why: self.why,
        }
    }
}

/// An associative operator on values: `(a ∘ b) ∘ c = a ∘ (b ∘ c)`. Operands can therefore be folded
/// into each other before their base is known. If a key has no value, the operand becomes its
/// value.
pub trait MergeOperator: Send + Sync + fmt::Debug {
    /// Returns the operator's name, which is stored with the keyspace so that a store cannot be
    /// opened with a different operator. It must not change.
    fn name(&self) -> &str;

    /// Checks whether an operand can be folded. Called before the operand is written, so that
    /// folding cannot fail later.
    ///
    /// # Errors
    /// [`BadOperand`] with the reason if the operand cannot be folded.
    fn check(&self, operand: &[u8]) -> Result<(), BadOperand>;

    /// Checks whether operands can be folded into `value`, the value of a put. Compactions and
    /// readers call this when they find operands above a put. On failure, compactions keep both
    /// unchanged, and readers of the key receive the error. The default implementation calls
    /// [`MergeOperator::check`], which must then accept every result of a fold.
    ///
    /// # Errors
    /// [`BadOperand`] with the reason if operands cannot be folded into the value.
    fn check_base(&self, value: &[u8]) -> Result<(), BadOperand> {
        self.check(value)
    }

    /// Replaces `older` by `older ∘ newer`. After damage or a change of the operator, an operand
    /// may be one that [`MergeOperator::check`] would reject; the result is then the newer operand.
    fn fold(&self, older: &mut Vec<u8>, newer: &[u8]);
}

/// The merge operator that adds signed 64-bit little-endian integers, wrapping on overflow.
///
/// ```
/// use alluvium_dictionary::merge::{AddOperator, MergeOperator};
/// let mut value = 40i64.to_le_bytes().to_vec();
/// AddOperator.fold(&mut value, &2i64.to_le_bytes());
/// assert_eq!(value, 42i64.to_le_bytes());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct AddOperator;

/// The merge operator that appends the operand to the value.
#[derive(Clone, Copy, Debug, Default)]
pub struct AppendOperator;

/// The merge operator that keeps the lesser of value and operand, in byte order.
#[derive(Clone, Copy, Debug, Default)]
pub struct MinimumOperator;

/// The merge operator that keeps the greater of value and operand, in byte order.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaximumOperator;

fn integer(bytes: &[u8]) -> Option<i64> {
    // tidy: allow format: an operand's meaning is its user's; it is stored as it came
    Some(i64::from_le_bytes(bytes.try_into().ok()?))
}

impl MergeOperator for AddOperator {
    fn name(&self) -> &'static str {
        "add"
    }

    fn check(&self, operand: &[u8]) -> Result<(), BadOperand> {
        let why = || format!("{} bytes are not a 64-bit integer", operand.len());
        integer(operand).map(|_| ()).ok_or_else(|| BadOperand {
            operator: self.name().to_owned(),
            why: why(),
        })
    }

    fn fold(&self, older: &mut Vec<u8>, newer: &[u8]) {
        let Some(increment) = integer(newer) else {
            older.clear();
            older.extend_from_slice(newer);
            return;
        };
        let sum = integer(older).unwrap_or(0).wrapping_add(increment);
        older.clear();
        // tidy: allow format: an operand's meaning is its user's; it is stored as it came
        older.extend_from_slice(&sum.to_le_bytes());
    }
}

impl MergeOperator for AppendOperator {
    fn name(&self) -> &'static str {
        "append"
    }

    fn check(&self, _operand: &[u8]) -> Result<(), BadOperand> {
        Ok(())
    }

    fn fold(&self, older: &mut Vec<u8>, newer: &[u8]) {
        older.extend_from_slice(newer);
    }
}

fn replace_if(older: &mut Vec<u8>, newer: &[u8], better: bool) {
    if better {
        older.clear();
        older.extend_from_slice(newer);
    }
}

impl MergeOperator for MinimumOperator {
    fn name(&self) -> &'static str {
        "minimum"
    }

    fn check(&self, _operand: &[u8]) -> Result<(), BadOperand> {
        Ok(())
    }

    fn fold(&self, older: &mut Vec<u8>, newer: &[u8]) {
        let better = newer < older.as_slice();
        replace_if(older, newer, better);
    }
}

impl MergeOperator for MaximumOperator {
    fn name(&self) -> &'static str {
        "maximum"
    }

    fn check(&self, _operand: &[u8]) -> Result<(), BadOperand> {
        Ok(())
    }

    fn fold(&self, older: &mut Vec<u8>, newer: &[u8]) {
        let better = newer > older.as_slice();
        replace_if(older, newer, better);
    }
}
