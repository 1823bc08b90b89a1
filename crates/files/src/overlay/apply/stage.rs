//! The stage, a directory in the root of the lower in which an apply prepares what appears.

use crate::contract::FileSystem;
use crate::error::{Error, ErrorKind, Result};
use crate::overlay::upper::absent_as_none;
use crate::types::{AttributeChange, FileKind, Inode, NewNode};

/// Marks a stage in which everything is built and durable.
const SEAL: &[u8] = b"sealed";

/// What an apply creates before it sets all attributes.
pub(super) fn bare_node(kind: FileKind) -> NewNode<'static> {
    NewNode {
        kind,
        mode: match kind {
            FileKind::Directory => 0o700,
            FileKind::Symlink => 0o777,
            _ => 0o600,
        },
        user: own_user(),
        group: own_group(),
        device: 0,
        target: b"",
    }
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn own_group() -> u32 {
    rustix::process::getegid().as_raw()
}

/// Returns the stage, if there is one. In a directory that everyone can write, others could put
/// something in its place.
pub(super) fn find(lower: &dyn FileSystem, name: &[u8]) -> Result<Option<Inode>> {
    let Some(found) = absent_as_none(lower.lookup(Inode::ROOT, name))? else {
        return Ok(None);
    };
    let is_own = found.kind == FileKind::Directory && found.user == own_user() && found.mode & 0o077 == 0;
    if is_own {
        return Ok(Some(found.inode));
    }
    let text = format!(
        "\"{}\" was not created by this user for an apply: remove it",
        String::from_utf8_lossy(name)
    );
    Err(Error::new(ErrorKind::NotPermitted, text))
}

/// Creates an empty stage. An access control list that the root gives to new entries must not
/// reach what is built in it.
pub(super) fn create(lower: &dyn FileSystem, name: &[u8]) -> Result<Inode> {
    let stage = lower
        .create(Inode::ROOT, name, &bare_node(FileKind::Directory))?
        .inode;
    for list in [&b"system.posix_acl_default"[..], b"system.posix_acl_access"] {
        match lower.remove_extended_attribute(stage, list) {
            Err(error) if !matches!(error.kind(), ErrorKind::NoAttribute | ErrorKind::NotSupported) => {
                return Err(error);
            }
            _ => {}
        }
    }
    let own = AttributeChange {
        mode: Some(0o700),
        ..AttributeChange::default()
    };
    lower.set_attributes(stage, &own)?;
    Ok(stage)
}

/// Returns whether everything was built.
pub(super) fn is_sealed(lower: &dyn FileSystem, stage: Inode) -> Result<bool> {
    Ok(absent_as_none(lower.lookup(stage, SEAL))?.is_some())
}

/// Marks the stage after making everything that was built durable.
pub(super) fn seal(lower: &dyn FileSystem, stage: Inode) -> Result<()> {
    lower.sync()?;
    lower.create(stage, SEAL, &bare_node(FileKind::Regular))?;
    lower.sync()
}

/// Removes an entry, with everything in it if it is a directory. Missing entries are no error.
pub(in crate::overlay) fn remove_tree(files: &dyn FileSystem, parent: Inode, name: &[u8]) -> Result<()> {
    let mut open = vec![(parent, name.to_vec())];
    while let Some((parent, name)) = open.last().cloned() {
        let Some(found) = absent_as_none(files.lookup(parent, &name))? else {
            open.pop();
            continue;
        };
        if found.kind != FileKind::Directory {
            absent_as_none(files.unlink(parent, &name))?;
            open.pop();
            continue;
        }
        let entries = files.read_directory(found.inode, None, 1024)?;
        if entries.is_empty() {
            absent_as_none(files.remove_directory(parent, &name))?;
            open.pop();
            continue;
        }
        for entry in entries {
            if entry.kind == FileKind::Directory {
                open.push((found.inode, entry.name));
            } else {
                absent_as_none(files.unlink(found.inode, &entry.name))?;
            }
        }
    }
    Ok(())
}
