//! The encoding of Redis types and memcached items in ordered keys.
//!
//! *Scope*: the record of a key, with type, expiry, and for a collection its number and count; the
//! keys of elements and their order.
//!
//! *Must not depend on*: commands, locks, the store.
//!
//! The keys of a collection's elements contain its *number* instead of its key. RENAME therefore
//! moves one record, and DEL deletes one record and one range. A key that is created again has a
//! new number, so no element of the old collection can appear in it.
//!
//! Invariants:
//!
//! - **S4** A number is given to one collection, once in the life of a store.
//! - **S5** The elements under a number belong to the key whose record holds the number, and there
//!   are as many as its count. The elements of a list have consecutive positions. A counted sorted
//!   set also stores its chunk counts under its number.

pub(crate) mod format;

use crate::error::CommandError;
use alluvium::Value;
use std::borrow::Cow;
use std::ops::Deref;

/// The type of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CollectionKind {
    List,
    Set,
    SortedSet,
    Hash,
}

/// The header of a collection, without its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectionHeader {
    pub(crate) kind: CollectionKind,
    /// Expiry time in milliseconds since 1970; 0 for never.
    pub(crate) expires_ms: u64,
    /// Number that prefixes the keys of its elements.
    pub(crate) number: u64,
    /// Number of elements; for a sorted set, of members.
    pub(crate) count: u64,
    /// Position of a list's first element.
    pub(crate) head: i64,
    /// Whether chunk counts exist for finding ranks, as in a large sorted set.
    pub(crate) is_counted: bool,
    /// Whether it has been created in memory only, so no record refers to it yet.
    pub(crate) is_new: bool,
}

impl CollectionHeader {
    /// Returns the position after a list's last element.
    pub(crate) fn tail(&self) -> i64 {
        self.head.wrapping_add_unsigned(self.count)
    }
}

/// The bytes of a record, borrowed or owned.
#[derive(Debug)]
pub(crate) enum RecordBytes<'t> {
    /// Memory held by the transaction.
    Borrowed(&'t [u8]),
    /// A value read for the caller.
    Owned(Value),
}

impl Deref for RecordBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            RecordBytes::Borrowed(bytes) => bytes,
            RecordBytes::Owned(value) => value,
        }
    }
}

/// The value of a string.
#[derive(Debug)]
pub(crate) struct StringValue<'t> {
    record: RecordBytes<'t>,
    skip: usize,
    pub(crate) expires_ms: u64,
}

impl<'t> StringValue<'t> {
    /// Returns a string in memory that has no record.
    pub(crate) fn of(bytes: &'t [u8], expires_ms: u64) -> StringValue<'t> {
        StringValue {
            record: RecordBytes::Borrowed(bytes),
            skip: 0,
            expires_ms,
        }
    }
}

impl StringValue<'_> {
    /// Returns the length of its record in bytes.
    pub(crate) fn record_len(&self) -> usize {
        self.record.len()
    }
}

impl Deref for StringValue<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.record.get(self.skip..).unwrap_or_default()
    }
}

/// The content of a key.
#[derive(Debug)]
pub(crate) enum TypedValue<'t> {
    Text(StringValue<'t>),
    Collection(CollectionHeader),
}

impl<'t> TypedValue<'t> {
    /// Decodes a record. Returns `None` if it has expired.
    pub(crate) fn read(
        record: RecordBytes<'t>,
        now_ms: u64,
    ) -> Result<Option<TypedValue<'t>>, format::DamagedRecord> {
        let entry = match format::decode_record(&record)? {
            format::DecodedRecord::Text { expires_ms, skip } => TypedValue::Text(StringValue {
                record,
                skip,
                expires_ms,
            }),
            format::DecodedRecord::Collection(collection) => TypedValue::Collection(collection),
        };
        let expires_ms = entry.expires_ms();
        Ok(if expires_ms != 0 && expires_ms <= now_ms {
            None
        } else {
            Some(entry)
        })
    }

    /// Returns the expiry time in milliseconds since 1970; 0 for never.
    pub(crate) fn expires_ms(&self) -> u64 {
        match self {
            TypedValue::Text(text) => text.expires_ms,
            TypedValue::Collection(collection) => collection.expires_ms,
        }
    }

    /// Returns the type name for TYPE.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            TypedValue::Text(_) => "string",
            TypedValue::Collection(collection) => match collection.kind {
                CollectionKind::List => "list",
                CollectionKind::Set => "set",
                CollectionKind::SortedSet => "zset",
                CollectionKind::Hash => "hash",
            },
        }
    }
}

impl From<format::DamagedRecord> for CommandError {
    fn from(damaged: format::DamagedRecord) -> CommandError {
        CommandError::Refused(Cow::Owned(format!("ERR {damaged}")))
    }
}
