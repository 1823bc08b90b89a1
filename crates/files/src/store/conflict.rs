//! The paths of the files that a conflict is about.

use super::shared::FileStore;
use crate::error::Error;
use crate::operations::FileReader;
use crate::records::{ReadDependence, RecordSpace, format};
use crate::types::Inode;
use alluvium::Snapshot;

/// Most directories above a file that are named.
const MOST_STEPS: usize = 4096;

/// Adds paths to the error of a conflict. `before` is what the transaction has found, where
/// files lie that another commit has removed since.
pub(super) fn describe(store: &FileStore, error: Error, before: Option<&Snapshot>) -> Error {
    let (keyspace, key) = match error.store_error() {
        Some(alluvium::Error::Conflict { keyspace, key }) => (keyspace, key),
        Some(alluvium::Error::LockTimedOut { keyspace, key, .. }) => (keyspace, key),
        _ => return error,
    };
    let Some((inode, name)) = concerned(store, keyspace, key) else {
        return error;
    };
    let newest = store.db.snapshot();
    let snapshots = [Some(&newest), before];
    let path = snapshots.into_iter().flatten().find_map(|snapshot| {
        let path = store.read_in(snapshot, |reader| Ok(path_of(reader, inode)));
        path.ok().flatten()
    });
    match path {
        Some(path) => error.with_paths(vec![joined(path, &name)]),
        None => error,
    }
}

/// Adds a name to the path of its directory.
pub(super) fn joined(mut path: Vec<u8>, name: &[u8]) -> Vec<u8> {
    if !name.is_empty() {
        path.extend_from_slice(if path.ends_with(b"/") { b"" } else { b"/" });
        path.extend_from_slice(name);
    }
    path
}

/// Returns the inode that a record of a keyspace is about, and the name if it is that of a name.
fn concerned(store: &FileStore, keyspace: &str, key: &[u8]) -> Option<(Inode, Vec<u8>)> {
    concerned_by(store.spaces.named(keyspace)?, key)
}

/// Returns the inode that a record is about, and the name if it is that of a name in it.
pub(super) fn concerned_by(space: RecordSpace, key: &[u8]) -> Option<(Inode, Vec<u8>)> {
    match space {
        RecordSpace::Names => {
            let (parent, name) = format::split_key(key).ok()?;
            Some((parent, name.to_vec()))
        }
        _ => Some((format::owner_of(space, key).ok()?, Vec::new())),
    }
}

/// Returns a path of an inode, or `None` if it has none.
pub(crate) fn path_of(reader: &FileReader<'_>, inode: Inode) -> Option<Vec<u8>> {
    let mut names = Vec::new();
    let mut at = inode;
    while at != Inode::ROOT {
        let (parent, name) = match reader.place(at, ReadDependence::Untracked) {
            Ok(place) => place,
            Err(_) => {
                let record = reader.load(at, ReadDependence::Untracked).ok()?;
                (Inode(record.known_as.0), record.known_as.1)
            }
        };
        let entry = reader.entry(parent, &name, ReadDependence::Untracked).ok()??;
        if entry.0 != at || names.len() == MOST_STEPS {
            return None;
        }
        names.push(name);
        at = parent;
    }
    let mut path = Vec::new();
    for name in names.iter().rev() {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if path.is_empty() {
        path.push(b'/');
    }
    Some(path)
}
