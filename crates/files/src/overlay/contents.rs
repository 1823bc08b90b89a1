//! Contents of files, block by block from the lower or the upper file system.
//!
//! A changed file has all of its size in the upper file system. Its record says how many bytes at
//! the beginning still are those of the lower, and its map which blocks of them are changed. All
//! other blocks are read from the upper file system.

use super::Overlay;
use super::upper::ChangedInode;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{AllocateMode, AttributeChange, Attributes, FileKind, Inode, SeekTarget, WritePosition};

/// Blocks in which contents are copied up.
pub(super) const BLOCK: u64 = 4096;
/// Files up to this size are copied up as a whole by the first write.
const MOST_WHOLE: u64 = 128 << 10;
/// Bytes that are copied together.
const BYTES_AT_ONCE: u64 = 1 << 20;

/// Consecutive bytes of a file that come from the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStretch {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) is_lower: bool,
}

impl Overlay {
    pub(super) fn check_regular(&self, inode: Inode) -> Result<()> {
        match self.kind_of(inode)? {
            FileKind::Regular => Ok(()),
            FileKind::Directory => {
                let text = format!("inode {} is a directory: it has no contents", inode.0);
                Err(Error::new(ErrorKind::IsADirectory, text))
            }
            _ => {
                let text = format!("inode {} is no regular file: it has no contents here", inode.0);
                Err(Error::new(ErrorKind::InvalidArgument, text))
            }
        }
    }

    pub(super) fn read_at(&self, inode: Inode, offset: u64, length: usize) -> Result<Vec<u8>> {
        self.check_regular(inode)?;
        let Some(changed) = self.existing(inode)? else {
            return self.on_lower(inode, |lower| lower.read(inode, offset, length));
        };
        if changed.record.lower_bytes <= offset {
            return self.upper.files.read(changed.upper, offset, length);
        }
        let size = self.upper.files.attributes(changed.upper)?.size;
        let end = offset.saturating_add(length as u64).min(size);
        let mut data = Vec::new();
        let mut at = offset;
        while at < end {
            let stretch = self.stretch(inode, &changed, at, end)?;
            let count = (stretch.end - at) as usize;
            let part = match stretch.is_lower {
                true => self.on_lower(inode, |lower| lower.read(inode, at, count))?,
                false => self.upper.files.read(changed.upper, at, count)?,
            };
            data.extend_from_slice(&part);
            // A lower file that others have cut meanwhile reads as zeros until the conflict is
            // noticed.
            at += count as u64;
            data.resize((at - offset) as usize, 0);
        }
        Ok(data)
    }

    /// Returns from where bytes from `at` on come. It ends before `end`, and after at most 64 MiB.
    pub(super) fn stretch(
        &self,
        inode: Inode,
        changed: &ChangedInode,
        at: u64,
        end: u64,
    ) -> Result<FileStretch> {
        super::stretches::first(&self.upper, inode, changed, at, end)
    }

    pub(super) fn write_at(&self, inode: Inode, position: WritePosition, data: &[u8]) -> Result<u64> {
        {
            // A file whose contents are all in the upper file system needs no other change.
            let _turn = self.turn.read();
            self.upper.check_open()?;
            let is_whole =
                |changed: &ChangedInode| changed.record.has_new_contents && changed.record.lower_bytes == 0;
            self.check_regular(inode)?;
            if let Some(changed) = self.existing(inode)?.filter(is_whole) {
                return self.upper.files.write(changed.upper, position, data);
            }
        }
        let _turn = self.turn.write();
        self.upper.check_open()?;
        let changed = self.changed_contents(inode)?;
        if data.is_empty() || changed.record.lower_bytes == 0 {
            return self.upper.files.write(changed.upper, position, data);
        }
        let offset = match position {
            WritePosition::At(offset) => offset,
            WritePosition::End => self.upper.files.attributes(changed.upper)?.size,
        };
        let end = offset.checked_add(data.len() as u64).ok_or_else(|| {
            Error::new(
                ErrorKind::TooLarge,
                format!("inode {} cannot reach beyond 2^64 bytes", inode.0),
            )
        })?;
        self.fill_edges(inode, &changed, offset, end)?;
        self.upper
            .files
            .write(changed.upper, WritePosition::At(offset), data)?;
        self.mark_changed(inode, &changed, offset, end)?;
        Ok(offset)
    }

    /// Returns a file whose contents are about to change. A small file is copied up as a whole.
    fn changed_contents(&self, inode: Inode) -> Result<ChangedInode> {
        self.check_regular(inode)?;
        let mut changed = self.copy_up(inode)?;
        let lower_bytes = changed.record.lower_bytes;
        if changed.record.has_new_contents && (lower_bytes == 0 || lower_bytes > MOST_WHOLE) {
            return Ok(changed);
        }
        if (1..=MOST_WHOLE).contains(&lower_bytes) {
            self.fill(inode, &changed, 0, lower_bytes)?;
            changed.record.lower_bytes = 0;
        }
        changed.record.has_new_contents = true;
        self.upper.put(inode, &changed)?;
        Ok(changed)
    }

    /// Copies what still comes from the lower within a range.
    fn fill(&self, inode: Inode, changed: &ChangedInode, from: u64, to: u64) -> Result<()> {
        let mut at = from;
        while at < to {
            let stretch = self.stretch(inode, changed, at, to.min(at + BYTES_AT_ONCE))?;
            if stretch.is_lower {
                let count = (stretch.end - at) as usize;
                let data = self.on_lower(inode, |lower| lower.read(inode, at, count))?;
                self.upper
                    .files
                    .write(changed.upper, WritePosition::At(at), &data)?;
            }
            at = stretch.end;
        }
        Ok(())
    }

    /// Copies the first and the last block of a range up if the range has only a part of them.
    fn fill_edges(&self, inode: Inode, changed: &ChangedInode, from: u64, to: u64) -> Result<()> {
        let lower_bytes = changed.record.lower_bytes;
        let block = |at: u64| at / BLOCK * BLOCK;
        if !from.is_multiple_of(BLOCK) {
            let start = block(from);
            self.fill(inode, changed, start, (start + BLOCK).min(lower_bytes))?;
        }
        if !to.is_multiple_of(BLOCK) && (block(to) != block(from) || from.is_multiple_of(BLOCK)) {
            let start = block(to);
            self.fill(inode, changed, start, (start + BLOCK).min(lower_bytes))?;
        }
        Ok(())
    }

    fn mark_changed(&self, inode: Inode, changed: &ChangedInode, from: u64, to: u64) -> Result<()> {
        let to = to.min(changed.record.lower_bytes);
        if from >= to {
            return Ok(());
        }
        let first = from / BLOCK;
        self.upper.set_map(inode, first, to.div_ceil(BLOCK) - first)
    }

    pub(super) fn change_attributes(&self, inode: Inode, change: &AttributeChange) -> Result<Attributes> {
        let _turn = self.turn.write();
        self.upper.check_open()?;
        if change.size.is_some() {
            self.check_regular(inode)?;
        }
        let mut changed = self.copy_up(inode)?;
        if let Some(size) = change.size {
            // The rest must not come back from the lower when the file grows again.
            changed.record.lower_bytes = changed.record.lower_bytes.min(size);
            changed.record.has_new_contents = true;
            self.upper.put(inode, &changed)?;
        }
        self.upper.files.set_attributes(changed.upper, change)?;
        self.attributes_of_changed(inode, &changed)
    }

    pub(super) fn allocate_range(
        &self,
        inode: Inode,
        mode: AllocateMode,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        let _turn = self.turn.write();
        self.upper.check_open()?;
        let changed = self.changed_contents(inode)?;
        let clears = !matches!(mode, AllocateMode::Extend | AllocateMode::KeepSize);
        let end = offset.saturating_add(length);
        if clears && changed.record.lower_bytes > 0 && length > 0 {
            self.fill_edges(inode, &changed, offset, end)?;
        }
        self.upper.files.allocate(changed.upper, mode, offset, length)?;
        if clears {
            self.mark_changed(inode, &changed, offset, end)?;
        }
        Ok(())
    }

    pub(super) fn seek_from(&self, inode: Inode, offset: u64, target: SeekTarget) -> Result<u64> {
        self.check_regular(inode)?;
        let Some(changed) = self.existing(inode)? else {
            return self.on_lower(inode, |lower| lower.seek(inode, offset, target));
        };
        if changed.record.lower_bytes <= offset {
            return self.upper.files.seek(changed.upper, offset, target);
        }
        let size = self.upper.files.attributes(changed.upper)?.size;
        let mut at = offset;
        while at < size {
            let stretch = self.stretch(inode, &changed, at, size)?;
            let found = match stretch.is_lower {
                true => self.on_lower(inode, |lower| lower.seek(inode, at, target)),
                false => self.upper.files.seek(changed.upper, at, target),
            };
            match found {
                Ok(found) if found < stretch.end => return Ok(found.max(at)),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NoSuchOffset => {}
                Err(error) => return Err(error),
            }
            at = stretch.end;
        }
        if offset < size && target == SeekTarget::Hole {
            return Ok(size);
        }
        let text = format!("inode {} has nothing more from offset {offset} on", inode.0);
        Err(Error::new(ErrorKind::NoSuchOffset, text))
    }

    pub(super) fn copy(&self, from: (Inode, u64), to: (Inode, u64), length: u64) -> Result<u64> {
        self.check_regular(from.0)?;
        self.check_regular(to.0)?;
        let size = self.view_attributes(from.0)?.size;
        let length = length.min(size.saturating_sub(from.1));
        let is_overlap =
            from.0 == to.0 && from.1 < to.1.saturating_add(length) && to.1 < from.1.saturating_add(length);
        if is_overlap {
            let text = format!("the ranges of inode {} overlap", from.0.0);
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        {
            let _turn = self.turn.read();
            self.upper.check_open()?;
            let is_whole = |inode| {
                let changed = self.existing(inode)?;
                Ok::<_, Error>(
                    changed
                        .filter(|changed| changed.record.has_new_contents && changed.record.lower_bytes == 0),
                )
            };
            if let (Some(source), Some(target)) = (is_whole(from.0)?, is_whole(to.0)?) {
                return self
                    .upper
                    .files
                    .copy_range(source.upper, from.1, target.upper, to.1, length);
            }
        }
        let mut copied = 0;
        while copied < length {
            let count = (length - copied).min(BYTES_AT_ONCE) as usize;
            let data = {
                let _turn = self.turn.read();
                self.read_at(from.0, from.1 + copied, count)?
            };
            if data.is_empty() {
                break;
            }
            self.write_at(to.0, WritePosition::At(to.1 + copied), &data)?;
            copied += data.len() as u64;
        }
        Ok(copied)
    }
}
