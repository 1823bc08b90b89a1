//! Directories in the order of names. The operating system lists them in an order of its own, so a
//! directory is read as a whole and sorted when a listing begins, and kept while it continues.

use super::nodes::{FileIdentity, KnownNode, kind, status};
use super::{OrdinaryDirectory, errors};
use crate::error::Result;
use crate::types::{DirectoryEntry, Inode};
use parking_lot::Mutex;
use rustix::fs::{FileType, Mode, OFlags, RawDir, openat};
use rustix::io::{Errno, Result as SystemResult};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Most directories whose listing is kept.
const MOST_LISTINGS: usize = 64;
/// Most entries that are kept of all directories, unless one alone has more.
const MOST_ENTRIES: usize = 1 << 20;

/// Sorted entries of a directory. An entry whose name has been removed has inode 0.
type SortedEntries = Arc<Mutex<Vec<DirectoryEntry>>>;

/// The listings that are under way, the oldest first.
#[derive(Default)]
pub(super) struct ListingCache {
    kept: Mutex<Vec<(Inode, SortedEntries)>>,
}

impl ListingCache {
    fn get(&self, directory: Inode) -> Option<SortedEntries> {
        let kept = self.kept.lock();
        kept.iter()
            .find(|(inode, _)| *inode == directory)
            .map(|(_, entries)| entries.clone())
    }

    fn put(&self, directory: Inode, entries: SortedEntries) {
        let mut kept = self.kept.lock();
        kept.retain(|(inode, _)| *inode != directory);
        kept.push((directory, entries));
        let count = |kept: &[(Inode, SortedEntries)]| {
            kept.iter()
                .map(|(_, entries)| entries.lock().len())
                .sum::<usize>()
        };
        while kept.len() > MOST_LISTINGS || kept.len() > 1 && count(&kept) > MOST_ENTRIES {
            kept.remove(0);
        }
    }

    /// Drops the listing of a directory that has another name now.
    pub(super) fn forget(&self, directory: Inode) {
        self.kept.lock().retain(|(inode, _)| *inode != directory);
    }

    /// Takes a name that was removed out of the listing, which thereby stays exact while all
    /// entries of a large directory are removed.
    pub(super) fn remove(&self, directory: Inode, name: &[u8]) {
        let Some(entries) = self.get(directory) else {
            return;
        };
        let mut entries = entries.lock();
        if let Ok(at) = entries.binary_search_by(|entry| entry.name.as_slice().cmp(name)) {
            entries[at].inode = Inode(0);
        }
    }
}

impl OrdinaryDirectory {
    pub(super) fn list(
        &self,
        inode: Inode,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        let directory = self.directory(inode)?;
        let kept = after.and_then(|_| self.listings.get(inode));
        let entries = match kept {
            Some(entries) => entries,
            None => {
                let entries = self.read_sorted(inode, &directory)?;
                self.listings.put(inode, entries.clone());
                entries
            }
        };
        let entries = entries.lock();
        let first = match after {
            None => 0,
            Some(after) => entries.partition_point(|entry| entry.name.as_slice() <= after),
        };
        let rest = entries[first..].iter().filter(|entry| entry.inode != Inode(0));
        let entries: Vec<DirectoryEntry> = rest.take(limit).cloned().collect();
        self.nodes.note_listed(inode, &entries);
        Ok(entries)
    }

    fn read_sorted(&self, inode: Inode, directory: &OwnedFd) -> Result<SortedEntries> {
        let failed = |errno| errors::inode(errno, "list directory", inode);
        let node = self.nodes.get(inode)?;
        let mut entries = self.read_entries(&node, directory).map_err(failed)?;
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(Arc::new(Mutex::new(entries)))
    }

    fn read_entries(&self, node: &KnownNode, directory: &OwnedFd) -> SystemResult<Vec<DirectoryEntry>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let quietly = if self.keeps_access_times {
            OFlags::NOATIME
        } else {
            OFlags::empty()
        };
        let opened = match openat(directory, ".", flags | quietly, Mode::empty()) {
            Err(Errno::PERM) if self.keeps_access_times => openat(directory, ".", flags, Mode::empty())?,
            other => other?,
        };
        let mut buffer = Vec::with_capacity(64 << 10);
        let mut stream = RawDir::new(&opened, buffer.spare_capacity_mut());
        let mut entries = Vec::new();
        while let Some(entry) = stream.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match status(opened.as_fd(), name) {
                    Ok(found) => FileIdentity::of(&found).kind,
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(errno),
                },
                known => kind(known),
            };
            entries.push(DirectoryEntry {
                name: name.to_vec(),
                inode: self.nodes.number_of_entry(node, entry.ino()),
                kind,
            });
        }
        Ok(entries)
    }
}
