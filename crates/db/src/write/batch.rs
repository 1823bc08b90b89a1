//! Atomic batches of writes.

use crate::engine::CommitRecord;
use crate::error::{Error, Result};
use crate::options::Durability;
use crate::schema::catalog::{BatchKeyspaces, CommitKeyspaces, KeyspaceDefinition};
use crate::schema::format;
use alluvium_base::MessageKind;
use std::time::SystemTime;

/// Maximum length of a key, in bytes.
pub const MAX_KEY: usize = alluvium_dictionary::record::MAX_KEY - format::MAX_PREFIX;

/// Maximum length of a value, in bytes. It is limited because a log record must hold the value and
/// its key.
pub const MAX_VALUE: usize = alluvium_storage::log::MAX_PAYLOAD as usize - MAX_KEY - 64;

/// A sequence of writes that are applied in order and take effect atomically. They may go to any
/// keyspaces of one store.
///
/// The size of a batch is its number of bytes plus 64 for each write. It must not exceed half of
/// the store's memory plus 16 MiB, nor 256 MiB. Writing a larger batch fails with
/// [`Error::TooLong`].
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store"))?;
/// use alluvium::WriteBatch;
/// let accounts = db.keyspace("accounts")?;
/// let journal = db.keyspace("journal")?;
/// let mut batch = WriteBatch::new();
/// batch.put(&accounts, "alice", "90")?;
/// batch.put(&accounts, "bob", "110")?;
/// batch.put(&journal, "2026-11-22", "alice gave bob 10")?;
/// db.write(&batch)?;
/// assert_eq!(accounts.get("bob")?.as_deref(), Some(&b"110"[..]));
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    pub(crate) commit: CommitRecord<'static>,
    pub(crate) durability: Option<Durability>,
    /// Number of the store to which the batch belongs. `None` before the first write.
    pub(crate) store: Option<usize>,
    /// The keyspaces that the batch writes to.
    pub(crate) members: BatchKeyspaces,
}

impl WriteBatch {
    /// Creates an empty batch. Its first write binds it to a store.
    #[must_use]
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Sets the durability of the batch's commit. The default is that of the store.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> WriteBatch {
        self.durability = Some(durability);
        self
    }

    /// Returns the number of writes in the batch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.commit.count as usize
    }

    /// Returns whether the batch contains no writes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all writes from the batch, but keeps the allocated memory for further writes.
    pub fn clear(&mut self) {
        self.commit.record.clear();
        self.commit = CommitRecord {
            record: std::mem::take(&mut self.commit.record),
            ..CommitRecord::default()
        };
        self.store = None;
        self.members = BatchKeyspaces::default();
    }

    /// Returns the keyspaces that the batch writes to.
    pub(crate) fn owners(&self) -> CommitKeyspaces<'_> {
        CommitKeyspaces::Batch(&self.members)
    }
}

/// Minimum length in bytes of an operand that is borrowed instead of copied, in a commit with a
/// single write.
const LENT: usize = 64 << 10;

impl<'a> CommitRecord<'a> {
    /// Adds a write that must remain the commit's only one. A long operand is borrowed instead of
    /// copied.
    pub(crate) fn add_only(
        &mut self,
        prefix: &[u8],
        key: &[u8],
        kind: MessageKind,
        expires_ms: u64,
        operand: &'a [u8],
    ) {
        if operand.len() < LENT {
            return self.add(prefix, key, kind, expires_ms, operand);
        }
        format::encode_head(&mut self.record, prefix, key, kind, expires_ms, operand.len());
        self.tail = operand;
        self.note(kind);
    }

    /// Adds a write of a single key to the commit.
    pub(crate) fn add(
        &mut self,
        prefix: &[u8],
        key: &[u8],
        kind: MessageKind,
        expires_ms: u64,
        operand: &[u8],
    ) {
        format::encode_one(&mut self.record, prefix, key, kind, expires_ms, operand);
        self.note(kind);
    }

    /// Adds a range delete to the commit. The bounds are tree keys, and the range is not empty.
    pub(crate) fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        format::encode_range(&mut self.record, start, end);
        self.count += 1;
    }

    /// Appends the writes of another commit, which must not have a borrowed operand.
    pub(crate) fn append(&mut self, other: &CommitRecord<'_>) {
        assert!(other.tail.is_empty(), "what is added stands in one piece");
        self.record.extend_from_slice(&other.record);
        self.count += other.count;
        for (own, more) in self.kinds.iter_mut().zip(other.kinds) {
            *own += more;
        }
        self.grows |= other.grows;
    }

    fn note(&mut self, kind: MessageKind) {
        self.count += 1;
        self.kinds[kind as usize] += 1;
        self.grows |= kind != MessageKind::Delete;
    }
}

/// Converts an expiry time to milliseconds since 1970. The result is never zero, because zero means
/// that the value does not expire.
pub(crate) fn expiry_ms(expires: SystemTime) -> u64 {
    let since = expires.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX).max(1)
}

pub(crate) fn checked_key(key: &[u8]) -> Result<&[u8]> {
    checked("key", key, MAX_KEY)
}

/// Checks the length of a key that is written to a keyspace, whose limit may be lower than
/// [`MAX_KEY`].
pub(crate) fn checked_key_of<'k>(definition: &KeyspaceDefinition, key: &'k [u8]) -> Result<&'k [u8]> {
    let checked_key = checked_key(key)?;
    checked("key of a paged keyspace", checked_key, definition.longest_key)
}

pub(crate) fn checked_value(value: &[u8]) -> Result<&[u8]> {
    checked("value", value, MAX_VALUE)
}

fn checked<'a>(what: &'static str, bytes: &'a [u8], most: usize) -> Result<&'a [u8]> {
    if bytes.len() > most {
        return Err(Error::TooLong {
            what,
            bytes: bytes.len(),
            most,
        });
    }
    Ok(bytes)
}
