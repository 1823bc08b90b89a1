//! Messages: updates of keys in a dictionary, each with a sequence number.

use thiserror::Error;

/// A position in the commit order. Commits are numbered consecutively from 1, and 0 precedes all
/// commits.
pub type SequenceNumber = u64;

/// The maximum sequence number. It follows all commits.
pub const MAX_SEQUENCE: SequenceNumber = u64::MAX;

/// The operation that a message performs on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum MessageKind {
    /// Sets the value of the key, until the expiry time if the message has one.
    Put = 0,
    /// Deletes the key, regardless of its older messages.
    Delete = 1,
    /// Uses the keyspace's merge operator to merge the operand into the value of the key.
    Merge = 2,
    /// Deletes the key's older messages once the clock reaches the time of the message, and has no
    /// effect until then. The operand contains merge operands that are older or newer than the
    /// delete, and further timed deletes.
    TimedDelete = 3,
}

impl MessageKind {
    /// Returns whether the value of the key may depend on older messages.
    #[must_use]
    #[inline]
    pub fn needs_older(self) -> bool {
        matches!(self, MessageKind::Merge | MessageKind::TimedDelete)
    }
}

/// The error for a number that does not encode a message kind.
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
            3 => Ok(MessageKind::TimedDelete),
            _ => Err(UnknownKind(number)),
        }
    }
}

/// A message without its key. The messages of a key are ordered from newest to oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Sequence number of the commit that wrote the message.
    pub sequence: SequenceNumber,
    /// The operation that the message performs on its key.
    pub kind: MessageKind,
    /// Expiry time of a put, in milliseconds of the caller's clock. 0 means that the value never
    /// expires. For a timed delete, the time from which it deletes.
    pub expires_ms: u64,
    /// The value of a put, or the operand of a merge or timed delete. Empty for a delete.
    pub operand: &'a [u8],
}

impl<'a> Message<'a> {
    /// Returns a message that puts a value without an expiry time.
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

    /// Returns a message that deletes its key's older messages from the time `deleted_ms` on.
    #[must_use]
    pub fn timed_delete(sequence: SequenceNumber, deleted_ms: u64) -> Message<'a> {
        Message {
            sequence,
            kind: MessageKind::TimedDelete,
            expires_ms: deleted_ms,
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
