//! Merge operators: how an operand is folded into what is there.

use std::fmt;
use thiserror::Error;

/// An operand that its operator does not understand.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("operator {operator}: {why}")]
pub struct BadOperand {
    /// The operator's name.
    pub operator: &'static str,
    /// What is wrong with the operand.
    pub why: String,
}

impl BadOperand {
    /// Returns the error of a key that has a value which its operator refuses, under operands.
    #[must_use]
    pub fn under_operands_of(self, key: &[u8]) -> alluvium_storage::Error {
        alluvium_storage::Error::BadBase {
            key: key.to_vec(),
            operator: self.operator,
            why: self.why,
        }
    }
}

/// An associative operator on values: `(a ∘ b) ∘ c = a ∘ (b ∘ c)`, so that operands may be folded
/// together before their base is known. Merging into an absent key makes the operand the value.
pub trait Operator: Send + Sync + fmt::Debug {
    /// Its name, kept with the keyspace so that a store is not opened with another.
    fn name(&self) -> &'static str;

    /// Whether an operand can be folded. Asked when it is written, so that folding cannot fail
    /// later.
    ///
    /// # Errors
    /// [`BadOperand`] with the reason.
    fn check(&self, operand: &[u8]) -> Result<(), BadOperand>;

    /// Whether operands can be folded into a value that was put. Asked when they meet it, by
    /// compactions and readers; where it refuses, both
    /// stay as they are, and who reads the key is told. What [`Operator::check`] takes, if not
    /// said otherwise, so that must take whatever
    /// folding operands gives.
    ///
    /// # Errors
    /// [`BadOperand`] with the reason.
    fn check_base(&self, value: &[u8]) -> Result<(), BadOperand> {
        self.check(value)
    }

    /// Replaces `older` by `older ∘ newer`. Operands that [`Operator::check`] refuses are possible
    /// after damage or a change of operators; the newer one wins then.
    fn fold(&self, older: &mut Vec<u8>, newer: &[u8]);
}

/// Sums of signed 64-bit little-endian integers; they wrap around.
///
/// ```
/// use alluvium_dictionary::merge::{Add, Operator};
/// let mut value = 40i64.to_le_bytes().to_vec();
/// Add.fold(&mut value, &2i64.to_le_bytes());
/// assert_eq!(value, 42i64.to_le_bytes());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Add;

/// Appends the operand to the value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Append;

/// The least, compared as bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Minimum;

/// The greatest, compared as bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Maximum;

fn integer(bytes: &[u8]) -> Option<i64> {
    // tidy: allow format: an operand's meaning is its user's; it is stored as it came
    Some(i64::from_le_bytes(bytes.try_into().ok()?))
}

impl Operator for Add {
    fn name(&self) -> &'static str {
        "add"
    }

    fn check(&self, operand: &[u8]) -> Result<(), BadOperand> {
        let why = || format!("{} bytes are no 64-bit integer", operand.len());
        integer(operand).map(|_| ()).ok_or_else(|| BadOperand {
            operator: self.name(),
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

impl Operator for Append {
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

impl Operator for Minimum {
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

impl Operator for Maximum {
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
