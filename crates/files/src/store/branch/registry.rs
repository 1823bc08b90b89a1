//! Which branches there are, and their beginnings.

use super::{BEGINNING, BranchState, HandleState, OPEN, find_open, snapshot_name, snapshot_prefix};
use crate::error::{Error, ErrorKind, Result};
use crate::operations::{FileStreams, damaged};
use crate::records::branch::format::{self, BranchHeader, BranchNumber};
use crate::records::branch::{BranchBase, BranchKeyspaces, damaged_branch};
use crate::records::{RecordSpace, WalkedValues, branches_keyspace_name};
use crate::store::holds::HoldTable;
use crate::store::listeners::ListenerList;
use crate::store::numbers::InodeNumbers;
use crate::store::open::{check_name, list};
use crate::store::options::FilesOptions;
use crate::store::shared::{FileStore, STRIPES, is_retried};
use crate::store::stream::require_changeable;
use crate::store::ticks::DirectoryTicks;
use crate::types::{Inode, Timestamp};
use alluvium::{Db, Durability, Keyspace, LockTable, Snapshot, Transaction};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Attempts to begin or to end a branch that conflicts with another one that does.
pub(super) const MOST_TRIES: u32 = 100;

/// A branch that exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchSummary {
    /// The name of the branch.
    pub name: String,
    /// The file system whose files it changes.
    pub files: String,
    /// The branch of which it is a branch.
    pub parent: Option<String>,
    /// When it began.
    pub created: Timestamp,
}

/// The branches of a file system, by their names.
pub(super) type BranchHeaders = BTreeMap<String, BranchHeader>;

/// Returns the keyspace of the branches of a file system, if there is one.
pub(super) fn existing_keyspace(db: &Db, files: &str) -> Result<Option<Keyspace>> {
    match db.existing_keyspace(&branches_keyspace_name(files)) {
        Ok(keyspace) => Ok(Some(keyspace)),
        Err(error) if error.kind() == alluvium::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Decodes the header of a branch.
fn decode(key: &[u8], value: &[u8]) -> Result<(String, BranchHeader)> {
    let header = BranchHeader::decode(value).map_err(|damage| damaged_branch(key, damage))?;
    let name = key.get(format::HEADERS.len()..).unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    if header.version > format::VERSION {
        let message = format!(
            "the branch {name:?} has format version {}, and this version of Alluvium reads up to {}: use a newer one",
            header.version,
            format::VERSION
        );
        return Err(Error::new(ErrorKind::NewerVersion, message));
    }
    Ok((name, header))
}

fn headers(
    records: impl Iterator<Item = alluvium::Result<(Vec<u8>, alluvium::Value)>>,
) -> Result<BranchHeaders> {
    let mut found = BranchHeaders::new();
    for record in records {
        let (key, value) = record?;
        let (name, header) = decode(&key, &value)?;
        found.insert(name, header);
    }
    Ok(found)
}

/// Returns the branches of a file system as of a commit.
pub(super) fn headers_at(snapshot: &Snapshot, keyspace: &Keyspace) -> Result<BranchHeaders> {
    headers(snapshot.range(keyspace, format::HEADERS..format::HEADERS_END))
}

/// Returns a branch, on which the transaction depends then, and which it may change.
pub(super) fn header_in(
    transaction: &Transaction,
    keyspace: &Keyspace,
    name: &str,
) -> Result<Option<BranchHeader>> {
    let key = format::header_key(name);
    match transaction.get_for_update(keyspace, &key)? {
        Some(value) => Ok(Some(decode(&key, &value)?.1)),
        None => Ok(None),
    }
}

fn headers_now(db: &Db, files: &str) -> Result<BranchHeaders> {
    match existing_keyspace(db, files)? {
        Some(keyspace) => headers_at(&db.snapshot(), &keyspace),
        None => Ok(BranchHeaders::new()),
    }
}

/// Returns the branches of a file system, in the order of their names.
pub(crate) fn list_names(db: &Db, files: &str) -> Result<Vec<BranchSummary>> {
    let headers = headers_now(db, files)?;
    let name_of = |number: BranchNumber| {
        let mut all = headers.iter();
        let found = all.find(|(_, header)| header.number == number);
        found.map(|(name, _)| name.clone())
    };
    let summaries = headers.iter().map(|(name, header)| BranchSummary {
        name: name.clone(),
        files: files.to_owned(),
        parent: header.parent.and_then(name_of),
        created: header.created,
    });
    Ok(summaries.collect())
}

/// Returns the branches of all file systems of a store, in the order of their names.
pub(crate) fn list_all(db: &Db) -> Result<Vec<BranchSummary>> {
    let mut all = Vec::new();
    for files in list(db) {
        all.extend(list_names(db, &files)?);
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

/// Returns the error that there is no such branch.
pub(super) fn missing(headers: &BranchHeaders, files: &str, name: &str) -> Error {
    let message = match headers.len() {
        0 => format!(
            "there is no branch {name:?} of the files {files:?}, and no other one: begin it with `alluvium tx begin`"
        ),
        _ => {
            let names: Vec<String> = headers.keys().map(|name| format!("{name:?}")).collect();
            format!(
                "there is no branch {name:?} of the files {files:?}: there is {}",
                names.join(", ")
            )
        }
    };
    Error::new(ErrorKind::NotFound, message)
}

pub(super) fn required<'h>(headers: &'h BranchHeaders, files: &str, name: &str) -> Result<&'h BranchHeader> {
    headers.get(name).ok_or_else(|| missing(headers, files, name))
}

fn check_branch_name(name: &str) -> Result<()> {
    check_name(name).map_err(|_| {
        let message =
            format!("{name:?} cannot be the name of a branch: use 1 to 64 letters, digits, `-` and `_`");
        Error::new(ErrorKind::InvalidArgument, message)
    })
}

/// Begins a branch of the files as they are, or of another branch.
pub(crate) fn begin(origin: &Arc<FileStore>, name: &str, parent: Option<&str>) -> Result<()> {
    check_branch_name(name)?;
    require_changeable(origin)?;
    let _alone = BEGINNING.lock();
    let others = list_all(&origin.db)?;
    if let Some(other) = others.iter().find(|other| other.name == name) {
        let message = format!(
            "there is a branch {name:?} of the files {:?} already: commit or abort it, or use another name",
            other.files
        );
        return Err(Error::new(ErrorKind::Exists, message));
    }
    let keyspace = match existing_keyspace(&origin.db, &origin.name)? {
        Some(keyspace) => keyspace,
        None => {
            let options = FilesOptions::default().branches_keyspace();
            let name = branches_keyspace_name(&origin.name);
            origin.db.keyspace_with(&name, &options)?
        }
    };
    remove_unneeded_snapshots(origin, &keyspace)?;
    let mut tries = 0;
    loop {
        match begin_once(origin, &keyspace, name, parent) {
            Err(error) if is_retried(&error) && tries < MOST_TRIES => tries += 1,
            result => return result,
        }
    }
}

fn begin_once(origin: &FileStore, keyspace: &Keyspace, name: &str, parent: Option<&str>) -> Result<()> {
    let transaction = origin.db.begin();
    if header_in(&transaction, keyspace, name)?.is_some() {
        let message = format!("there is a branch {name:?} already: commit or abort it, or use another name");
        return Err(Error::new(ErrorKind::Exists, message));
    }
    let parent = match parent {
        None => None,
        Some(parent) => Some(begin_in_parent(&transaction, origin, keyspace, parent)?),
    };
    let next = transaction.get_for_update(keyspace, format::NEXT_KEY)?;
    let number = match next {
        None => 1,
        Some(next) => crate::records::format::decode_number(&next)
            .map_err(|damage| damaged_branch(format::NEXT_KEY, damage))?,
    };
    let number = BranchNumber(number);
    let after = crate::records::format::number(number.0 + 1);
    transaction.put(keyspace, format::NEXT_KEY, after)?;
    let header = BranchHeader {
        version: format::VERSION,
        number,
        parent,
        created: (origin.clock)(),
    };
    transaction.put(keyspace, format::header_key(name), header.encode())?;
    // If this process ends before the commit, the next beginning removes the snapshot.
    let snapshot = snapshot_name(&origin.name, number);
    origin.db.create_snapshot(&snapshot)?;
    transaction.commit_with(Durability::Disk).map_err(|error| {
        let _ = origin.db.remove_snapshot(&snapshot);
        error.into()
    })
}

/// Returns the number of a branch that gets a branch. Its header is written again, so that this
/// conflicts with its end.
fn begin_in_parent(
    transaction: &Transaction,
    origin: &FileStore,
    keyspace: &Keyspace,
    parent: &str,
) -> Result<BranchNumber> {
    let Some(found) = header_in(transaction, keyspace, parent)? else {
        let headers = headers_at(&origin.db.snapshot(), keyspace)?;
        return Err(missing(&headers, &origin.name, parent));
    };
    if found.parent.is_some() {
        let message = format!(
            "{parent:?} is a branch of a branch and cannot have branches: begin the branch of the files or of another branch"
        );
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    transaction.put(keyspace, format::header_key(parent), found.encode())?;
    Ok(found.number)
}

/// Removes the snapshots of branches that have ended, or never began.
fn remove_unneeded_snapshots(origin: &FileStore, keyspace: &Keyspace) -> Result<()> {
    let headers = headers_at(&origin.db.snapshot(), keyspace)?;
    let needed: Vec<String> = headers
        .values()
        .map(|header| snapshot_name(&origin.name, header.number))
        .collect();
    let prefix = snapshot_prefix(&origin.name);
    for (snapshot, _) in origin.db.snapshots() {
        if snapshot.starts_with(&prefix) && !needed.contains(&snapshot) {
            origin.db.remove_snapshot(&snapshot)?;
        }
    }
    Ok(())
}

/// Returns what a branch began with.
pub(super) fn base_of(
    db: &Db,
    files: &str,
    headers: &BranchHeaders,
    header: &BranchHeader,
) -> Result<BranchBase> {
    let name = snapshot_name(files, header.number);
    let snapshot = db.open_snapshot(&name).map_err(|error| match error.kind() {
        alluvium::ErrorKind::NotFound => {
            let message = format!("the snapshot {name:?} is missing, which a branch needs: abort the branch");
            Error::new(ErrorKind::Damaged, message)
        }
        _ => error.into(),
    })?;
    let parent = match header.parent {
        None => None,
        Some(number) => {
            let found = headers.values().find(|header| header.number == number);
            let found = found.filter(|found| found.parent.is_none()).ok_or_else(|| {
                let message = format!(
                    "the branch {} is missing, of which the branch {} is one: abort the latter",
                    number.0, header.number.0
                );
                Error::new(ErrorKind::Damaged, message)
            })?;
            Some(Box::new((number, base_of(db, files, headers, found)?)))
        }
    };
    Ok(BranchBase { snapshot, parent })
}

/// Opens the files of a branch.
pub(crate) fn open(origin: &Arc<FileStore>, name: &str) -> Result<Arc<FileStore>> {
    let headers = headers_now(&origin.db, &origin.name)?;
    let header = required(&headers, &origin.name, name)?;
    if let Some(found) = find_open(origin, header.number) {
        return Ok(found);
    }
    let branches = existing_keyspace(&origin.db, &origin.name)?
        .ok_or_else(|| missing(&BranchHeaders::new(), &origin.name, name))?;
    let spaces = BranchKeyspaces {
        files: origin.spaces.clone(),
        branches,
    };
    let store = Arc::new(FileStore {
        db: origin.db.clone(),
        name: origin.name.clone(),
        spaces: origin.spaces.clone(),
        layout: origin.layout,
        generation: origin.generation,
        clock: Arc::clone(&origin.clock),
        numbers: InodeNumbers::default(),
        holds: HoldTable::default(),
        listeners: ListenerList::default(),
        locks: LockTable::new(STRIPES),
        ticks: DirectoryTicks::default(),
        streams: FileStreams::default(),
        leftover: Mutex::default(),
        snapshot_changes: AtomicU64::new(0),
        is_copy: AtomicBool::new(false),
        snapshots: Mutex::default(),
        branch: Some(BranchState {
            origin: Arc::clone(origin),
            name: name.to_owned(),
            number: header.number,
            base: base_of(&origin.db, &origin.name, &headers, header)?,
            spaces,
            handles: Mutex::new(HandleState::default()),
        }),
    });
    let mut open = OPEN.lock();
    // Another thread may have opened it meanwhile.
    let found = open.iter().filter_map(std::sync::Weak::upgrade).find(|other| {
        let number = |store: &FileStore| store.branch.as_ref().map(|branch| branch.number);
        other.name == store.name && other.db.is_same_store(&store.db) && number(other) == number(&store)
    });
    if let Some(found) = found {
        return Ok(found);
    }
    open.push(Arc::downgrade(&store));
    drop(open);
    reclaim_own_orphans(&store)?;
    Ok(store)
}

/// Removes the inodes without names that the branch has created, and an earlier process has left.
fn reclaim_own_orphans(store: &FileStore) -> Result<()> {
    use crate::records::format as files;
    let mut keys = Vec::new();
    store.read(|reader| {
        let (low, high) = (files::ORPHANS, Some(files::ORPHANS_END));
        let (space, values) = (RecordSpace::System, WalkedValues::All);
        reader.records.walk(space, low, high, values, &mut |key, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })
    })?;
    let mut orphans: Vec<Inode> = Vec::new();
    for key in keys {
        let inode = files::lettered_inode(&key);
        let inode = inode.map_err(|damage| damaged(RecordSpace::System, &key, damage))?;
        if !store.is_of_base(inode) {
            orphans.push(inode);
        }
    }
    if orphans.is_empty() {
        return Ok(());
    }
    match store.reclaim(store.listeners.next_view(), &orphans) {
        Err(error) if !matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::NoSpace) => Err(error),
        _ => Ok(()),
    }
}
