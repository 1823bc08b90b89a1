//! Empties the caches of the kernel before a tree is read.

use crate::{ErrorContext, Result, StopRequest, check_stop};
use rustix::fs::Advice;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The state of the kernel's caches at the begin of a grep test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheState {
    /// The file system was mounted again: no page, inode or name is cached.
    Remounted,
    /// The kernel dropped all clean pages, inodes and names of the machine.
    Dropped,
    /// The kernel was advised to drop the pages of each file. Inodes and names stay cached.
    Advised,
    /// Nothing was dropped.
    Warm,
}

impl CacheState {
    /// Returns the state as a phrase, as in `cold: remounted`.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            CacheState::Remounted => "cold: the file system was remounted",
            CacheState::Dropped => "cold: the kernel dropped the caches of the whole machine",
            CacheState::Advised => "cold: pages were dropped by posix_fadvise; inodes and names stay cached",
            CacheState::Warm => "warm: nothing was dropped",
        }
    }
}

const DROP: &str = "/proc/sys/vm/drop_caches";

/// Writes dirty pages, and drops all clean pages, inodes and names of the machine.
///
/// # Errors
/// I/O errors; only root may drop caches.
pub fn drop_caches() -> Result<()> {
    rustix::fs::sync();
    let path = Path::new(DROP);
    fs::write(path, "3").at("dropping caches with", path)
}

/// Advises the kernel to drop the pages of all files in a tree.
///
/// # Errors
/// I/O errors, or the job was stopped.
pub fn advise(root: &Path, stop: StopRequest<'_>) -> Result<()> {
    let directory = File::open(root).at("opening", root)?;
    rustix::fs::syncfs(&directory).at("syncing", root)?;
    for_each_file(root, stop, &mut |path| {
        let file = File::open(path).at("opening", path)?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).at("dropping pages of", path)
    })
}

/// Calls `visit` for each regular file of a tree, in the order in which `grep -r` reads them: each
/// directory in its order of listing, and a subdirectory where it is listed.
///
/// # Errors
/// I/O errors, those of `visit`, or the job was stopped.
pub fn for_each_file(
    root: &Path,
    stop: StopRequest<'_>,
    visit: &mut dyn FnMut(&Path) -> Result<()>,
) -> Result<()> {
    let status = fs::symlink_metadata(root).at("reading the attributes of", root)?;
    if status.is_file() {
        return visit(root);
    }
    let mut listings = vec![entries(root)?];
    while let Some(listing) = listings.last_mut() {
        check_stop(stop)?;
        match listing.next() {
            None => drop(listings.pop()),
            Some((path, true)) => listings.push(entries(&path)?),
            Some((path, false)) => visit(&path)?,
        }
    }
    Ok(())
}

/// Lists regular files and directories; the flag marks directories.
fn entries(directory: &Path) -> Result<std::vec::IntoIter<(PathBuf, bool)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).at("listing", directory)? {
        let entry = entry.at("listing", directory)?;
        let kind = entry.file_type().at("listing", directory)?;
        if kind.is_dir() || kind.is_file() {
            found.push((entry.path(), kind.is_dir()));
        }
    }
    Ok(found.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_regular_file_is_visited_once_and_links_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        for name in ["one", "a/two", "a/b/three"] {
            fs::write(root.join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("..", root.join("a/up")).unwrap();
        let mut found = Vec::new();
        let mut note = |path: &Path| {
            found.push(path.strip_prefix(root).unwrap().to_owned());
            Ok(())
        };
        for_each_file(root, &|| false, &mut note).unwrap();
        found.sort();
        assert_eq!(found, ["a/b/three", "a/two", "one"].map(PathBuf::from));
        advise(root, &|| false).unwrap();
        let stopped = for_each_file(root, &|| true, &mut |_| Ok(())).unwrap_err();
        assert!(matches!(stopped, crate::Error::Stopped));
    }
}
