//! Encodings private to this crate, version 4: tree keys with their keyspace numbers, log records,
//! and catalog records.
//!
//! A tree key starts with the encoded number of its keyspace. Each keyspace is therefore a range of
//! tree keys, and the ranges are ordered by keyspace number. Number 0 is the catalog.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  the keyspace's number if it is below 240, else 239 and how many bytes of it follow
//!      1   0-4  the number, most significant byte first, without leading zeros
//!              the user's key
//! ```
//!
//! A log record is a sequence of writes. Each write has its own sequence number. Varints are
//! encoded in LEB128.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  kind: 0 put, 1 delete, 2 merge, 3 delete a range, 4 put with an expiry, 5 ingest,
//!               6 a write to a volatile keyspace: zeros follow, as the length of a key,
//!               7 timed delete: its operand is a chain of merges and deletes
//!      1        varint: length of the key
//!               key of the tree; of a range or an ingest, its first
//!            8  kinds 4 and 7 only: when it expires or deletes, in milliseconds since 1970
//!               varint, not in kind 1: length of value or operand; of a range, of its end;
//!               of an ingest, of its last key
//!               value, operand, the end of the range (not included),
//!               or the last key of the ingest (included)
//! ```
//!
//! Catalog keys follow the prefix of keyspace 0. There are three kinds: `k` followed by the name of
//! a keyspace; `s` followed by the name of a snapshot, with the snapshot's sequence number as the
//! value (8 bytes); and `n`, with the number of the next keyspace as the value (4 bytes). The value
//! of a keyspace is encoded as follows:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  format: 5 where values expire by default, else 4 where compactions gather values,
//!               3 where the structure has options, or 2
//!      1     4  number: neither the catalog's nor the last
//!      5     1  kind of the structure that it is in: `options/kind.rs` lists them
//!      6     1  codec, as in node pointers
//!      7     4  value threshold in bytes; all ones for the default
//!     11        varint: length of the merge operator's name; 0 for none
//!              the name
//!              varint: length of the compaction filter's name; 0 for none
//!              the name
//!              formats 3 and 5: varint: length of the structure's options; 0 for none in format 5
//!              the options, as text
//!           1  format 5: 1 where compactions gather values, else 0
//!           8  format 5: how long a value stays by default, in milliseconds
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use crate::options::kind::StructureKind as Kinds;
use crate::options::{KeyspaceOptions, Structure, ValueOrder};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::{MessageKind, SequenceNumber};
use alluvium_dictionary::record::MAX_KEY;
use alluvium_storage::NodeCodec;
use smallvec::SmallVec;
use std::time::Duration;

/// The number of a keyspace.
pub type KeyspaceId = u32;

/// The keyspace of the store's own records.
pub const CATALOG: KeyspaceId = 0;

/// Keyspace numbers below this take a single byte.
const SHORT: KeyspaceId = 240;

/// Maximum length of the keyspace prefix of a key, in bytes.
pub const MAX_PREFIX: usize = crate::options::paged::MOST_PREFIX;

/// A tree key. Short keys are stored inline, without an allocation.
pub type TreeKey = SmallVec<[u8; SHORT_KEY]>;

/// Maximum length of inline keys, in bytes.
const SHORT_KEY: usize = 64;

/// Returns the prefix of all the keyspace's keys in the tree.
#[allow(clippy::indexing_slicing, reason = "at most all of its bytes are zeros")]
pub fn prefix(keyspace: KeyspaceId) -> TreeKey {
    if keyspace < SHORT {
        return TreeKey::from_slice(&[keyspace as u8]);
    }
    let bytes = keyspace.to_be_bytes();
    let skip = bytes.iter().take_while(|&&byte| byte == 0).count();
    let mut prefix = TreeKey::new();
    prefix.push(SHORT as u8 - 1 + (bytes.len() - skip) as u8);
    prefix.extend_from_slice(&bytes[skip..]);
    prefix
}

/// Returns the length of the keyspace prefix in a tree key, and the number of the keyspace. Returns
/// `None` if the tree key is invalid.
pub fn split(key: &[u8]) -> Option<(usize, KeyspaceId)> {
    let &first = key.first()?;
    if u32::from(first) < SHORT {
        return Some((1, u32::from(first)));
    }
    let len = usize::from(first) + 1 - SHORT as usize;
    let bytes = key.get(1..=len).filter(|bytes| bytes.len() <= 4)?;
    let number = bytes
        .iter()
        .fold(0, |number, &byte| number << 8 | u32::from(byte));
    Some((1 + len, number))
}

/// Returns the tree key of a user's key in the keyspace with the prefix `prefix`.
#[inline]
pub fn tree_key(prefix: &[u8], key: &[u8]) -> TreeKey {
    let (middle, len) = (prefix.len(), prefix.len() + key.len());
    let mut short = [0; SHORT_KEY];
    if let Some((head, tail)) = short
        .get_mut(..len)
        .and_then(|bytes| bytes.split_at_mut_checked(middle))
    {
        head.copy_from_slice(prefix);
        tail.copy_from_slice(key);
        return TreeKey::from_buf_and_len(short, len);
    }
    let mut tree_key = TreeKey::with_capacity(len);
    tree_key.extend_from_slice(prefix);
    tree_key.extend_from_slice(key);
    tree_key
}

/// A decoded write of a log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogWrite<'a> {
    /// A message for a single key. Its sequence number follows from its position in the log record,
    /// so it is not encoded.
    One {
        /// The tree key: the prefix of the keyspace followed by the user's key.
        key: &'a [u8],
        /// The kind of the message.
        kind: MessageKind,
        /// Expiry time in milliseconds since 1970. Zero means that the value never expires.
        expires_ms: u64,
        /// The value of a put or the operand of a merge. Empty for a delete.
        operand: &'a [u8],
    },
    /// A delete of all keys from `start` (inclusive) to `end` (exclusive).
    Range {
        /// Inclusive lower bound, a tree key.
        start: &'a [u8],
        /// Exclusive upper bound, a tree key.
        end: &'a [u8],
    },
    /// An ingest, which attached runs with keys from `first` to `last` to the tree. The checkpoint
    /// that contains these runs is taken immediately afterwards. Without it, the ingest has not
    /// taken place.
    Ingest {
        /// First key in the runs.
        first: &'a [u8],
        /// Last key in the runs.
        last: &'a [u8],
    },
    /// A write to a volatile keyspace. It has only a placeholder in the log, which uses up its
    /// sequence number.
    Volatile,
}

impl LogWrite<'_> {
    /// Checks that all keys in this write are valid tree keys, which a correct checksum does not
    /// guarantee.
    pub(crate) fn check_keys(&self) -> Result<(), String> {
        let (first, last) = match *self {
            LogWrite::One { key, .. } => (key, key),
            LogWrite::Range { start, end } => (start, end),
            LogWrite::Ingest { first, last } => (first, last),
            LogWrite::Volatile => return Ok(()),
        };
        for key in [first, last] {
            if key.len() > MAX_KEY {
                return Err(format!("a key of {} bytes", key.len()));
            }
            if split(key).is_none() {
                let begin = key.get(..key.len().min(8)).unwrap_or_default();
                return Err(format!(
                    "a key without a keyspace number, beginning with {begin:?}"
                ));
            }
        }
        Ok(())
    }
}

const RANGE: u8 = 3;
const EXPIRING: u8 = 4;
const INGEST: u8 = 5;
const VOLATILE: u8 = 6;
const TIMED_DELETE: u8 = 7;

/// Appends a write to a log record. The tree key is passed in two parts, `prefix` and `key`, so
/// that the caller need not join them.
pub fn encode_one(
    out: &mut Vec<u8>,
    prefix: &[u8],
    key: &[u8],
    kind: MessageKind,
    expires_ms: u64,
    operand: &[u8],
) {
    encode_head(out, prefix, key, kind, expires_ms, operand.len());
    if kind != MessageKind::Delete {
        out.extend_from_slice(operand);
    }
}

/// Appends a write without its operand to a log record. The caller must append the operand, which
/// is `operand` bytes long.
#[inline]
pub fn encode_head(
    out: &mut Vec<u8>,
    prefix: &[u8],
    key: &[u8],
    kind: MessageKind,
    expires_ms: u64,
    operand: usize,
) {
    let number = match kind {
        MessageKind::Put if expires_ms != 0 => EXPIRING,
        MessageKind::TimedDelete => TIMED_DELETE,
        kind => kind as u8,
    };
    let mut writer = ByteWriter::new(out);
    writer
        .u8(number)
        .varint((prefix.len() + key.len()) as u64)
        .bytes(prefix)
        .bytes(key);
    if matches!(number, EXPIRING | TIMED_DELETE) {
        writer.u64(expires_ms);
    }
    if kind != MessageKind::Delete {
        writer.varint(operand as u64);
    }
}

/// Appends a range delete to a log record.
pub fn encode_range(out: &mut Vec<u8>, start: &[u8], end: &[u8]) {
    ByteWriter::new(out)
        .u8(RANGE)
        .varint(start.len() as u64)
        .bytes(start)
        .varint(end.len() as u64)
        .bytes(end);
}

/// Appends an ingest to a log record.
pub fn encode_ingest(out: &mut Vec<u8>, first: &[u8], last: &[u8]) {
    ByteWriter::new(out)
        .u8(INGEST)
        .varint(first.len() as u64)
        .bytes(first)
        .varint(last.len() as u64)
        .bytes(last);
}

/// Appends the placeholder for a write to a volatile keyspace to a log record.
pub fn encode_volatile(out: &mut Vec<u8>) {
    ByteWriter::new(out).u8(VOLATILE).varint(0);
}

/// Decodes the writes of a log record.
pub struct LogWriteIter<'a> {
    reader: ByteReader<'a>,
    /// The operand of the last write, if it is not stored in the record itself. Empty otherwise.
    tail: &'a [u8],
}

impl<'a> LogWriteIter<'a> {
    /// Creates an iterator over the writes of a log record.
    pub fn new(record: &'a [u8]) -> LogWriteIter<'a> {
        LogWriteIter {
            reader: ByteReader::new(record),
            tail: &[],
        }
    }

    /// Supplies the operand of the last write if it is not stored in the record itself. An empty
    /// `tail` means that the record is complete.
    pub fn before(self, tail: &'a [u8]) -> LogWriteIter<'a> {
        LogWriteIter { tail, ..self }
    }

    fn part(&mut self) -> Result<&'a [u8], TruncatedInput> {
        let len = self.reader.varint()?;
        self.reader.take(usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn operand(&mut self) -> Result<&'a [u8], TruncatedInput> {
        let len = usize::try_from(self.reader.varint()?).unwrap_or(usize::MAX);
        if self.reader.remaining() == 0 && len == self.tail.len() {
            return Ok(self.tail);
        }
        self.reader.take(len)
    }

    fn read(&mut self) -> Result<LogWrite<'a>, String> {
        let cut = |_| "a truncated write".to_owned();
        let kind = self.reader.u8().map_err(cut)?;
        let key = self.part().map_err(cut)?;
        if kind == RANGE {
            let end = self.part().map_err(cut)?;
            return Ok(LogWrite::Range { start: key, end });
        }
        if kind == INGEST {
            let last = self.part().map_err(cut)?;
            return Ok(LogWrite::Ingest { first: key, last });
        }
        if kind == VOLATILE && key.is_empty() {
            return Ok(LogWrite::Volatile);
        }
        let expires_ms = match kind {
            EXPIRING | TIMED_DELETE => self.reader.u64().map_err(cut)?,
            _ => 0,
        };
        let kind = match kind {
            EXPIRING => MessageKind::Put,
            TIMED_DELETE => MessageKind::TimedDelete,
            number => MessageKind::try_from(number).map_err(|unknown| unknown.to_string())?,
        };
        let operand = match kind {
            MessageKind::Delete => &[],
            _ => self.operand().map_err(cut)?,
        };
        Ok(LogWrite::One {
            key,
            kind,
            expires_ms,
            operand,
        })
    }
}

impl<'a> Iterator for LogWriteIter<'a> {
    type Item = Result<LogWrite<'a>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.remaining() == 0 {
            return None;
        }
        let write = self.read();
        if write.is_err() {
            // Where a malformed write ends is unknown, so no further write can be decoded.
            self.reader = ByteReader::new(&[]);
        }
        Some(write)
    }
}

/// Returns the catalog key of a keyspace.
pub fn keyspace_key(name: &str) -> TreeKey {
    catalog_key(b'k', name)
}

/// Returns the catalog key of a named snapshot.
pub fn snapshot_key(name: &str) -> TreeKey {
    catalog_key(b's', name)
}

/// Returns whether a tree key is the catalog key of a named snapshot.
pub fn is_snapshot_key(key: &[u8]) -> bool {
    key.starts_with(&snapshot_key(""))
}

/// Returns the catalog key of the next keyspace number.
pub fn next_key() -> TreeKey {
    catalog_key(b'n', "")
}

fn catalog_key(kind: u8, name: &str) -> TreeKey {
    let mut key = prefix(CATALOG);
    key.push(kind);
    key.extend_from_slice(name.as_bytes());
    key
}

/// A decoded catalog record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogRecord {
    Keyspace {
        name: String,
        id: KeyspaceId,
        /// Number of the keyspace's structure. A newer version may have added it, so it may be
        /// unknown to this one.
        kind: u8,
        /// The options that the keyspace was created with. They never change.
        options: KeyspaceOptions,
    },
    Snapshot {
        name: String,
        /// Sequence number of the snapshot.
        at: SequenceNumber,
    },
    /// The number that the next new keyspace will get.
    Next(KeyspaceId),
}

const KEYSPACE_FORMAT: u8 = 2;
/// Like `KEYSPACE_FORMAT`, but followed by the structure's options.
const STRUCTURED_FORMAT: u8 = 3;
/// Like `KEYSPACE_FORMAT`, of a keyspace in the tiered tree whose values are gathered.
const GATHERED_FORMAT: u8 = 4;
/// Like `KEYSPACE_FORMAT`, but followed by the structure's options (empty if it has none), the
/// order of separate values (1 if they are gathered, otherwise 0), and the default expiry in
/// milliseconds. Written only for keyspaces with a default expiry.
const EXPIRING_FORMAT: u8 = 5;
const DEFAULT_THRESHOLD: u32 = u32::MAX;

/// Encodes the catalog value that describes a keyspace.
pub fn encode_keyspace(id: KeyspaceId, kind: u8, options: &KeyspaceOptions) -> Vec<u8> {
    let mut out = Vec::new();
    let built_with = options.structure.built_with();
    let expiry_ms = options.default_expiry_ms();
    let format = match (&built_with, options.value_order) {
        _ if expiry_ms.is_some() => EXPIRING_FORMAT,
        (None, ValueOrder::Written) => KEYSPACE_FORMAT,
        (None, ValueOrder::Gathered) => GATHERED_FORMAT,
        (Some(_), _) => STRUCTURED_FORMAT,
    };
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let (operator, filter) = (name(&options.merge_operator), name(&options.compaction_filter));
    ByteWriter::new(&mut out)
        .u8(format)
        .u32(id)
        .u8(kind)
        .u8(options.compression.codec().number())
        .u32(options.value_threshold.unwrap_or(DEFAULT_THRESHOLD))
        .varint(operator.len() as u64)
        .bytes(operator.as_bytes())
        .varint(filter.len() as u64)
        .bytes(filter.as_bytes());
    let text = match format {
        EXPIRING_FORMAT => Some(built_with.unwrap_or_default()),
        _ => built_with,
    };
    if let Some(text) = text {
        ByteWriter::new(&mut out)
            .varint(text.len() as u64)
            .bytes(text.as_bytes());
    }
    if let Some(expiry_ms) = expiry_ms {
        ByteWriter::new(&mut out)
            .u8(u8::from(options.value_order == ValueOrder::Gathered))
            .u64(expiry_ms);
    }
    out
}

/// Encodes the next keyspace number as a catalog value.
pub fn encode_next(id: KeyspaceId) -> [u8; 4] {
    id.to_le_bytes()
}

/// Encodes a named snapshot's sequence number as its catalog value.
pub fn encode_snapshot(at: SequenceNumber) -> [u8; 8] {
    at.to_le_bytes()
}

/// Decodes a catalog record from its tree key and value. The error describes what is malformed.
pub fn decode_catalog(key: &[u8], value: &[u8]) -> Result<CatalogRecord, String> {
    let text =
        |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| "a name that is not UTF-8".to_owned());
    let cut = |_| "a truncated catalog record".to_owned();
    let mut reader = ByteReader::new(value);
    let (kind, name) = split(key)
        .and_then(|(len, _)| key.get(len..)?.split_first())
        .ok_or("a catalog key without a kind")?;
    match *kind {
        b'n' => match reader.u32().map_err(cut)? {
            KeyspaceId::MAX => Err("no number for the next keyspace".to_owned()),
            next => Ok(CatalogRecord::Next(next)),
        },
        b's' => Ok(CatalogRecord::Snapshot {
            name: text(name)?,
            at: reader.u64().map_err(cut)?,
        }),
        b'k' => {
            let format = reader.u8().map_err(cut)?;
            if !(KEYSPACE_FORMAT..=EXPIRING_FORMAT).contains(&format) {
                return Err(format!(
                    "a keyspace in format {format}, but this version supports only {KEYSPACE_FORMAT} to {EXPIRING_FORMAT}: open the store with the version that wrote it, or with a newer one"
                ));
            }
            let id = reader.u32().map_err(cut)?;
            if id == CATALOG || id == KeyspaceId::MAX {
                return Err(format!("a keyspace with the number {id}"));
            }
            let kind = reader.u8().map_err(cut)?;
            let codec = reader.u8().map_err(cut)?;
            let codec = NodeCodec::from_number(codec).ok_or_else(|| format!("codec {codec}"))?;
            let threshold = reader.u32().map_err(cut)?;
            let mut part = || {
                let len = reader.varint()?;
                reader.take(usize::try_from(len).unwrap_or(usize::MAX))
            };
            let operator = text(part().map_err(cut)?)?;
            let filter = text(part().map_err(cut)?)?;
            let structure = match format {
                STRUCTURED_FORMAT | EXPIRING_FORMAT => match text(part().map_err(cut)?)? {
                    text if text.is_empty() && format == EXPIRING_FORMAT => Structure::Tiered,
                    text => structure_of(kind, &text)?,
                },
                _ => Structure::Tiered,
            };
            let (value_order, default_expiry) = match format {
                EXPIRING_FORMAT => decode_order_and_expiry(&mut reader)?,
                GATHERED_FORMAT => (ValueOrder::Gathered, None),
                _ => (ValueOrder::Written, None),
            };
            Ok(CatalogRecord::Keyspace {
                name: text(name)?,
                id,
                kind,
                options: KeyspaceOptions {
                    compression: codec.into(),
                    value_threshold: (threshold != DEFAULT_THRESHOLD).then_some(threshold),
                    merge_operator: (!operator.is_empty()).then_some(operator),
                    compaction_filter: (!filter.is_empty()).then_some(filter),
                    structure,
                    value_order,
                    default_expiry,
                },
            })
        }
        other => Err(format!("a catalog key of kind {other}")),
    }
}

fn decode_order_and_expiry(reader: &mut ByteReader<'_>) -> Result<(ValueOrder, Option<Duration>), String> {
    let cut = |_: TruncatedInput| "a truncated catalog record".to_owned();
    let value_order = match reader.u8().map_err(cut)? {
        0 => ValueOrder::Written,
        1 => ValueOrder::Gathered,
        other => return Err(format!("a value order with the number {other}")),
    };
    let after = Duration::from_millis(reader.u64().map_err(cut)?);
    Ok((value_order, Some(after)))
}

/// Decodes the options of a structure. Returns a default for an unknown structure, because callers
/// reject it elsewhere.
fn structure_of(kind: u8, text: &str) -> Result<Structure, String> {
    let Some(known) = Kinds::of(kind) else {
        return Ok(Structure::Tiered);
    };
    match Structure::of(known, text) {
        Ok(Some(structure)) if structure.built_with().is_some() => Ok(structure),
        Ok(_) => Err(format!(
            "options \"{text}\" for structure kind {kind}, which has no options"
        )),
        Err(error) => Err(format!(
            "a {} keyspace with the options \"{text}\" ({error}): open the store with the version that wrote it, or with a newer one",
            known.name()
        )),
    }
}

#[cfg(test)]
mod tests;
