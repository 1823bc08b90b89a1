//! Open directories. Programs return to a position in a directory by a number, while names are
//! created and removed; the file system continues after a name. So each open directory records the
//! name behind every number that it has given out.

use super::{Answer, ErrorNumber, MountRequest, NodeReply};
use alluvium_files::{Attributes, DirectoryEntry, ErrorKind, FileKind, Inode};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Offsets: 0 is the beginning, 1 follows `.`, 2 follows `..`, and 3 + n follows the name n of the
/// record.
const FIRST_NAME: u64 = 3;
/// Entries that are asked for at a time: somewhat more than fit in 4 KiB with attributes.
const BATCH: usize = 32;

/// Bytes of names after which a return to the beginning drops the record. Positions from before are
/// then void, as after `rewinddir`, which the kernel does not tell from `seekdir` to the beginning.
const LARGEST_RECORD: usize = 1 << 20;

/// Whether an answer has space for more entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListingSpace {
    /// The entry was added.
    Added,
    /// The entry did not fit.
    Full,
}

/// An entry with the attributes of its inode, if the answer has these.
pub(crate) struct ListedEntry<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) inode: Inode,
    pub(crate) kind: FileKind,
    /// The offset that follows this entry.
    pub(crate) offset: u64,
    /// `None` for `.` and `..`, to which the kernel counts no reference.
    pub(crate) reply: Option<NodeReply>,
}

/// What a listing has of each entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListingDetail {
    Kinds,
    Attributes,
}

/// The names that an open directory has given out, in one allocation.
#[derive(Default)]
struct NameRecord {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl NameRecord {
    fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }

    fn push(&mut self, name: &[u8]) {
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len());
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Returns the offset that follows `name`, which itself follows `before`. A program that
    /// returns to an offset gets the same offsets again.
    fn offset_of(&mut self, before: u64, name: &[u8]) -> u64 {
        let next = index_of(before).map_or(0, |index| index + 1);
        if self.get(next) == Some(name) {
            return FIRST_NAME + next as u64;
        }
        self.push(name);
        FIRST_NAME + self.ends.len() as u64 - 1
    }
}

/// Returns the number of the name that an offset follows.
fn index_of(offset: u64) -> Option<usize> {
    usize::try_from(offset.checked_sub(FIRST_NAME)?).ok()
}

/// The open directories of a mount, by handle.
pub(super) struct OpenDirectories {
    open: RwLock<HashMap<u64, Arc<Mutex<NameRecord>>>>,
    next: AtomicU64,
}

impl OpenDirectories {
    pub(super) fn new() -> OpenDirectories {
        OpenDirectories {
            open: RwLock::default(),
            next: AtomicU64::new(1),
        }
    }

    fn open(&self) -> u64 {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.write().insert(handle, Arc::default());
        handle
    }

    fn get(&self, handle: u64) -> Answer<Arc<Mutex<NameRecord>>> {
        self.open
            .read()
            .get(&handle)
            .cloned()
            .ok_or(ErrorNumber(libc::EBADF))
    }

    fn close(&self, handle: u64) {
        self.open.write().remove(&handle);
    }

    pub(super) fn clear(&self) {
        self.open.write().clear();
    }
}

impl MountRequest<'_> {
    /// Opens a directory and returns a handle.
    pub(crate) fn open_directory(&self, inode: Inode) -> Answer<u64> {
        self.nodes().open(self.files, inode)?;
        Ok(self.server.directories.open())
    }

    pub(crate) fn close_directory(&self, inode: Inode, handle: u64) {
        self.server.directories.close(handle);
        self.nodes().close(self.files, inode);
    }

    /// Lists a directory from `offset` until `add` finds no more space.
    pub(crate) fn list(
        &self,
        directory: Inode,
        handle: u64,
        offset: u64,
        detail: ListingDetail,
        mut add: impl FnMut(&ListedEntry<'_>) -> ListingSpace,
    ) -> Answer<()> {
        let record = self.server.directories.get(handle)?;
        let mut record = record.lock();
        let mut offset = offset;
        if offset == 0 && record.bytes.len() > LARGEST_RECORD {
            record.clear();
        }
        while offset < FIRST_NAME - 1 {
            if self.list_dots(directory, offset, &mut add)? == ListingSpace::Full {
                return Ok(());
            }
            offset += 1;
        }
        loop {
            let after = match index_of(offset) {
                None => None,
                Some(index) => Some(record.get(index).ok_or(ErrorNumber(libc::EINVAL))?.to_vec()),
            };
            let entries = self.files.read_directory(directory, after.as_deref(), BATCH)?;
            if entries.is_empty() {
                return Ok(());
            }
            for entry in &entries {
                let next = record.offset_of(offset, &entry.name);
                if self.list_entry(directory, entry, next, detail, &mut add)? == ListingSpace::Full {
                    return Ok(());
                }
                offset = next;
            }
        }
    }

    fn list_dots(
        &self,
        directory: Inode,
        offset: u64,
        add: &mut impl FnMut(&ListedEntry<'_>) -> ListingSpace,
    ) -> Answer<ListingSpace> {
        let (name, inode): (&[u8], Inode) = match offset {
            0 => (b".", directory),
            _ => (b"..", self.files.parent(directory).unwrap_or(directory)),
        };
        Ok(add(&ListedEntry {
            name,
            inode,
            kind: FileKind::Directory,
            offset: offset + 1,
            reply: None,
        }))
    }

    fn list_entry(
        &self,
        directory: Inode,
        entry: &DirectoryEntry,
        offset: u64,
        detail: ListingDetail,
        add: &mut impl FnMut(&ListedEntry<'_>) -> ListingSpace,
    ) -> Answer<ListingSpace> {
        let mut listed = ListedEntry {
            name: &entry.name,
            inode: entry.inode,
            kind: entry.kind,
            offset,
            reply: None,
        };
        if detail == ListingDetail::Kinds {
            return Ok(add(&listed));
        }
        let epoch = self.epoch();
        let Some(attributes) = self.entry_attributes(directory, entry)? else {
            return Ok(ListingSpace::Added);
        };
        (listed.inode, listed.kind) = (attributes.inode, attributes.kind);
        let reply = match self.remembered(epoch, attributes) {
            Ok(reply) => reply,
            // It was removed just now.
            Err(ErrorNumber(libc::ESTALE)) => return Ok(ListingSpace::Added),
            Err(error) => return Err(error),
        };
        listed.reply = Some(reply);
        let filled = add(&listed);
        if filled == ListingSpace::Full {
            self.forget(listed.inode, 1);
        }
        Ok(filled)
    }

    /// Returns the attributes of the inode to which an entry refers, or `None` if its name was
    /// removed since it was listed.
    fn entry_attributes(&self, directory: Inode, entry: &DirectoryEntry) -> Answer<Option<Attributes>> {
        match self.files.attributes(entry.inode) {
            Ok(attributes) => return Ok(Some(attributes)),
            Err(error) if error.kind() == ErrorKind::Stale => {}
            Err(error) => return Err(error.into()),
        }
        // The name may refer to another inode now.
        match self.files.lookup(directory, &entry.name) {
            Ok(attributes) => Ok(Some(attributes)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Stale) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_keeps_its_name_while_names_come_and_go() {
        let mut record = NameRecord::default();
        let a = record.offset_of(2, b"a");
        let c = record.offset_of(a, b"c");
        let d = record.offset_of(c, b"d");
        assert_eq!((a, c, d), (3, 4, 5));
        // The program returns to where `a` ended, and meanwhile `b` was created.
        let b = record.offset_of(a, b"b");
        let c_again = record.offset_of(b, b"c");
        assert_eq!(record.get(index_of(b).unwrap()), Some(&b"b"[..]));
        assert_eq!(record.get(index_of(c).unwrap()), Some(&b"c"[..]));
        assert_eq!(record.get(index_of(c_again).unwrap()), Some(&b"c"[..]));
        assert_eq!(record.offset_of(2, b"a"), a);
        assert_eq!(record.offset_of(c, b"d"), d);
    }
}
