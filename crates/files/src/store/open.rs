//! Opening, creating and removing file systems.

use super::branch;
use super::holds::HoldTable;
use super::listeners::ListenerList;
use super::numbers::{self, InodeNumbers};
use super::options::FilesOptions;
use super::shared::{FileStore, STRIPES};
use super::stream;
use super::ticks::DirectoryTicks;
use crate::error::{Error, ErrorKind, Result};
use crate::operations::{FileLayout, FileStreams, damaged};
use crate::records::format::{self, HeaderRecord, InodeRecord};
use crate::records::locality::Locality;
use crate::records::{BRANCHES, FileKeyspaces, KEYSPACE_PREFIX, RecordSpace, keyspace_name};
use crate::types::{FileKind, Inode};
use alluvium::{Db, Durability, LockTable, WriteBatch};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The open file systems of this process. All handles of one share its holds, locks and listeners.
static OPEN: Mutex<Vec<Weak<FileStore>>> = Mutex::new(Vec::new());

/// Longest name of a file system.
const MOST_NAME: usize = 64;

pub(super) fn open(db: &Db, name: &str, options: &FilesOptions) -> Result<Arc<FileStore>> {
    check_name(name)?;
    let mut open = OPEN.lock();
    open.retain(|store| store.strong_count() > 0);
    let found = open.iter().filter_map(Weak::upgrade);
    let found = found
        .into_iter()
        .find(|store| store.name == name && store.db.is_same_store(db));
    if let Some(store) = found {
        return Ok(store);
    }
    let store = Arc::new(open_store(db, name, options)?);
    open.push(Arc::downgrade(&store));
    drop(open);
    reclaim_orphans(&store)?;
    match stream::complete(&store) {
        Err(error) if !matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::NoSpace) => return Err(error),
        _ => {}
    }
    Ok(store)
}

pub(super) fn check_name(name: &str) -> Result<()> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if (1..=MOST_NAME).contains(&name.len()) && name.bytes().all(is_allowed) {
        return Ok(());
    }
    let message = format!(
        "{name:?} cannot be the name of a file system: use 1 to {MOST_NAME} letters, digits, `-` and `_`"
    );
    Err(Error::new(ErrorKind::InvalidArgument, message))
}

fn open_store(db: &Db, name: &str, options: &FilesOptions) -> Result<FileStore> {
    let asked = options.layout()?;
    let (spaces, layout) = match header(db, name)? {
        Some(layout) => (
            FileKeyspaces::existing(db, name, |space| options.keyspace(space))?,
            layout,
        ),
        None => (create(db, name, options, asked, FilesPurpose::Changeable)?, asked),
    };
    let is_copy = spaces.of(RecordSpace::System).get(format::COPY_KEY)?.is_some();
    let generation = match numbers::count_opening(db, &spaces) {
        Ok(generation) => generation,
        // Nothing is created in a store that cannot be written.
        Err(error) if error.kind() == ErrorKind::ReadOnly => 0,
        Err(error) => return Err(error),
    };
    Ok(FileStore {
        db: db.clone(),
        name: name.to_owned(),
        spaces,
        layout,
        generation,
        clock: Arc::clone(&options.clock),
        numbers: InodeNumbers::default(),
        holds: HoldTable::default(),
        listeners: ListenerList::default(),
        locks: LockTable::new(STRIPES),
        ticks: DirectoryTicks::default(),
        streams: FileStreams::default(),
        leftover: Mutex::default(),
        snapshot_changes: AtomicU64::new(0),
        is_copy: AtomicBool::new(is_copy),
        snapshots: Mutex::default(),
        branch: None,
    })
}

/// Returns what a file system was created with, or `None` if there is none.
fn header(db: &Db, name: &str) -> Result<Option<FileLayout>> {
    let Ok(system) = db.existing_keyspace(&keyspace_name(name, RecordSpace::System)) else {
        return Ok(None);
    };
    let Some(header) = system.get(format::HEADER_KEY)? else {
        return Ok(None);
    };
    let header = HeaderRecord::decode(&header)
        .map_err(|damage| damaged(RecordSpace::System, format::HEADER_KEY, damage))?;
    if header.version > format::VERSION {
        let message = format!(
            "the file system {name:?} has format version {}, and this version of Alluvium reads up to {}: use a newer one",
            header.version,
            format::VERSION
        );
        return Err(Error::new(ErrorKind::NewerVersion, message));
    }
    Ok(Some(FileLayout {
        block_bytes: u64::from(header.block_bytes),
        inline_bytes: u64::from(header.inline_bytes),
        order: header.order,
    }))
}

/// Who changes the files of a new file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilesPurpose {
    Changeable,
    /// Only streams do.
    Copy,
}

/// Creates an empty copy, to which a stream is applied.
pub(super) fn create_copy(db: &Db, name: &str, layout: FileLayout) -> Result<Arc<FileStore>> {
    let options = FilesOptions::new();
    create(db, name, &options, layout, FilesPurpose::Copy)?;
    open(db, name, &options)
}

/// Creates the keyspaces, then the root directory with the header. Snapshots that an interrupted
/// removal has left would show nothing of the new file system.
fn create(
    db: &Db,
    name: &str,
    options: &FilesOptions,
    layout: FileLayout,
    purpose: FilesPurpose,
) -> Result<FileKeyspaces> {
    remove_snapshots(db, name)?;
    let spaces = FileKeyspaces::create(db, name, |space| options.keyspace(space))?;
    let now = (options.clock)();
    let header = HeaderRecord {
        version: format::version_of(layout.order),
        order: layout.order,
        block_bytes: layout.block_bytes as u32,
        inline_bytes: layout.inline_bytes as u32,
    };
    let root = InodeRecord {
        kind: FileKind::Directory,
        mode: 0o755,
        user: 0,
        group: 0,
        links: 1,
        generation: 0,
        size: 0,
        blocks: 0,
        tail: 0,
        device: 0,
        is_extended: false,
        created: now,
        accessed: now,
        modified: now,
        changed: now,
        known_as: (0, Vec::new()),
        is_compressed: false,
        locality: Locality::default(),
        inline: None,
    };
    let mut batch = WriteBatch::new().durability(Durability::Disk);
    let system = spaces.of(RecordSpace::System);
    batch.put(system, format::HEADER_KEY, header.encode())?;
    if purpose == FilesPurpose::Copy {
        batch.put(system, format::COPY_KEY, b"")?;
    }
    let key = format::inode_key(Inode::ROOT);
    batch.put(spaces.of(RecordSpace::Inodes), key, root.encode())?;
    for which in [format::MODIFIED, format::CHANGED, format::ACCESSED] {
        let (key, time) = (format::time_key(Inode::ROOT, which), format::ordered_time(now));
        batch.put(spaces.of(RecordSpace::Times), key, time)?;
    }
    db.write(&batch)?;
    Ok(spaces)
}

/// Removes the orphans that an earlier process has left. Those of a copy belong to its state.
pub(super) fn reclaim_orphans(store: &FileStore) -> Result<()> {
    if store.is_copy.load(Ordering::Acquire) {
        return Ok(());
    }
    let keyspace = store.spaces.of(RecordSpace::System);
    let mut orphans = Vec::new();
    for key in keyspace.range(format::ORPHANS..format::ORPHANS_END).keys() {
        let key = key?;
        let inode = format::lettered_inode(&key);
        orphans.push(inode.map_err(|damage| damaged(RecordSpace::System, &key, damage))?);
    }
    if orphans.is_empty() {
        return Ok(());
    }
    match store.reclaim(store.listeners.next_view(), &orphans) {
        Err(error) if !matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::NoSpace) => Err(error),
        _ => Ok(()),
    }
}

pub(super) fn require(db: &Db, name: &str) -> Result<()> {
    if header(db, name)?.is_some() {
        return Ok(());
    }
    Err(missing(name))
}

fn missing(name: &str) -> Error {
    let message = format!("the store has no file system {name:?}: create it first");
    Error::new(ErrorKind::NotFound, message)
}

pub(super) fn owner(keyspace: &str) -> Option<&str> {
    let (name, suffix) = keyspace.strip_prefix(KEYSPACE_PREFIX)?.rsplit_once('.')?;
    let is_known = suffix == BRANCHES || RecordSpace::ALL.iter().any(|space| space.suffix() == suffix);
    (is_known && check_name(name).is_ok()).then_some(name)
}

pub(super) fn list(db: &Db) -> Vec<String> {
    let end = format!(".{}", RecordSpace::System.suffix());
    let keyspaces = db.keyspaces().into_iter();
    let names = keyspaces.filter_map(|keyspace| {
        let name = keyspace.strip_prefix(KEYSPACE_PREFIX)?.strip_suffix(&end)?;
        let is_whole = header(db, name).is_ok_and(|header| header.is_some());
        is_whole.then(|| name.to_owned())
    });
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

/// Deletes the header, so that a removal that is interrupted leaves no half of a file system, and
/// drops the keyspaces.
pub(super) fn remove(db: &Db, name: &str) -> Result<()> {
    check_name(name)?;
    let mut open = OPEN.lock();
    open.retain(|store| {
        let store = store.upgrade();
        store.is_some_and(|store| store.name != name || !store.db.is_same_store(db))
    });
    if let Ok(system) = db.existing_keyspace(&keyspace_name(name, RecordSpace::System)) {
        let mut batch = WriteBatch::new().durability(Durability::Disk);
        batch.delete(&system, format::HEADER_KEY)?;
        db.write(&batch)?;
    }
    branch::forget(db, name);
    remove_snapshots(db, name)?;
    match FileKeyspaces::drop_all(db, name)? {
        true => Ok(()),
        false => Err(missing(name)),
    }
}

/// Removes the named snapshots of a file system, and those of its branches.
fn remove_snapshots(db: &Db, name: &str) -> Result<()> {
    let prefixes = [format!("{KEYSPACE_PREFIX}{name}/"), branch::snapshot_prefix(name)];
    for (snapshot, _) in db.snapshots() {
        if prefixes.iter().any(|prefix| snapshot.starts_with(prefix)) {
            db.remove_snapshot(&snapshot)?;
        }
    }
    Ok(())
}
