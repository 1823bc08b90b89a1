//! Path checks before a store is created or opened.

use crate::error::Result;
use alluvium_storage::{Error, superblock};
use std::path::Path;

/// A directory that some file systems create at their root. It does not prevent the creation of a
/// store.
const OF_FILE_SYSTEM: &str = "lost+found";

/// Returns an error if the path exists and is not a directory.
///
/// # Errors
/// `NotAStore`, which states that the path is a file.
pub(crate) fn no_file(path: &Path) -> Result<()> {
    match path.metadata() {
        Ok(found) if !found.is_dir() => Err(not_here(
            path,
            "it is a file, but a store is a directory: give the directory of the store, or a path that does not exist yet"
                .to_owned(),
        )),
        // Opening the store reports any other problem with the path.
        _ => Ok(()),
    }
}

/// Returns an error if the directory contains anything that prevents creating a store in it. Files
/// that a store could have created are accepted here, because the storage layer checks them.
///
/// # Errors
/// The errors of [`no_file`]; `NotAStore`, which lists the entries found.
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
