//! Contents of regular files, through descriptors that are opened when they are needed.

use super::{OrdinaryDirectory, errors, through_descriptor};
use crate::error::{Error, Result};
use crate::types::{AllocateMode, FileKind, Inode, SeekTarget, WritePosition};
use rustix::buffer::spare_capacity;
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, copy_file_range, fallocate, open, seek};
use rustix::io::{Errno, pread, pwrite, write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Most bytes that are read or copied by one call.
const MOST_AT_ONCE: usize = 4 << 20;

impl OrdinaryDirectory {
    fn open_regular(&self, inode: Inode, flags: OFlags) -> Result<OwnedFd> {
        let failed = |errno| errors::inode(errno, "open", inode);
        match self.nodes.get(inode)?.identity.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(failed(Errno::ISDIR)),
            _ => return Err(failed(Errno::INVAL)),
        }
        let path = self.nodes.path_of(inode)?;
        open(
            through_descriptor(&path),
            flags | OFlags::CLOEXEC | OFlags::NOCTTY,
            Mode::empty(),
        )
        .map_err(failed)
    }

    fn open_for_reading(&self, inode: Inode) -> Result<Arc<OwnedFd>> {
        let node = self.nodes.get(inode)?;
        let state = node.state.lock();
        if let Some(file) = state.reading.as_ref().or(state.writing.as_ref()) {
            return Ok(file.clone());
        }
        drop(state);
        let quietly = if self.keeps_access_times {
            OFlags::NOATIME
        } else {
            OFlags::empty()
        };
        let opened = match self.open_regular(inode, OFlags::RDONLY | quietly) {
            // Only the owner may ask for it.
            Err(error) if error.errno() == Errno::PERM.raw_os_error() && self.keeps_access_times => {
                self.open_regular(inode, OFlags::RDONLY)?
            }
            other => other?,
        };
        let file = Arc::new(opened);
        node.state.lock().reading = Some(file.clone());
        Ok(file)
    }

    /// Opens a file for reading and writing. The descriptor stays open only while the inode is
    /// held, because no program can execute a file that is open for writing.
    pub(super) fn open_for_writing(&self, inode: Inode) -> Result<Arc<OwnedFd>> {
        let node = self.nodes.get(inode)?;
        if let Some(file) = &node.state.lock().writing {
            return Ok(file.clone());
        }
        let file = Arc::new(self.open_regular(inode, OFlags::RDWR)?);
        let mut state = node.state.lock();
        if state.holds > 0 {
            state.writing = Some(file.clone());
        }
        Ok(file)
    }

    pub(super) fn read_at(&self, inode: Inode, offset: u64, length: usize) -> Result<Vec<u8>> {
        let file = self.open_for_reading(inode)?;
        let mut data = Vec::with_capacity(length.min(MOST_AT_ONCE));
        while data.len() < length {
            let wanted = (length - data.len()).min(MOST_AT_ONCE);
            data.reserve_exact(wanted);
            let at = offset.saturating_add(data.len() as u64);
            match pread(&file, spare_capacity(&mut data), at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errors::inode(errno, "read", inode)),
            }
        }
        data.truncate(length);
        Ok(data)
    }

    pub(super) fn write_at(&self, inode: Inode, position: WritePosition, data: &[u8]) -> Result<u64> {
        let offset = match position {
            WritePosition::At(offset) => offset,
            WritePosition::End => return self.append(inode, data),
        };
        let file = self.open_for_writing(inode)?;
        let mut written = 0;
        while written < data.len() {
            match pwrite(&file, &data[written..], offset.saturating_add(written as u64)) {
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errors::inode(errno, "write", inode)),
            }
        }
        Ok(offset)
    }

    /// Appends with `O_APPEND`, which other processes respect too. The position of the descriptor
    /// afterwards tells where the bytes stand.
    fn append(&self, inode: Inode, data: &[u8]) -> Result<u64> {
        let failed = |errno| errors::inode(errno, "append to", inode);
        let node = self.nodes.get(inode)?;
        let _turn = node.appending.lock();
        let file = self.open_regular(inode, OFlags::WRONLY | OFlags::APPEND)?;
        let mut first = None;
        let mut written = 0;
        while written < data.len() {
            match write(&file, &data[written..]) {
                Ok(count) => {
                    let end = seek(&file, SeekFrom::Current(0)).map_err(failed)?;
                    first.get_or_insert(end.saturating_sub(count as u64));
                    written += count;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        match first {
            Some(offset) => Ok(offset),
            None => seek(&file, SeekFrom::End(0)).map_err(failed),
        }
    }

    pub(super) fn allocate_range(
        &self,
        inode: Inode,
        mode: AllocateMode,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        let flags = match mode {
            AllocateMode::Extend => FallocateFlags::empty(),
            AllocateMode::KeepSize => FallocateFlags::KEEP_SIZE,
            AllocateMode::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            AllocateMode::Zero => FallocateFlags::ZERO_RANGE,
            AllocateMode::ZeroKeepSize => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        };
        let file = self.open_for_writing(inode)?;
        loop {
            match fallocate(&file, flags, offset, length) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errors::inode(errno, "allocate space of", inode)),
            }
        }
    }

    pub(super) fn seek_from(&self, inode: Inode, offset: u64, target: SeekTarget) -> Result<u64> {
        let file = self.open_for_reading(inode)?;
        let position = match target {
            SeekTarget::Data => SeekFrom::Data(offset),
            SeekTarget::Hole => SeekFrom::Hole(offset),
        };
        seek(&file, position).map_err(|errno| errors::inode(errno, "find data or holes of", inode))
    }

    pub(super) fn copy(&self, from: (Inode, u64), to: (Inode, u64), length: u64) -> Result<u64> {
        let source = self.open_for_reading(from.0)?;
        let target = self.open_for_writing(to.0)?;
        let mut copied = 0;
        while copied < length {
            let wanted = usize::try_from(length - copied)
                .unwrap_or(usize::MAX)
                .min(1 << 30);
            let (mut in_offset, mut out_offset) = (from.1 + copied, to.1 + copied);
            match copy_file_range(
                &source,
                Some(&mut in_offset),
                &target,
                Some(&mut out_offset),
                wanted,
            ) {
                Ok(0) => break,
                Ok(count) => copied += count as u64,
                Err(Errno::INTR) => {}
                Err(Errno::XDEV | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    return self.copy_by_hand(from, to, length, copied);
                }
                Err(errno) => return Err(errors::inode(errno, "copy a range to", to.0)),
            }
        }
        Ok(copied)
    }

    /// Copies between file systems that the kernel does not copy between.
    fn copy_by_hand(&self, from: (Inode, u64), to: (Inode, u64), length: u64, done: u64) -> Result<u64> {
        let mut copied = done;
        while copied < length {
            let wanted = usize::try_from(length - copied)
                .unwrap_or(usize::MAX)
                .min(MOST_AT_ONCE);
            let data = self.read_at(from.0, from.1 + copied, wanted)?;
            if data.is_empty() {
                break;
            }
            self.write_at(to.0, WritePosition::At(to.1 + copied), &data)?;
            copied += data.len() as u64;
        }
        Ok(copied)
    }

    pub(super) fn release_hold(&self, inode: Inode) -> Result<()> {
        let node = self.nodes.get(inode)?;
        let mut state = node.state.lock();
        let Some(holds) = state.holds.checked_sub(1) else {
            let text = format!("inode {} is not held", inode.0);
            return Err(Error::new(crate::error::ErrorKind::InvalidArgument, text));
        };
        state.holds = holds;
        if holds > 0 {
            return Ok(());
        }
        state.writing = None;
        let path = state.path.clone();
        drop(state);
        let Some(path) = path else { return Ok(()) };
        let found =
            super::nodes::status(&*path, b"").map_err(|errno| errors::inode(errno, "examine", inode))?;
        if found.stx_nlink == 0 {
            self.nodes.forget(&node);
        }
        Ok(())
    }
}
