//! Checks of a path before a store is created or opened there.

use crate::error::Result;
use alluvium_storage::{Error, superblock};
use std::path::Path;

/// Directory that some file systems contain at their root. Its presence does not prevent the
/// creation of a store.
const OF_FILE_SYSTEM: &str = "lost+found";

/// Returns an error if the path exists and is not a directory.
///
/// # Errors
/// `NotAStore`, with the reason that the path is a file.
pub(crate) fn no_file(path: &Path) -> Result<()> {
    match path.metadata() {
        Ok(found) if !found.is_dir() => Err(not_here(
            path,
            "it is a file, but a store is a directory: give the directory of the store, or a path that does not exist yet"
                .to_owned(),
        )),
        // Other problems with the path are reported when the store is opened.
        _ => Ok(()),
    }
}

/// Returns an error if the directory contains anything that prevents the creation of a store in it.
/// Files that a store could have created are not rejected here, because the storage layer checks
/// them.
///
/// # Errors
/// The errors of [`no_file`]; `NotAStore`, with the names of the entries found.
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

fn not_here(path: &Path, why: String) -> crate::error::Error {
    Error::NotAStore {
        directory: path.display().to_string(),
        why,
    }
    .into()
}
