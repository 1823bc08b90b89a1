//! Contents of files: open, read, write, allocate, copy.

use super::{Answer, ErrorNumber, MountRequest, RequestCaller};
use alluvium_files::{AllocateMode, AttributeChange, Inode, SeekTarget, WritePosition};

/// A range to be copied from one file to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyRange {
    pub(crate) from: Inode,
    pub(crate) from_offset: u64,
    pub(crate) to: Inode,
    pub(crate) to_offset: u64,
    pub(crate) length: u64,
}

/// Whether a write takes away set-user-ID and set-group-ID bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WritePrivileges {
    Kept,
    Removed,
}

/// The longest copy in a request, so that a thread is not busy for long.
const LONGEST_COPY: u64 = 64 << 20;

impl MountRequest<'_> {
    /// Opens a file; `flags` are those of `open(2)`.
    pub(crate) fn open(&self, inode: Inode, flags: i32, privileges: WritePrivileges) -> Answer<()> {
        if flags & libc::O_ACCMODE != libc::O_RDONLY {
            self.files.require_writable(inode)?;
        }
        self.nodes().open(self.files, inode)?;
        if flags & libc::O_TRUNC == 0 {
            return Ok(());
        }
        let change = AttributeChange {
            size: Some(0),
            ..AttributeChange::default()
        };
        let truncated = self.set_attributes(inode, change, privileges);
        if truncated.is_err() {
            self.nodes().close(self.files, inode);
        }
        truncated.map(|_| ())
    }

    pub(crate) fn close(&self, inode: Inode) {
        self.nodes().close(self.files, inode);
    }

    /// Replaces the contents of `out` by a range of a file.
    pub(crate) fn read(&self, inode: Inode, offset: u64, length: usize, out: &mut Vec<u8>) -> Answer<()> {
        Ok(self.files.read_into(inode, offset, length, out)?)
    }

    pub(crate) fn write(
        &self,
        inode: Inode,
        offset: u64,
        position: WritePosition,
        privileges: WritePrivileges,
        data: &[u8],
    ) -> Answer<()> {
        if privileges == WritePrivileges::Removed {
            self.remove_privileges(inode)?;
        }
        let written = self.files.write(inode, position, data)?;
        if written != offset {
            // Another view has appended: the kernel has put these bytes elsewhere in its cache.
            self.server.notices.inode_is_stale(inode);
        }
        Ok(())
    }

    /// Allocates a range; `mode` is that of `fallocate(2)`.
    pub(crate) fn allocate(
        &self,
        caller: RequestCaller,
        inode: Inode,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Answer<()> {
        const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
        const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
        const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
        const ZERO_KEEP: i32 = ZERO | KEEP;
        let mode = match mode {
            0 => AllocateMode::Extend,
            KEEP => AllocateMode::KeepSize,
            PUNCH => AllocateMode::PunchHole,
            ZERO => AllocateMode::Zero,
            ZERO_KEEP => AllocateMode::ZeroKeepSize,
            _ => return Err(ErrorNumber(libc::EOPNOTSUPP)),
        };
        self.drop_privileges(caller, inode)?;
        Ok(self.files.allocate(inode, mode, offset, length)?)
    }

    /// Finds data or a hole; `whence` is that of `lseek(2)`.
    pub(crate) fn seek(&self, inode: Inode, offset: i64, whence: i32) -> Answer<u64> {
        let target = match whence {
            libc::SEEK_DATA => SeekTarget::Data,
            libc::SEEK_HOLE => SeekTarget::Hole,
            _ => return Err(ErrorNumber(libc::EINVAL)),
        };
        let offset = u64::try_from(offset).map_err(|_| ErrorNumber(libc::ENXIO))?;
        Ok(self.files.seek(inode, offset, target)?)
    }

    /// Copies a range, or its beginning, and returns the number of bytes copied.
    pub(crate) fn copy_range(&self, caller: RequestCaller, range: CopyRange) -> Answer<u32> {
        self.drop_privileges(caller, range.to)?;
        let length = range.length.min(LONGEST_COPY);
        let CopyRange {
            from,
            from_offset,
            to,
            ..
        } = range;
        let copied = self
            .files
            .copy_range(from, from_offset, to, range.to_offset, length)?;
        u32::try_from(copied).map_err(|_| ErrorNumber(libc::EIO))
    }
}
