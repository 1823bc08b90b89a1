//! Stored records: a message without its key, whose value may be stored separately.

use crate::values::ValuePointer;
use alluvium_base::{Kind, Message, Sequence};

/// The longest key, in bytes.
pub const MAX_KEY: usize = 64 << 10;

/// A value, or a pointer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The value itself.
    Inline(&'a [u8]),
    /// A pointer into value extents; see [`read_value`](crate::values::read_value).
    Separate(ValuePointer),
}

impl Value<'_> {
    /// Returns the value's length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Value::Inline(value) => value.len(),
            Value::Separate(pointer) => pointer.len as usize,
        }
    }

    /// Returns whether the value is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A message without its key, as stored in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Commit sequence number; 0 once it is older than every reader.
    pub sequence: Sequence,
    /// Kind of the message.
    pub kind: Kind,
    /// Expiry time of a put, in milliseconds of the caller's clock; 0 means never.
    pub expires_ms: u64,
    /// The value of a put or the operand of a merge; empty for a delete.
    pub value: Value<'a>,
}

impl<'a> From<Message<'a>> for Record<'a> {
    fn from(message: Message<'a>) -> Record<'a> {
        Record {
            sequence: message.sequence,
            kind: message.kind,
            expires_ms: message.expires_ms,
            value: Value::Inline(message.operand),
        }
    }
}
