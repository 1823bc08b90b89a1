//! Stored records. A record is a message without its key, and its value may be stored outside its
//! leaf.

use crate::value_log::ValuePointer;
use alluvium_base::{Message, MessageKind, SequenceNumber};

/// Maximum length of a key, in bytes.
pub const MAX_KEY: usize = 64 << 10;

/// The value of a record, or a pointer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordValue<'a> {
    Inline(&'a [u8]),
    /// A pointer into value extents; see [`read_value`](crate::value_log::read_value).
    Separate(ValuePointer),
}

impl RecordValue<'_> {
    /// Returns the value's length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            RecordValue::Inline(value) => value.len(),
            RecordValue::Separate(pointer) => pointer.len as usize,
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
pub struct StoredRecord<'a> {
    /// Commit sequence number of the message, or 0 once every reader is newer than it.
    pub sequence: SequenceNumber,
    pub kind: MessageKind,
    /// Expiry time of a put, in milliseconds of the caller's clock, or 0 if it never expires. For a
    /// timed delete, the time from which it deletes.
    pub expires_ms: u64,
    /// The value of a put, or the operand of a merge or timed delete. Empty for a delete.
    pub value: RecordValue<'a>,
}

impl<'a> From<Message<'a>> for StoredRecord<'a> {
    fn from(message: Message<'a>) -> StoredRecord<'a> {
        StoredRecord {
            sequence: message.sequence,
            kind: message.kind,
            expires_ms: message.expires_ms,
            value: RecordValue::Inline(message.operand),
        }
    }
}
