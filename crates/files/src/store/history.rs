//! The versions of a file that the snapshots of a file system have.

use super::files::Files;
use super::snapshot::FilesSnapshot;
use crate::contract::FileSystem;
use crate::error::{Error, ErrorKind, Result};
use crate::paths::{FilePaths, LastLink};
use crate::records::format;
use crate::types::{Attributes, FileKind, Inode, Timestamp};
use serde::{Deserialize, Serialize};

/// Entries that are read at a time.
const PAGE: usize = 1000;

/// A version of a file or a directory, which one snapshot or several consecutive ones have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    /// The snapshots that have it, in the order in which they were taken.
    pub snapshots: Vec<String>,
    /// Whether the newest state has it.
    pub is_newest: bool,
    /// Its attributes, or `None` if the path does not exist there.
    pub attributes: Option<Attributes>,
    /// Number of entries of a directory.
    pub entries: Option<u64>,
}

/// What distinguishes versions.
#[derive(PartialEq, Eq)]
struct VersionIdentity {
    attributes: Option<Attributes>,
    entries: Option<u64>,
    names: u64,
}

/// Returns the versions of a path, the oldest first.
pub(super) fn history(files: &Files, path: &[u8]) -> Result<Vec<FileVersion>> {
    let mut versions: Vec<(VersionIdentity, FileVersion)> = Vec::new();
    let snapshots = super::snapshot::list_by_age(&files.store);
    let mut states: Vec<(Option<String>, FilesSnapshot)> = Vec::new();
    for name in snapshots {
        match files.open_snapshot(&name) {
            Ok(snapshot) => states.push((Some(name), snapshot)),
            // It was removed just now.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    states.push((None, files.freeze()));
    for (name, state) in states {
        let (identity, attributes) = version_in(&state, path)?;
        if versions.last().is_none_or(|(last, _)| *last != identity) {
            let version = FileVersion {
                snapshots: Vec::new(),
                is_newest: false,
                attributes,
                entries: identity.entries,
            };
            versions.push((identity, version));
        }
        if let Some((_, version)) = versions.last_mut() {
            version.is_newest |= name.is_none();
            version.snapshots.extend(name);
        }
    }
    if versions.iter().all(|(_, version)| version.attributes.is_none()) {
        let text = format!(
            "neither the newest state nor a snapshot has \"{}\"",
            path.escape_ascii()
        );
        return Err(Error::new(ErrorKind::NotFound, text));
    }
    Ok(versions.into_iter().map(|(_, version)| version).collect())
}

fn version_in(state: &FilesSnapshot, path: &[u8]) -> Result<(VersionIdentity, Option<Attributes>)> {
    let found = match state.resolve_with(path, LastLink::Keep) {
        Ok(inode) => state.attributes(inode)?,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            let identity = VersionIdentity {
                attributes: None,
                entries: None,
                names: 0,
            };
            return Ok((identity, None));
        }
        Err(error) => return Err(error),
    };
    let (entries, names) = match found.kind {
        FileKind::Directory => {
            let (entries, names) = listed(state, found.inode)?;
            (Some(entries), names)
        }
        _ => (None, 0),
    };
    // Reads and names elsewhere do not make a version.
    let identity = VersionIdentity {
        attributes: Some(Attributes {
            accessed: Timestamp::default(),
            links: 1,
            ..found.clone()
        }),
        entries,
        names,
    };
    Ok((identity, Some(found)))
}

/// Returns the number of entries of a directory, and a checksum of them.
fn listed(state: &FilesSnapshot, directory: Inode) -> Result<(u64, u64)> {
    let (mut entries, mut checksum) = (0, 0);
    let mut after: Option<Vec<u8>> = None;
    loop {
        let page = state.read_directory(directory, after.as_deref(), PAGE)?;
        let Some(last) = page.last() else {
            return Ok((entries, checksum));
        };
        after = Some(last.name.clone());
        for entry in page {
            let number = format::inode_key(entry.inode);
            checksum = alluvium_base::checksum::seeded_parts(checksum, [&number, &entry.name]);
            entries += 1;
        }
    }
}
