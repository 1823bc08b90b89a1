//! The change stream of a store, for followers.

use crate::db::Db;
use crate::error::{Error, Result};
use crate::schema::format::{self, CATALOG, LogWrite, LogWriteIter};
use crate::shared::SharedStore;
use alluvium_base::MessageKind;
use alluvium_dictionary::merge::{ChainElement, OperandChain};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Approximate number of bytes that a single read of the log fetches.
const READ: u64 = 1 << 20;

/// A change to a keyspace. It gives the keyspace's current name, which may not be the name at the
/// time of the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A key was set to a value.
    Put {
        /// Current name of the keyspace.
        keyspace: String,
        /// The key as the program wrote it.
        key: Vec<u8>,
        /// The complete value, regardless of its length.
        value: Vec<u8>,
        /// Expiry time, if the value expires.
        expires: Option<SystemTime>,
    },
    /// A key was deleted. The key need not have had a value.
    Delete {
        /// Current name of the keyspace.
        keyspace: String,
        /// The key as the program wrote it.
        key: Vec<u8>,
    },
    /// A key will be deleted at a time, unless it is written before: see
    /// [`Keyspace::delete_at`](crate::Keyspace::delete_at).
    DeleteAt {
        /// Current name of the keyspace.
        keyspace: String,
        /// The key as the program wrote it.
        key: Vec<u8>,
        /// When the key's value is deleted.
        time: SystemTime,
    },
    /// An operand was merged into the value of a key.
    Merge {
        /// Current name of the keyspace.
        keyspace: String,
        /// The key as the program wrote it.
        key: Vec<u8>,
        /// The operand, which the keyspace's merge operator combines with the value.
        operand: Vec<u8>,
    },
    /// All keys from `start` (inclusive) to `end` (exclusive) were deleted.
    DeleteRange {
        /// Current name of the keyspace.
        keyspace: String,
        /// Lower bound, inclusive. An empty lower bound means that the range starts at the first
        /// key.
        start: Vec<u8>,
        /// Upper bound, exclusive; `None` if the range is unbounded.
        end: Option<Vec<u8>>,
    },
    /// Records were ingested. The log does not contain them, so a follower has to read all keys
    /// from `first` to `last`.
    Ingest {
        /// Current name of the keyspace.
        keyspace: String,
        /// Smallest key of the ingested records.
        first: Vec<u8>,
        /// Largest key of the ingested records.
        last: Vec<u8>,
    },
}

/// The changes of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangeSet {
    /// Sequence number of the commit. To continue after this commit, pass the number to
    /// [`Db::changes_since`](crate::Db::changes_since).
    pub sequence: u64,
    /// The changes, in the order of the batch. Each change has its own sequence number; `sequence`
    /// is the number of the last change.
    pub changes: Vec<Change>,
}

/// An iterator over commits in commit order: see [`Db::changes_since`](crate::Db::changes_since).
/// It returns `None` after the last visible commit, and continues when more commits become visible.
#[must_use]
pub struct ChangeStream {
    shared: Arc<SharedStore>,
    /// Sequence number that the stream has read the log up to.
    after: u64,
    read: VecDeque<ChangeSet>,
}

impl fmt::Debug for ChangeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeStream")
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

impl ChangeStream {
    pub(crate) fn new(shared: &Arc<SharedStore>, after: u64) -> Result<ChangeStream> {
        let mut changes = ChangeStream {
            shared: Arc::clone(shared),
            after,
            read: VecDeque::new(),
        };
        changes.read_more()?;
        Ok(changes)
    }

    fn read_more(&mut self) -> Result<()> {
        let engine = &self.shared.engine;
        engine.is_open()?;
        let wanted = self.after;
        let gone = || Error::ChangesGone {
            after: wanted,
            oldest: engine.store.log().forgotten(),
        };
        while self.read.is_empty() {
            let through = engine.visible();
            if engine.store.log().forgotten() > self.after {
                return Err(gone());
            }
            if through <= self.after {
                return Ok(());
            }
            let mut records = Vec::new();
            let reached = engine
                .store
                .log()
                .read_after(self.after, through, READ, &mut |record| {
                    records.push((
                        record.first + u64::from(record.count) - 1,
                        record.payload.to_vec(),
                    ));
                })?;
            let reached = reached.ok_or_else(gone)?;
            for (sequence, record) in records {
                let changes: Vec<Change> = LogWriteIter::new(&record)
                    .flatten()
                    .flat_map(|write| self.changes(&write))
                    .collect();
                if !changes.is_empty() {
                    self.read.push_back(ChangeSet { sequence, changes });
                }
            }
            self.after = reached;
        }
        Ok(())
    }

    /// Converts a write in the log to changes.
    fn changes(&self, write: &LogWrite<'_>) -> Vec<Change> {
        let LogWrite::One {
            key,
            kind: MessageKind::TimedDelete,
            expires_ms,
            operand,
        } = write
        else {
            return self.change(write).into_iter().collect();
        };
        let Some((keyspace, key)) = self.place(key) else {
            return Vec::new();
        };
        let elements = OperandChain::elements(operand, *expires_ms);
        let changes = elements.into_iter().map(|element| match element {
            ChainElement::Operand(operand) => Change::Merge {
                keyspace: keyspace.clone(),
                key: key.clone(),
                operand: operand.to_vec(),
            },
            ChainElement::DeletedAt(time_ms) => Change::DeleteAt {
                keyspace: keyspace.clone(),
                key: key.clone(),
                time: SystemTime::UNIX_EPOCH + Duration::from_millis(time_ms),
            },
        });
        changes.collect()
    }

    /// Returns the keyspace of a tree key and the key as the program wrote it. Returns `None` if the
    /// key belongs to the store's own records or to an unknown keyspace.
    fn place(&self, key: &[u8]) -> Option<(String, Vec<u8>)> {
        let (len, id) = format::split(key).filter(|&(_, id)| id != CATALOG)?;
        let keyspace = self.shared.engine.catalog.by_id(id)?.name();
        Some((keyspace, key[len..].to_vec()))
    }

    /// Converts a write in the log to a change. Returns `None` if the write belongs to the store's
    /// own records or to an unknown keyspace.
    fn change(&self, write: &LogWrite<'_>) -> Option<Change> {
        let (LogWrite::One { key, .. }
        | LogWrite::Range { start: key, .. }
        | LogWrite::Ingest { first: key, .. }) = write
        else {
            return None;
        };
        let (len, id) = format::split(key).filter(|&(_, id)| id != CATALOG)?;
        let keyspace = self.shared.engine.catalog.by_id(id)?.name();
        let own = |key: &[u8]| key[len.min(key.len())..].to_vec();
        Some(match *write {
            LogWrite::One {
                key,
                kind: MessageKind::Put,
                expires_ms,
                operand,
            } => Change::Put {
                keyspace,
                key: own(key),
                value: operand.to_vec(),
                expires: (expires_ms > 0).then(|| SystemTime::UNIX_EPOCH + Duration::from_millis(expires_ms)),
            },
            LogWrite::One {
                key,
                kind: MessageKind::Delete,
                ..
            } => Change::Delete {
                keyspace,
                key: own(key),
            },
            LogWrite::One { key, operand, .. } => Change::Merge {
                keyspace,
                key: own(key),
                operand: operand.to_vec(),
            },
            LogWrite::Range { start, end } => Change::DeleteRange {
                keyspace,
                start: own(start),
                end: (format::split(end).map(|(_, id)| id) == Some(id)).then(|| own(end)),
            },
            LogWrite::Ingest { first, last } => Change::Ingest {
                keyspace,
                first: own(first),
                last: own(last),
            },
            LogWrite::Volatile => return None,
        })
    }
}

impl Iterator for ChangeStream {
    type Item = Result<ChangeSet>;

    fn next(&mut self) -> Option<Result<ChangeSet>> {
        if self.read.is_empty()
            && let Err(error) = self.read_more()
        {
            return Some(Err(error));
        }
        self.read.pop_front().map(Ok)
    }
}

impl Db {
    /// Returns the commits after a sequence number, in commit order, as long as the log still
    /// contains them. A follower uses them to keep another store, an index or a cache up to date.
    /// It starts from a copy of the store ([`Db::checkpoint_to`] returns the sequence number of the
    /// copy) or from [`Db::sequence`], and remembers the sequence number of the last commit that it
    /// has processed.
    ///
    /// Checkpoints truncate the log, but retain the number of bytes set by
    /// [`Options::keep_log`](crate::Options::keep_log). If a commit that the follower needs has
    /// been truncated, or if it missed commits while the store was closed, it gets an error.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let path = place.path().join("store");
    /// use alluvium::{Change, Options};
    /// let db = Options::new().keep_log(16 << 20).open(&path)?;
    /// let rivers = db.keyspace("rivers")?;
    /// let mut changes = db.changes_since(db.sequence())?;
    /// rivers.put("Elbe", "1094 km")?;
    /// let set = changes.next().expect("a commit came")?;
    /// assert!(matches!(&set.changes[..], [Change::Put { key, .. }] if key == b"Elbe"));
    /// assert_eq!(set.sequence, db.sequence());
    /// assert!(changes.next().is_none(), "for now");
    /// rivers.delete("Elbe")?;
    /// assert!(changes.next().is_some(), "it goes on where it was");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ChangesGone`], which contains the sequence number after which the log is complete;
    /// I/O errors.
    pub fn changes_since(&self, sequence: u64) -> Result<ChangeStream> {
        ChangeStream::new(self.shared(), sequence)
    }
}
