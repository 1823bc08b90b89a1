//! Removal of names and inodes.

use super::{FileWriter, check_name, is_a_directory, not_a_directory};
use crate::error::{Error, ErrorKind, Result};
use crate::records::format::{self, InodeRecord, OrphanKind};
use crate::records::{ReadDependence, RecordSpace, WalkedValues};
use crate::types::{FileKind, Inode};
use std::ops::ControlFlow;

/// Number of blocks up to which each is deleted on its own. A range delete costs merges and reads
/// more than a few deletes.
/// Tuning: `16` since 2026-11-29.
const FEW_BLOCKS: u64 = 16;

impl FileWriter<'_> {
    pub(crate) fn unlink(&self, parent: Inode, name: &[u8]) -> Result<()> {
        check_name(name)?;
        let (inode, kind) = self.existing_entry(parent, name)?;
        if kind == FileKind::Directory {
            return Err(is_a_directory(inode));
        }
        self.delete_entry(parent, name)?;
        self.drop_name(inode)?;
        self.touch_directory(parent)
    }

    pub(crate) fn remove_directory(&self, parent: Inode, name: &[u8]) -> Result<()> {
        check_name(name)?;
        let (inode, kind) = self.existing_entry(parent, name)?;
        if kind != FileKind::Directory {
            return Err(not_a_directory(inode));
        }
        self.require_empty(inode)?;
        self.delete_entry(parent, name)?;
        self.drop_directory(inode, parent)?;
        self.touch_directory(parent)
    }

    /// Returns an error if a directory has entries, and depends on it having none.
    pub(super) fn require_empty(&self, directory: Inode) -> Result<()> {
        let (low, high) = (format::inode_key(directory), format::inode_end(directory));
        let high = high.as_ref().map(|high| &high[..]);
        self.records.depend_on_range(RecordSpace::Names, &low, high)?;
        let mut is_empty = true;
        self.records
            .walk(RecordSpace::Names, &low, high, WalkedValues::All, &mut |_, _| {
                is_empty = false;
                ControlFlow::Break(())
            })?;
        if is_empty {
            return Ok(());
        }
        let message = format!("directory {} is not empty", directory.0);
        Err(Error::new(ErrorKind::NotEmpty, message))
    }

    /// Takes one name from an inode that is no directory, and removes the inode if that was its
    /// last name and no view holds it.
    pub(super) fn drop_name(&self, inode: Inode) -> Result<()> {
        let mut record = self.reader().load(inode, ReadDependence::Update)?;
        record.links = record.links.saturating_sub(1);
        record.changed = self.context.now();
        if record.links > 0 {
            return self.save(inode, &record);
        }
        self.drop_inode(inode, &record)
    }

    /// Removes an empty directory that has lost its name.
    pub(super) fn drop_directory(&self, inode: Inode, parent: Inode) -> Result<()> {
        let mut record = self.reader().load(inode, ReadDependence::Update)?;
        self.count_subdirectories(parent, -1)?;
        self.records
            .delete(RecordSpace::System, &format::parent_key(inode))?;
        record.links = 0;
        self.drop_inode(inode, &record)
    }

    fn drop_inode(&self, inode: Inode, record: &InodeRecord) -> Result<()> {
        if self.context.must_keep(inode) {
            self.save(inode, record)?;
            return self.add_orphan(inode, OrphanKind::Unlinked);
        }
        self.delete_inode(inode, record)
    }

    /// Removes an orphan with its contents, unless it has got a name.
    pub(crate) fn reclaim(&self, inode: Inode) -> Result<()> {
        let record = match self.reader().load(inode, ReadDependence::Update) {
            Ok(record) if record.links == 0 => record,
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Stale => return Ok(()),
            Err(error) => return Err(error),
        };
        self.delete_inode(inode, &record)?;
        self.records
            .delete(RecordSpace::System, &format::orphan_key(inode))?;
        self.changes.borrow_mut().adopted.push(inode);
        Ok(())
    }

    /// Deletes all records of an inode.
    fn delete_inode(&self, inode: Inode, record: &InodeRecord) -> Result<()> {
        self.records
            .delete(RecordSpace::Inodes, &format::inode_key(inode))?;
        self.changes.borrow_mut().inodes.push(inode);
        self.delete_blocks(inode, record, 0)?;
        if record.is_extended {
            self.delete_all(RecordSpace::Extended, inode)?;
        }
        if record.kind == FileKind::Directory {
            let key = format::inode_key(inode);
            self.records.delete(RecordSpace::Counts, &key)?;
            for which in [format::MODIFIED, format::CHANGED, format::ACCESSED] {
                let key = format::time_key(inode, which);
                self.records.delete(RecordSpace::Times, &key)?;
            }
        }
        Ok(())
    }

    /// Deletes the blocks of a file from the block `first` on.
    pub(super) fn delete_blocks(&self, inode: Inode, record: &InodeRecord, first: u64) -> Result<()> {
        let end = record.size.div_ceil(self.context.layout().block_bytes);
        if record.blocks == 0 || first >= end {
            return Ok(());
        }
        if end - first <= FEW_BLOCKS {
            for block in first..end {
                let key = format::block_key(&record.locality, inode, block);
                self.records.delete(record.block_space(), &key)?;
            }
            return Ok(());
        }
        let low = format::block_key(&record.locality, inode, first);
        let high = format::blocks_end(&record.locality, inode);
        self.records
            .delete_range(record.block_space(), &low, high.as_deref())
    }

    fn delete_all(&self, space: RecordSpace, inode: Inode) -> Result<()> {
        let (low, high) = (format::inode_key(inode), format::inode_end(inode));
        let high = high.as_ref().map(|high| &high[..]);
        self.records.delete_range(space, &low, high)
    }
}
