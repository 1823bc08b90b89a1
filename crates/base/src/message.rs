//! Messages: updates of keys in a dictionary, with their sequence numbers.

use thiserror::Error;

/// A position in the commit order. Numbers are dense and start at 1; 0 precedes all commits.
pub type SequenceNumber = u64;

/// The maximum sequence number, after all commits.
pub const MAX_SEQUENCE: SequenceNumber = u64::MAX;

/// The operation of a message on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum MessageKind {
    /// Sets the value of the key, until it expires if the message has an expiry time.
    Put = 0,
    /// Deletes the key, whatever its older messages are.
    Delete = 1,
    /// An operand that the keyspace's merge operator folds into the value.
    Merge = 2,
}

/// The number does not encode a message kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0} is not a message kind")]
pub struct UnknownKind(pub u8);

impl TryFrom<u8> for MessageKind {
    type Error = UnknownKind;
    fn try_from(number: u8) -> Result<MessageKind, UnknownKind> {
        match number {
            0 => Ok(MessageKind::Put),
            1 => Ok(MessageKind::Delete),
            2 => Ok(MessageKind::Merge),
            _ => Err(UnknownKind(number)),
        }
    }
}

/// One message without its key. The messages of a key are ordered newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Sequence number of the commit.
    pub sequence: SequenceNumber,
    /// What the message does to its key.
    pub kind: MessageKind,
    /// Expiry time of a put, in milliseconds of the caller's clock; 0 means it never expires.
    pub expires_ms: u64,
    /// Value of a put, operand of a merge, empty for a delete.
    pub operand: &'a [u8],
}

impl<'a> Message<'a> {
    /// Returns a put that never expires.
    #[must_use]
    pub fn put(sequence: SequenceNumber, value: &'a [u8]) -> Message<'a> {
        Message {
            sequence,
            kind: MessageKind::Put,
            expires_ms: 0,
            operand: value,
        }
    }

    /// Returns a message that deletes its key.
    #[must_use]
    pub fn delete(sequence: SequenceNumber) -> Message<'a> {
        Message {
            sequence,
            kind: MessageKind::Delete,
            expires_ms: 0,
            operand: &[],
        }
    }

    /// Returns a message that merges `operand` into the value of its key.
    #[must_use]
    pub fn merge(sequence: SequenceNumber, operand: &'a [u8]) -> Message<'a> {
        Message {
            sequence,
            kind: MessageKind::Merge,
            expires_ms: 0,
            operand,
        }
    }
}
