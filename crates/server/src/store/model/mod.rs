//! The encoding of Redis types and memcached items as keys and values of the ordered store.
//!
//! *Scope*: the record of a key, which contains its type and expiry time, and for a collection its
//! number and its element count; the keys of elements and their order.
//!
//! *Must not depend on*: commands, locks, the store.
//!
//! A collection's elements are stored under its *number* instead of the user's key. RENAME
//! therefore moves a single record, and DEL deletes one record and one key range. A key that is
//! deleted and created again gets a new number, so that elements of the old collection cannot
//! appear in the new one.
//!
//! Invariants:
//!
//! - **S4** Each number is assigned to at most one collection during the life of a store.
//! - **S5** The elements stored under a number belong to the key whose record contains the number,
//!   and the record's count is the number of these elements. The elements of a list have
//!   consecutive positions. A counted sorted set additionally stores its chunk counts under its
//!   number.

pub(crate) mod format;

use crate::error::CommandError;
use alluvium::Value;
use std::borrow::Cow;
use std::ops::Deref;

/// The type of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CollectionKind {
    List,
    Set,
    SortedSet,
    Hash,
}

/// The header of a collection, as stored in its record. It does not contain the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectionHeader {
    pub(crate) kind: CollectionKind,
    /// Expiry time in milliseconds since 1970; 0 for never.
    pub(crate) expires_ms: u64,
    /// The collection number, which is part of the keys of its elements.
    pub(crate) number: u64,
    /// Number of elements. For a sorted set this is the number of members.
    pub(crate) count: u64,
    /// Position of the first element of a list.
    pub(crate) head: i64,
    /// Whether the store contains chunk counts for this collection. Commands compute ranks from
    /// them. Only large sorted sets have them.
    pub(crate) is_counted: bool,
    /// Whether the collection exists only in memory and no record refers to it yet.
    pub(crate) is_new: bool,
}

impl CollectionHeader {
    /// Returns the position after the last element of a list.
    pub(crate) fn tail(&self) -> i64 {
        self.head.wrapping_add_unsigned(self.count)
    }
}

/// The bytes of a record, either borrowed from the transaction or owned.
#[derive(Debug)]
pub(crate) enum RecordBytes<'t> {
    /// Bytes that belong to the transaction.
    Borrowed(&'t [u8]),
    /// A value read from the store for this caller.
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

/// A string key's value, as part of its record.
#[derive(Debug)]
pub(crate) struct StringValue<'t> {
    record: RecordBytes<'t>,
    skip: usize,
    pub(crate) expires_ms: u64,
}

impl<'t> StringValue<'t> {
    /// Returns a string that exists only in memory, outside any record.
    pub(crate) fn of(bytes: &'t [u8], expires_ms: u64) -> StringValue<'t> {
        StringValue {
            record: RecordBytes::Borrowed(bytes),
            skip: 0,
            expires_ms,
        }
    }
}

impl StringValue<'_> {
    /// Returns the length of the string's record in bytes.
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

/// The value of a key: a string or a collection.
#[derive(Debug)]
pub(crate) enum TypedValue<'t> {
    Text(StringValue<'t>),
    Collection(CollectionHeader),
}

impl<'t> TypedValue<'t> {
    /// Decodes a record. Returns `None` if the record expired at `now_ms` or earlier.
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

    /// Returns the expiry time in milliseconds since 1970, or 0 if the key never expires.
    pub(crate) fn expires_ms(&self) -> u64 {
        match self {
            TypedValue::Text(text) => text.expires_ms,
            TypedValue::Collection(collection) => collection.expires_ms,
        }
    }

    /// Returns the type's name as the TYPE command replies it.
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
