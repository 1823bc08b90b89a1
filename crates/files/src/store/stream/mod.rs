//! Snapshots of files as streams of bytes, for copies in other stores.
//!
//! *Scope*: what a stream contains, and how a copy follows it.
//!
//! *Must not depend on*: how bytes get from one store to the other.
//!
//! A stream has all records of a snapshot, or those that differ from an earlier one. Each snapshot
//! has a stamp, a random number that is a record of the state itself, so a copy has the stamp of
//! the state that it is in, and takes only changes since this state.
//!
//! Invariants:
//!
//! - **T1** A stream changes a copy as a whole, in one transaction, or not at all.
//! - **T2** Only streams change a copy, so it is always in the state of one snapshot.
//! - **T3** The transaction of a stream notes the name of its snapshot. If the process ends before
//!   the snapshot is created, the next opening of the files creates it.

mod differences;
pub(crate) mod format;
mod receiver;
mod sender;

pub use receiver::{ReceivedSnapshot, SnapshotReceiver};
pub use sender::SnapshotSender;
pub(super) use sender::send;

pub(crate) use format::{body_examples, reread};

use super::shared::FileStore;
use crate::error::{Error, ErrorKind, Result};
use crate::operations::damaged;
use crate::records::RecordSpace;
use crate::records::format::{self as files, SnapshotStamp};
use crate::store::{open, snapshot};
use alluvium::{Durability, Snapshot, WriteBatch};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

/// Writes a new stamp into the files, before a snapshot of them is taken. A copy keeps the stamp
/// that came with its state.
pub(super) fn stamp(store: &FileStore) -> Result<()> {
    if store.is_copy.load(Ordering::Acquire) {
        return Ok(());
    }
    let mut batch = WriteBatch::new();
    batch.put(
        store.spaces.of(RecordSpace::System),
        files::STAMP_KEY,
        new_stamp(),
    )?;
    Ok(store.db.write(&batch)?)
}

/// Returns a number that no other snapshot has: random keys of the process, and the time.
fn new_stamp() -> SnapshotStamp {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or_default().as_nanos();
    files::stamp([(); 2].map(|()| {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u128(now);
        hasher.finish()
    }))
}

/// Returns the stamp of the state that a snapshot of the store has, if it has one.
fn stamp_in(store: &FileStore, snapshot: &Snapshot) -> Result<Option<SnapshotStamp>> {
    let stored = snapshot.get(store.spaces.of(RecordSpace::System), files::STAMP_KEY)?;
    let stamp = stored.as_deref().map(files::decode_stamp).transpose();
    stamp.map_err(|found| damaged(RecordSpace::System, files::STAMP_KEY, found))
}

/// Creates the snapshot of the last stream, if the process has ended before it was there.
pub(super) fn complete(store: &Arc<FileStore>) -> Result<()> {
    if !store.is_copy.load(Ordering::Acquire) {
        return Ok(());
    }
    let _alone = store.snapshots.lock();
    complete_alone(store)
}

/// Creates the snapshot of the last stream, if it is missing, while no other one is created.
fn complete_alone(store: &Arc<FileStore>) -> Result<()> {
    let system = store.spaces.of(RecordSpace::System);
    let Some(received) = system.get(files::COPY_KEY)? else {
        return Ok(());
    };
    let name = files::decode_received(&received);
    let name = name.map_err(|found| damaged(RecordSpace::System, files::COPY_KEY, found))?;
    if name.is_empty() {
        return Ok(());
    }
    if !snapshot::has_name(store, name) {
        snapshot::create_of_state(store, name)?;
    }
    let mut batch = WriteBatch::new();
    batch.put(system, files::COPY_KEY, b"")?;
    Ok(store.db.write(&batch)?)
}

/// Makes a copy a file system that can be changed, and to which no stream can be applied any more.
pub(super) fn promote(store: &FileStore) -> Result<()> {
    let _alone = store.snapshots.lock();
    if !store.is_copy.load(Ordering::Acquire) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "the files {:?} are not a copy: they can be changed already",
                store.name
            ),
        ));
    }
    let mut batch = WriteBatch::new().durability(Durability::Disk);
    batch.delete(store.spaces.of(RecordSpace::System), files::COPY_KEY)?;
    store.db.write(&batch)?;
    store.is_copy.store(false, Ordering::Release);
    open::reclaim_orphans(store)
}

/// Returns an error if the files are a copy.
pub(super) fn require_changeable(store: &FileStore) -> Result<()> {
    match store.is_copy.load(Ordering::Acquire) {
        false => Ok(()),
        true => Err(Error::new(
            ErrorKind::ReadOnly,
            format!(
                "the files {:?} are a copy, which only streams change: `files promote` makes them changeable",
                store.name
            ),
        )),
    }
}
