//! The path that a store is opened at, looked at before anything is made there.

use crate::Result;
use alluvium_storage::{Error, superblock};
use std::path::Path;

/// What a file system has at its root by itself.
const OF_FILE_SYSTEM: &str = "lost+found";

/// Fails where a store cannot be because a file is there.
///
/// # Errors
/// `NotAStore`, which says so.
pub(crate) fn no_file(path: &Path) -> Result<()> {
    match path.metadata() {
        Ok(found) if !found.is_dir() => Err(not_here(
            path,
            "it is a file, and a store is a directory: name the directory of the store, or a path at which nothing is yet"
                .to_owned(),
        )),
        // Opening it says what else is wrong.
        _ => Ok(()),
    }
}

/// Fails where no store may be created: a directory of something else. What files it has, the
/// store below looks at.
///
/// # Errors
/// As [`no_file`]; `NotAStore`, which names what was found.
pub(crate) fn nothing_else(path: &Path) -> Result<()> {
    no_file(path)?;
    let Ok(entries) = path.read_dir() else {
        return Ok(());
    };
    let mut others = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name == superblock::FILE {
            return Ok(());
        }
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if (!is_file || name.to_str().is_none()) && name != OF_FILE_SYSTEM {
            others.push(name);
        }
    }
    match others.iter().min() {
        Some(name) => Err(not_here(path, superblock::foreign(&name.to_string_lossy()))),
        None => Ok(()),
    }
}

fn not_here(path: &Path, why: String) -> crate::Error {
    Error::NotAStore {
        directory: path.display().to_string(),
        why,
    }
    .into()
}
