//! Atomically replaces and removes whole directories.

use crate::{DeviceOperation, Error, Result};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, fsync, openat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Replaces the directory `name` with the directory `new`, which must have the same parent. The old
/// directory is removed once the replacement is durable.
///
/// If the file system can exchange names (ext4, XFS, Btrfs, tmpfs), `name` exists at all times.
/// Otherwise, the old directory is briefly called `name.old`.
///
/// # Errors
/// I/O errors, after which `name` is either the complete old directory or the complete new one.
pub fn replace_directory(new: &Path, name: &Path) -> Result<()> {
    let failed = |errno: Errno| failed(DeviceOperation::Rename, name, errno);
    match renameat_with(CWD, new, CWD, name, RenameFlags::EXCHANGE) {
        Ok(()) => {
            sync_parent(name)?;
            remove_directory(new)
        }
        Err(Errno::NOENT) => {
            renameat(CWD, new, CWD, name).map_err(failed)?;
            sync_parent(name)
        }
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            let old = beside(name);
            remove_directory(&old)?;
            renameat(CWD, name, CWD, &old).map_err(failed)?;
            renameat(CWD, new, CWD, name).map_err(failed)?;
            sync_parent(name)?;
            remove_directory(&old)
        }
        Err(errno) => Err(failed(errno)),
    }
}

/// Removes a directory and its files, if it exists. A directory with subdirectories is not removed.
///
/// # Errors
/// I/O errors.
pub fn remove_directory(path: &Path) -> Result<()> {
    let failed = |errno: Errno| failed(DeviceOperation::Remove, path, errno);
    let directory = match open(path) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(failed(errno)),
    };
    for entry in Dir::read_from(&directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let is_dot = matches!(name.to_bytes(), b"." | b"..");
        if is_dot || entry.file_type() == FileType::Directory {
            continue;
        }
        unlinkat(&directory, name, AtFlags::empty()).map_err(failed)?;
    }
    unlinkat(CWD, path, AtFlags::REMOVEDIR).map_err(failed)
}

/// Returns the temporary name of a directory that is being replaced.
fn beside(name: &Path) -> PathBuf {
    let mut old = name.as_os_str().to_owned();
    old.push(".old");
    PathBuf::from(old)
}

fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty())
}

fn sync_parent(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or_else(|| Path::new("."));
    let failed = |errno: Errno| failed(DeviceOperation::SyncDirectory, parent, errno);
    fsync(open(parent).map_err(failed)?).map_err(failed)
}

fn failed(operation: DeviceOperation, path: &Path, errno: Errno) -> Error {
    Error::from_io(
        operation,
        &path.display().to_string(),
        0,
        0,
        io::Error::from(errno),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::FileDirectory;
    use crate::{Directory, FileOptions};

    fn made(path: &Path, file: &str) {
        let directory = FileDirectory::create(path).unwrap();
        directory.create(file, FileOptions::DIRECT).unwrap();
    }

    fn files(path: &Path) -> Vec<String> {
        FileDirectory::open(path).unwrap().list().unwrap()
    }

    #[test]
    fn a_directory_takes_a_name_that_is_free_and_one_that_is_not() {
        let place = tempfile::tempdir().unwrap();
        let (new, name) = (place.path().join("new"), place.path().join("name"));
        for file in ["first", "second"] {
            made(&new, file);
            replace_directory(&new, &name).unwrap();
            assert_eq!(files(&name), [file]);
            assert!(FileDirectory::open(&new).is_err());
        }
        remove_directory(&name).unwrap();
        remove_directory(&name).unwrap();
        assert!(FileDirectory::open(&name).is_err());
    }

    #[test]
    fn nothing_is_replaced_by_a_directory_that_is_not_there() {
        let place = tempfile::tempdir().unwrap();
        let (new, name) = (place.path().join("new"), place.path().join("name"));
        made(&name, "kept");
        assert!(replace_directory(&new, &name).is_err());
        assert_eq!(files(&name), ["kept"]);
    }
}
