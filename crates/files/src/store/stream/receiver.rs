//! A copy that follows streams.

use super::format::{self, FrameChain, StreamBody, StreamDamage, StreamHead, StreamRecord};
use super::{complete, complete_alone, stamp_in};
use crate::error::{Error, ErrorKind, Result};
use crate::operations::{FileLayout, damaged};
use crate::records::RecordSpace;
use crate::records::format::{self as files, SnapshotStamp};
use crate::store::listeners::ChangeSummary;
use crate::store::options::FilesOptions;
use crate::store::shared::FileStore;
use crate::store::{open, snapshot};
use alluvium::{Db, Durability, Transaction};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What [`SnapshotReceiver::finish`] has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReceivedSnapshot {
    /// The name of the snapshot.
    pub snapshot: String,
    /// The snapshot since which the stream had the changes.
    pub since: Option<String>,
    /// Number of records that were written or deleted.
    pub records: u64,
}

/// Writes a stream of [`SnapshotSender`](crate::SnapshotSender) into a copy of the files, all of it
/// or nothing. A copy can be read, mounted, and sent on; only streams change it, until
/// [`Files::promote`](crate::Files::promote).
pub struct SnapshotReceiver {
    db: Db,
    name: String,
    bytes: Vec<u8>,
    /// Bytes of the stream before those in `bytes`.
    position: u64,
    frames: FrameChain,
    copy: Option<CopyUpdate>,
}

/// A copy while a stream changes it.
struct CopyUpdate {
    store: Arc<FileStore>,
    head: StreamHead,
    transaction: Transaction,
    summary: ChangeSummary,
    records: u64,
    is_complete: bool,
    /// Whether the copy has the state of the stream already.
    is_known: bool,
}

impl fmt::Debug for SnapshotReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotReceiver")
            .field("name", &self.name)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

fn refused(kind: ErrorKind, message: String) -> Error {
    Error::new(kind, message)
}

impl SnapshotReceiver {
    /// Begins to receive a stream into the copy `name`. A stream of a whole snapshot creates it.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that is not 1 to 64 letters, digits, `-` and `_`.
    pub fn new(db: &Db, name: &str) -> Result<SnapshotReceiver> {
        open::check_name(name)?;
        Ok(SnapshotReceiver {
            db: db.clone(),
            name: name.to_owned(),
            bytes: Vec::new(),
            position: 0,
            frames: FrameChain::default(),
            copy: None,
        })
    }

    /// Takes the next bytes of the stream, of any length.
    ///
    /// # Errors
    /// `Damaged`, with the position in the stream; `NewerVersion`; `Exists` if a whole snapshot
    /// arrives where there are files already, or the copy has another snapshot of the same name;
    /// `NotFound` if changes arrive and there is no copy;
    /// `Conflict` if the copy is in another state than the one to which the changes belong;
    /// `NoSpace`; errors of the store. Nothing is changed then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        let all = std::mem::take(&mut self.bytes);
        let mut rest = &all[..];
        loop {
            let next = self.frames.next_body(rest);
            let Some(body) = next.map_err(|damage| self.damaged(damage))? else {
                break;
            };
            let decoded = format::decode_body(body).map_err(|damage| self.damaged(damage))?;
            self.take(decoded)?;
            let length = format::FRAME_HEADER + body.len();
            rest = &rest[length..];
            self.position += length as u64;
        }
        self.bytes = rest.to_vec();
        Ok(())
    }

    fn damaged(&self, damage: StreamDamage) -> Error {
        match damage {
            StreamDamage::Damaged(what) => refused(
                ErrorKind::Damaged,
                format!(
                    "the stream {what}, at byte {}: nothing was changed; send it again",
                    self.position
                ),
            ),
            StreamDamage::Newer(version) => refused(
                ErrorKind::NewerVersion,
                format!(
                    "the stream has format version {version}, and this version of Alluvium reads up to {}: use a newer one",
                    format::VERSION
                ),
            ),
        }
    }

    fn take(&mut self, body: StreamBody<'_>) -> Result<()> {
        let out_of_place = StreamDamage::Damaged("has a part in another place");
        let is_complete = self.copy.as_ref().is_some_and(|copy| copy.is_complete);
        match (body, &mut self.copy) {
            (StreamBody::Head(head), None) => {
                self.copy = Some(CopyUpdate::begin(&self.db, &self.name, head)?);
                Ok(())
            }
            (StreamBody::Records(records), Some(copy)) if !is_complete => {
                records.into_iter().try_for_each(|record| copy.write(record))
            }
            (StreamBody::End(records), Some(copy)) if !is_complete && copy.records == records => {
                copy.is_complete = true;
                Ok(())
            }
            _ => Err(self.damaged(out_of_place)),
        }
    }

    /// Ends the stream: the copy has the state of the snapshot then, durably, and a snapshot of
    /// that name.
    ///
    /// # Errors
    /// `Damaged` if the stream is not complete; `Conflict` if another stream has changed the copy
    /// meanwhile; `Exists` if the copy has got another snapshot of the same name meanwhile;
    /// `NoSpace`; errors of the store.
    pub fn finish(mut self) -> Result<ReceivedSnapshot> {
        match self.copy.take() {
            Some(copy) if copy.is_complete && self.bytes.is_empty() => copy.commit(),
            _ => Err(self.damaged(StreamDamage::Damaged("ends early"))),
        }
    }
}

impl CopyUpdate {
    fn begin(db: &Db, name: &str, head: StreamHead) -> Result<CopyUpdate> {
        let layout = FilesOptions::layout_of(head.block_bytes, head.inline_bytes, head.order)?;
        let store = match open::require(db, name) {
            Ok(()) => open::open(db, name, &FilesOptions::new())?,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if let Some((since, _)) = &head.since {
                    let message = format!(
                        "the stream has the changes since the snapshot {since:?}, and the store has no files {name:?}: send the whole snapshot first"
                    );
                    return Err(refused(ErrorKind::NotFound, message));
                }
                open::create_copy(db, name, layout)?
            }
            Err(error) => return Err(error),
        };
        snapshot::check_name(&head.snapshot)?;
        complete(&store)?;
        let transaction = db.begin();
        // Another stream that is applied at the same time writes this record, too, and `promote`
        // deletes the other one.
        let system = store.spaces.of(RecordSpace::System);
        let now = transaction.get_shared(system, files::STAMP_KEY)?;
        transaction.get_shared(system, files::COPY_KEY)?;
        let now = now.as_deref().map(files::decode_stamp).transpose();
        let now = now.map_err(|found| damaged(RecordSpace::System, files::STAMP_KEY, found))?;
        let is_known = require_base(&store, &head, layout, now)?;
        has_snapshot(&store, &head, is_known)?;
        Ok(CopyUpdate {
            store,
            head,
            transaction,
            summary: ChangeSummary::default(),
            records: 0,
            is_complete: false,
            is_known,
        })
    }

    fn write(&mut self, record: StreamRecord<'_>) -> Result<()> {
        let StreamRecord { space, key, value } = record;
        self.records += 1;
        if self.is_known {
            return Ok(());
        }
        let damage = |found| damaged(space, key, found);
        match space {
            RecordSpace::Names => {
                let (directory, name) = files::split_key(key).map_err(damage)?;
                self.summary.names.insert((directory, name.to_vec()));
                self.summary.inodes.insert(directory);
            }
            RecordSpace::System => {}
            _ => drop(
                self.summary
                    .inodes
                    .insert(files::owner_of(space, key).map_err(damage)?),
            ),
        }
        let keyspace = self.store.spaces.of(space);
        match value {
            Some(value) => self.transaction.put(keyspace, key, value)?,
            None => self.transaction.delete(keyspace, key)?,
        }
        Ok(())
    }

    fn commit(self) -> Result<ReceivedSnapshot> {
        let store = &self.store;
        let alone = store.snapshots.lock();
        if !has_snapshot(store, &self.head, self.is_known)? {
            let system = store.spaces.of(RecordSpace::System);
            self.transaction
                .put(system, files::COPY_KEY, &self.head.snapshot)?;
            self.transaction.commit_with(Durability::Disk)?;
            store
                .listeners
                .announce(store.listeners.next_view(), &self.summary);
            complete_alone(store)?;
        }
        drop(alone);
        let StreamHead { snapshot, since, .. } = self.head;
        Ok(ReceivedSnapshot {
            snapshot,
            since: since.map(|(name, _)| name),
            records: if self.is_known { 0 } else { self.records },
        })
    }
}

/// Returns whether the copy has the snapshot of a stream, and an error if it has another one of
/// this name.
fn has_snapshot(store: &Arc<FileStore>, head: &StreamHead, is_known: bool) -> Result<bool> {
    let name = &head.snapshot;
    if !snapshot::has_name(store, name) {
        return Ok(false);
    }
    let found = snapshot::open(store, name)?;
    if is_known && stamp_in(store, found.as_store_snapshot())? == Some(head.stamp) {
        return Ok(true);
    }
    let message = format!(
        "the copy {:?} has another snapshot {name:?}: remove it from the copy, and send this one again",
        store.name
    );
    Err(refused(ErrorKind::Exists, message))
}

/// Returns whether the files have the state of the stream already, and an error if they do not
/// have the state to which it belongs.
fn require_base(
    store: &FileStore,
    head: &StreamHead,
    layout: FileLayout,
    now: Option<SnapshotStamp>,
) -> Result<bool> {
    let name = &store.name;
    if !store.is_copy.load(Ordering::Acquire) {
        let message = format!(
            "the files {name:?} are not a copy: receive the stream into files of another name, or remove these first"
        );
        return Err(refused(ErrorKind::Exists, message));
    }
    if now == Some(head.stamp) {
        return Ok(true);
    }
    let expected = head.since.as_ref().map(|(_, stamp)| *stamp);
    if store.layout != layout || now.is_some() && expected.is_none() {
        let message = format!(
            "the stream has a whole snapshot, and the store has files {name:?} already: receive it into files of another name, or remove these first"
        );
        return Err(refused(ErrorKind::Exists, message));
    }
    if now != expected {
        let since = head.since.as_ref().map_or("", |(name, _)| name);
        let message = format!(
            "the stream has the changes since the snapshot {since:?}, and the copy {name:?} is in another state: send the changes since the last snapshot that it has received"
        );
        return Err(refused(ErrorKind::Conflict, message));
    }
    Ok(false)
}
