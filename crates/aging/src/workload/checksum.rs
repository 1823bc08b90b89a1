//! The checksum of a tree, by which trees on several file systems are compared.

use crate::{ErrorContext, Result, StopRequest, check_stop};
use std::fs;
use std::hash::Hasher;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

/// Computes the checksum of all paths, contents and link targets of a tree. The directory `.git` is
/// left out, because Git stores times of files in it.
///
/// # Errors
/// I/O errors, or the job was stopped.
pub fn tree_checksum(root: &Path, stop: StopRequest<'_>) -> Result<u64> {
    let mut paths = Vec::new();
    collect(root, &mut paths)?;
    paths.sort();
    let mut hasher = XxHash3_64::with_seed(0);
    let mut add = |bytes: &[u8]| {
        hasher.write(&(bytes.len() as u64).to_le_bytes());
        hasher.write(bytes);
    };
    for path in paths {
        check_stop(stop)?;
        let relative = path.strip_prefix(root).unwrap_or(&path);
        add(relative.as_os_str().as_bytes());
        let status = fs::symlink_metadata(&path).at("reading the attributes of", &path)?;
        if status.is_symlink() {
            add(fs::read_link(&path).at("reading", &path)?.as_os_str().as_bytes());
        } else if status.is_file() {
            add(&fs::read(&path).at("reading", &path)?);
        }
    }
    Ok(hasher.finish())
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory).at("listing", directory)? {
        let entry = entry.at("listing", directory)?;
        let name = entry.file_name();
        if name == ".git" {
            continue;
        }
        if entry
            .file_type()
            .at("reading the attributes of", directory)?
            .is_dir()
        {
            collect(&entry.path(), paths)?;
        }
        paths.push(entry.path());
    }
    Ok(())
}
