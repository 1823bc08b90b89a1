//! Snapshots of a file system.

use super::listeners::ChangeSummary;
use super::shared::{ChangePlan, FileStore, SpaceEffect, read_only};
use super::stream;
use super::view::impl_file_system;
use crate::check::{self, FilesReport};
use crate::contract::ChangeListener;
use crate::error::{Error, ErrorKind, Result};
use crate::operations::{FileReader, FileWriter};
use crate::records::format::MAX_NAME;
use crate::records::{KEYSPACE_PREFIX, SnapshotRecords};
use crate::types::{
    AllocateMode, AttributeChange, Attributes, DirectoryEntry, Inode, NewNode, RenameMode, SeekTarget,
    SetMode, SpaceStatistics, WritePosition,
};
use crate::with_snapshots::SNAPSHOTS_DIRECTORY;
use alluvium::Snapshot;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A file system as of one commit, for reading.
///
/// ```
/// use alluvium_files::{FilePaths, Files};
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store")).unwrap();
/// let files = Files::open(&db, "home")?;
/// files.write_file(b"/diary", b"Monday", 0o600)?;
/// files.create_snapshot("monday")?;
/// files.write_file(b"/diary", b"Tuesday", 0o600)?;
/// assert_eq!(files.open_snapshot("monday")?.read_file(b"/diary")?, b"Monday");
/// assert_eq!(files.snapshots(), ["monday"]);
/// # Ok::<(), alluvium_files::Error>(())
/// ```
#[derive(Clone)]
pub struct FilesSnapshot {
    store: Arc<FileStore>,
    snapshot: Snapshot,
}

impl fmt::Debug for FilesSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilesSnapshot")
            .field("store", &self.store)
            .field("sequence", &self.snapshot.sequence())
            .finish()
    }
}

/// Returns the name that the snapshot `name` has in the store.
fn name_in_store(store: &FileStore, name: &str) -> String {
    format!("{KEYSPACE_PREFIX}{}/{name}", store.name)
}

fn error_about(name: &str, error: alluvium::Error) -> Error {
    match error.kind() {
        alluvium::ErrorKind::NotFound => {
            Error::new(ErrorKind::NotFound, format!("there is no snapshot \"{name}\""))
        }
        alluvium::ErrorKind::AlreadyExists => error_exists(name),
        _ => error.into(),
    }
}

fn error_exists(name: &str) -> Error {
    let message = format!("there is a snapshot \"{name}\" already: remove it first");
    Error::new(ErrorKind::Exists, message)
}

pub(super) fn has_name(store: &FileStore, name: &str) -> bool {
    let name = name_in_store(store, name);
    store.db.snapshots().iter().any(|(other, _)| *other == name)
}

/// Returns an error for a name that no snapshot can have.
pub(super) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.contains('/') || name.contains('\0') || name == "." || name == ".." {
        let message = format!("{name:?} cannot be the name of a snapshot: use a name of a file");
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    // A mount shows the snapshot as a directory of this name.
    if name.len() > MAX_NAME {
        let message = format!(
            "the name of a snapshot has {} bytes: use at most {MAX_NAME}",
            name.len()
        );
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    Ok(())
}

pub(super) fn create(store: &Arc<FileStore>, name: &str) -> Result<FilesSnapshot> {
    check_name(name)?;
    let _alone = store.snapshots.lock();
    if has_name(store, name) {
        return Err(error_exists(name));
    }
    stream::stamp(store)?;
    create_of_state(store, name)
}

/// Creates a snapshot of a state that has the right stamp.
pub(super) fn create_of_state(store: &Arc<FileStore>, name: &str) -> Result<FilesSnapshot> {
    let created = store.db.create_snapshot(&name_in_store(store, name));
    let snapshot = created.map_err(|error| error_about(name, error))?;
    tell(store, name);
    Ok(FilesSnapshot::new(store, snapshot))
}

/// Tells all views that a snapshot has come or gone.
fn tell(store: &FileStore, name: &str) {
    let mut summary = ChangeSummary::default();
    summary
        .names
        .insert((SNAPSHOTS_DIRECTORY, name.as_bytes().to_vec()));
    summary.inodes.insert(SNAPSHOTS_DIRECTORY);
    store.snapshot_changes.fetch_add(1, Ordering::AcqRel);
    store.listeners.announce(store.listeners.next_view(), &summary);
}

/// Returns whether there is a snapshot of this name and commit.
pub(super) fn has(store: &FileStore, name: &str, sequence: u64) -> bool {
    let name = name_in_store(store, name);
    store.db.snapshots().contains(&(name, sequence))
}

pub(super) fn list(store: &FileStore) -> Vec<String> {
    let prefix = name_in_store(store, "");
    let all = store.db.snapshots().into_iter();
    let mut names: Vec<String> = all
        .filter_map(|(name, _)| Some(name.strip_prefix(&prefix)?.to_owned()))
        .collect();
    names.sort_unstable();
    names
}

/// Returns the names of the snapshots in the order in which they were taken.
pub(super) fn list_by_age(store: &FileStore) -> Vec<String> {
    let prefix = name_in_store(store, "");
    let mut all = store.db.snapshots();
    all.sort_by_key(|(_, sequence)| *sequence);
    all.into_iter()
        .filter_map(|(name, _)| Some(name.strip_prefix(&prefix)?.to_owned()))
        .collect()
}

pub(super) fn open(store: &Arc<FileStore>, name: &str) -> Result<FilesSnapshot> {
    let opened = store.db.open_snapshot(&name_in_store(store, name));
    let snapshot = opened.map_err(|error| error_about(name, error))?;
    Ok(FilesSnapshot::new(store, snapshot))
}

pub(super) fn remove(store: &FileStore, name: &str) -> Result<()> {
    let removed = store.db.remove_snapshot(&name_in_store(store, name));
    removed.map_err(|error| error_about(name, error))?;
    tell(store, name);
    Ok(())
}

impl FilesSnapshot {
    pub(super) fn new(store: &Arc<FileStore>, snapshot: Snapshot) -> FilesSnapshot {
        FilesSnapshot {
            store: Arc::clone(store),
            snapshot,
        }
    }

    pub(super) fn as_store_snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns the sequence number of the commit, as `Db::changes_since` takes it.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.snapshot.sequence()
    }

    /// Reads all records of the snapshot, and returns what contradicts.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn check(&self) -> Result<FilesReport> {
        let records = SnapshotRecords::new(&self.snapshot, &self.store.spaces);
        check::check(&records, self.store.layout, None)
    }

    fn reading<T>(&self, body: impl FnOnce(&FileReader<'_>) -> Result<T>) -> Result<T> {
        self.store.read_in(&self.snapshot, body)
    }

    fn changing<T>(&self, _plan: ChangePlan<'_>, _body: impl Fn(&FileWriter<'_>) -> Result<T>) -> Result<T> {
        Err(read_only("a snapshot"))
    }

    fn target(&self, _parent: Inode, _name: &[u8]) -> Vec<Inode> {
        Vec::new()
    }

    /// Nothing is ever removed from a snapshot.
    fn hold_inode(&self, inode: Inode) -> Result<()> {
        self.reading(|reader| reader.require(inode))
    }

    fn hold_orphan(&self, _inode: Inode) {}

    fn release_inode(&self, _inode: Inode) -> Result<()> {
        Ok(())
    }

    fn sync_store(&self) -> Result<()> {
        Ok(())
    }

    fn space_of_store(&self) -> Result<SpaceStatistics> {
        self.store.space()
    }

    fn listen_to(&self, _listener: Arc<dyn ChangeListener>) {}
}

impl_file_system!(FilesSnapshot, []);
