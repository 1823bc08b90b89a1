//! Messages: what a dictionary is told about a key, and when.

use thiserror::Error;

/// A place in the commit order. Numbers are dense and begin at 1; 0 is before everything.
pub type Sequence = u64;

/// The sequence number after all others.
pub const LAST: Sequence = u64::MAX;

/// What a message does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// The key has this value from now on (until it expires, where the message says so).
    Put = 0,
    /// The key is gone.
    Delete = 1,
    /// The operand is folded into the value by the keyspace's merge operator.
    Merge = 2,
}

/// A number that is no kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0} is no kind of message")]
pub struct UnknownKind(pub u8);

impl TryFrom<u8> for Kind {
    type Error = UnknownKind;
    fn try_from(number: u8) -> Result<Kind, UnknownKind> {
        match number {
            0 => Ok(Kind::Put),
            1 => Ok(Kind::Delete),
            2 => Ok(Kind::Merge),
            _ => Err(UnknownKind(number)),
        }
    }
}

/// One message, without its key: a key's messages are ordered newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// When it was committed.
    pub sequence: Sequence,
    /// What it does.
    pub kind: Kind,
    /// When the value of a put expires, in milliseconds of the caller's clock; 0 means never.
    pub expires_ms: u64,
    /// The value of a put, the operand of a merge, nothing for a delete.
    pub operand: &'a [u8],
}

impl<'a> Message<'a> {
    /// Returns a put that never expires.
    #[must_use]
    pub fn put(sequence: Sequence, value: &'a [u8]) -> Message<'a> {
        Message {
            sequence,
            kind: Kind::Put,
            expires_ms: 0,
            operand: value,
        }
    }

    /// Returns a delete.
    #[must_use]
    pub fn delete(sequence: Sequence) -> Message<'a> {
        Message {
            sequence,
            kind: Kind::Delete,
            expires_ms: 0,
            operand: &[],
        }
    }

    /// Returns a merge.
    #[must_use]
    pub fn merge(sequence: Sequence, operand: &'a [u8]) -> Message<'a> {
        Message {
            sequence,
            kind: Kind::Merge,
            expires_ms: 0,
            operand,
        }
    }
}
