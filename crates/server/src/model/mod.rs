//! How the types of Redis, and the items of memcached, lie in ordered keys.
//!
//! *Knows*: the record of a key, with type, expiry, and for a collection its number and count; the
//! places of elements; their order.
//!
//! *Does not know*: commands, locks, the store.
//!
//! *Read in this order*: `format.rs` (the bytes), then this file.
//!
//! A collection's elements lie under its *number*, not under its key: RENAME moves one record, DEL
//! deletes one record and one range, and a key that is made again has a new number, so that nothing
//! of the old one can be seen in it.
//!
//! Invariants:
//!
//! - **S4** A number is given to one collection, once in the life of a store.
//! - **S5** Elements under a number are those of the key whose record has it, and as many as its
//!   count says; a list's lie side by side. Beside those of a sorted set lie its counts.

pub(crate) mod format;

use alluvium::Value;
use std::ops::Deref;

/// The type of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    List,
    Set,
    SortedSet,
    Hash,
}

/// What is known of a collection without its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Collection {
    pub(crate) kind: Kind,
    /// When it is gone, in milliseconds since 1970; 0 means never.
    pub(crate) expires_ms: u64,
    /// Where its elements are.
    pub(crate) number: u64,
    /// How many there are; of a sorted set, members.
    pub(crate) count: u64,
    /// A list's first position.
    pub(crate) head: i64,
    /// Whether it has counts by which ranks are found: a large sorted set.
    pub(crate) is_counted: bool,
    /// Whether no record has it yet.
    pub(crate) is_new: bool,
}

impl Collection {
    /// A list's position behind the last.
    pub(crate) fn tail(&self) -> i64 {
        self.head.wrapping_add_unsigned(self.count)
    }
}

/// Bytes that were found, with what stands before them in their record.
#[derive(Debug)]
pub(crate) enum Found<'t> {
    /// In memory that the transaction holds.
    Borrowed(&'t [u8]),
    /// Read for the caller.
    Owned(Value),
}

impl Deref for Found<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Found::Borrowed(bytes) => bytes,
            Found::Owned(value) => value,
        }
    }
}

/// A string's value.
#[derive(Debug)]
pub(crate) struct Text<'t> {
    record: Found<'t>,
    skip: usize,
    pub(crate) expires_ms: u64,
}

impl<'t> Text<'t> {
    /// Returns a string that lies in memory without a record.
    pub(crate) fn of(bytes: &'t [u8], expires_ms: u64) -> Text<'t> {
        Text {
            record: Found::Borrowed(bytes),
            skip: 0,
            expires_ms,
        }
    }
}

impl Text<'_> {
    /// Returns how long its record is.
    pub(crate) fn record_len(&self) -> usize {
        self.record.len()
    }
}

impl Deref for Text<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.record.get(self.skip..).unwrap_or_default()
    }
}

/// What a key holds.
#[derive(Debug)]
pub(crate) enum Entry<'t> {
    Text(Text<'t>),
    Collection(Collection),
}

impl<'t> Entry<'t> {
    /// Reads a record. None if it has expired.
    pub(crate) fn read(record: Found<'t>, now_ms: u64) -> Result<Option<Entry<'t>>, format::Damaged> {
        let entry = match format::decode_record(&record)? {
            format::Record::Text { expires_ms, skip } => Entry::Text(Text {
                record,
                skip,
                expires_ms,
            }),
            format::Record::Collection(collection) => Entry::Collection(collection),
        };
        let expires_ms = entry.expires_ms();
        Ok(if expires_ms != 0 && expires_ms <= now_ms {
            None
        } else {
            Some(entry)
        })
    }

    /// When it is gone; 0 means never.
    pub(crate) fn expires_ms(&self) -> u64 {
        match self {
            Entry::Text(text) => text.expires_ms,
            Entry::Collection(collection) => collection.expires_ms,
        }
    }

    /// The word of TYPE.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Entry::Text(_) => "string",
            Entry::Collection(collection) => match collection.kind {
                Kind::List => "list",
                Kind::Set => "set",
                Kind::SortedSet => "zset",
                Kind::Hash => "hash",
            },
        }
    }
}
