//! An open handle of a real file, with blocking transfers.

use super::state::FileState;
use crate::contract::check_alignment;
use crate::uring::FileSlot;
use crate::{
    BLOCK, DeviceCounters, DeviceOperation, Error, FileAccessMode, FileOptions, IoOutcome, IoRequest, Result,
};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, OnceLock};

/// Maximum number of bytes per system call. The kernel truncates longer transfers, so longer
/// requests are split.
pub(crate) const MAX_TRANSFER: usize = 1 << 30;

/// Maximum number of retries, one millisecond apart, after a file system returns EAGAIN.
const MOST_AGAIN: u32 = 200;

const _: () = assert!((MAX_TRANSFER as u64).is_multiple_of(BLOCK));

/// An open handle of a file, with its own descriptor.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(super) name: String,
    pub(super) options: FileOptions,
    /// Whether `descriptor` bypasses the page cache. False if the file system refused direct I/O.
    pub(super) direct: bool,
    /// Alignment of direct transfers: [`BLOCK`], or more on devices with larger blocks.
    pub(super) alignment: u64,
    /// The file's slot in the rings, once registered. Declared before the descriptor, so that the
    /// slot is released before the descriptor is closed.
    pub(super) slot: OnceLock<FileSlot>,
    pub(super) descriptor: OwnedFd,
    /// A descriptor of the same file that uses the page cache, opened when a request does not
    /// satisfy `alignment`. The kernel keeps both views coherent.
    pub(super) cached_descriptor: OnceLock<OwnedFd>,
    pub(super) state: Arc<FileState>,
    pub(super) counters: DeviceCounters,
}

impl OpenFile {
    /// Checks whether the device may execute the request, and counts it if so (D6).
    ///
    /// # Errors
    /// `ReadOnly`, `Poisoned`, `PastEnd`.
    pub(super) fn admit(&self, request: &IoRequest) -> Result<()> {
        match request {
            IoRequest::Read {
                offset,
                buffer,
                purpose,
            } => {
                let len = buffer.len() as u64;
                self.inside(DeviceOperation::Read, *offset, len)?;
                self.counters.read(*purpose, len);
            }
            IoRequest::Write {
                offset,
                buffer,
                purpose,
            } => {
                let len = buffer.len() as u64;
                self.require_writable(DeviceOperation::Write)?;
                self.state
                    .require_unpoisoned(DeviceOperation::Write, &self.name)?;
                self.inside(DeviceOperation::Write, *offset, len)?;
                self.counters.write(*purpose, len);
            }
            IoRequest::Sync { purpose } => {
                self.state.require_unpoisoned(DeviceOperation::Sync, &self.name)?;
                self.counters.sync(*purpose);
            }
        }
        Ok(())
    }

    /// # Panics
    /// If the request is misaligned on a direct file (D2), even if the file system made the file
    /// buffered.
    pub(super) fn check_alignment(&self, request: &IoRequest) {
        let (operation, offset, len) = match request {
            IoRequest::Read { offset, buffer, .. } => (DeviceOperation::Read, *offset, buffer.len()),
            IoRequest::Write { offset, buffer, .. } => (DeviceOperation::Write, *offset, buffer.len()),
            IoRequest::Sync { .. } => return,
        };
        check_alignment(operation, &self.name, self.options.caching, offset, len as u64);
    }

    pub(super) fn inside(&self, operation: DeviceOperation, offset: u64, len: u64) -> Result<()> {
        let end = self.state.len();
        if offset.checked_add(len).is_some_and(|to| to <= end) {
            return Ok(());
        }
        Err(self.past_end(operation, offset, len, end))
    }

    pub(super) fn require_writable(&self, operation: DeviceOperation) -> Result<()> {
        match self.options.access {
            FileAccessMode::ReadWrite => Ok(()),
            FileAccessMode::ReadOnly => Err(Error::ReadOnly {
                operation,
                file: self.name.clone(),
            }),
        }
    }

    fn past_end(&self, operation: DeviceOperation, offset: u64, len: u64, end: u64) -> Error {
        Error::PastEnd {
            operation,
            file: self.name.clone(),
            offset,
            len,
            end,
        }
    }

    pub(crate) fn failed(&self, operation: DeviceOperation, offset: u64, len: u64, errno: Errno) -> Error {
        Error::from_io(operation, &self.name, offset, len, io::Error::from(errno))
    }

    /// Returns the descriptor and the registered slot for a ring transfer, or `None` if the
    /// transfer must use the page cache.
    pub(crate) fn ring_target(&self, offset: u64, len: usize) -> Option<(RawFd, Option<u32>)> {
        self.suits(offset, len)
            .then(|| (self.descriptor.as_raw_fd(), self.slot.get().map(FileSlot::index)))
    }

    /// Records the file's slot in the rings.
    pub(crate) fn registered(&self, slot: FileSlot) {
        let first = self.slot.set(slot);
        debug_assert!(first.is_ok(), "{} was registered twice", self.name);
    }

    /// Returns whether a transfer may use `descriptor`.
    fn suits(&self, offset: u64, len: usize) -> bool {
        !self.direct || (offset.is_multiple_of(self.alignment) && (len as u64).is_multiple_of(self.alignment))
    }

    /// Returns a descriptor of the same file that uses the page cache.
    fn open_cached(&self) -> std::result::Result<BorrowedFd<'_>, Errno> {
        if let Some(twin) = self.cached_descriptor.get() {
            return Ok(twin.as_fd());
        }
        // Open it through /proc, because the file may have been renamed or removed since.
        let path = format!("/proc/self/fd/{}", self.descriptor.as_raw_fd());
        let mode = match self.options.access {
            FileAccessMode::ReadOnly => OFlags::RDONLY,
            FileAccessMode::ReadWrite => OFlags::RDWR,
        };
        let opened = rustix::fs::open(path, mode | OFlags::CLOEXEC, Mode::empty())?;
        Ok(self.cached_descriptor.get_or_init(|| opened).as_fd())
    }

    /// Returns a descriptor for transfers of any alignment.
    pub(super) fn through_cache(&self) -> std::result::Result<BorrowedFd<'_>, Errno> {
        if self.direct {
            self.open_cached()
        } else {
            Ok(self.descriptor.as_fd())
        }
    }

    /// Executes the rest of a read or write, of which `done` bytes were already transferred.
    /// Blocks.
    pub(crate) fn perform(&self, request: IoRequest, done: usize) -> IoOutcome {
        match request {
            IoRequest::Read {
                offset, mut buffer, ..
            } => {
                let result = self.read_rest(offset, &mut buffer, done);
                IoOutcome {
                    buffer: Some(buffer),
                    result,
                }
            }
            IoRequest::Write { offset, buffer, .. } => {
                let result = self.write_rest(offset, &buffer, done);
                IoOutcome {
                    buffer: Some(buffer),
                    result,
                }
            }
            IoRequest::Sync { .. } => IoOutcome {
                buffer: None,
                result: self.sync_blocking(),
            },
        }
    }

    fn read_rest(&self, offset: u64, buffer: &mut [u8], done: usize) -> Result<()> {
        let len = buffer.len();
        self.transfer(
            DeviceOperation::Read,
            offset,
            len,
            done,
            |descriptor, from, to| rustix::io::pread(descriptor, &mut buffer[from..to], offset + from as u64),
        )
    }

    fn write_rest(&self, offset: u64, buffer: &[u8], done: usize) -> Result<()> {
        self.transfer(
            DeviceOperation::Write,
            offset,
            buffer.len(),
            done,
            |descriptor, from, to| rustix::io::pwrite(descriptor, &buffer[from..to], offset + from as u64),
        )
    }

    /// Calls `step(descriptor, from, to)` until all bytes are transferred. A short or interrupted
    /// transfer continues where it stopped.
    fn transfer(
        &self,
        operation: DeviceOperation,
        offset: u64,
        len: usize,
        mut done: usize,
        mut step: impl FnMut(BorrowedFd<'_>, usize, usize) -> std::result::Result<usize, Errno>,
    ) -> Result<()> {
        let mut through_cache = false;
        let mut again = 0;
        while done < len {
            let to = len.min(done + MAX_TRANSFER);
            let at = offset + done as u64;
            through_cache |= !self.suits(at, to - done);
            let descriptor = if through_cache {
                self.open_cached()
                    .map_err(|errno| self.failed(operation, at, (to - done) as u64, errno))?
            } else {
                self.descriptor.as_fd()
            };
            match step(descriptor, done, to) {
                Ok(0) if operation == DeviceOperation::Read => {
                    let end = rustix::fs::fstat(&self.descriptor).map_or(at, |stat| stat.st_size as u64);
                    return Err(self.past_end(operation, offset, len as u64, end));
                }
                Ok(0) => return Err(self.failed(operation, at, (len - done) as u64, Errno::IO)),
                Ok(moved) => done += moved,
                Err(Errno::INTR) => {}
                // On a full disk, Btrfs returns this error while it cannot tell whether the space
                // is already allocated.
                Err(Errno::AGAIN) if again < MOST_AGAIN => {
                    again += 1;
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                Err(Errno::AGAIN) if operation == DeviceOperation::Write => {
                    return Err(self.failed(operation, at, (len - done) as u64, Errno::NOSPC));
                }
                // The device's blocks are larger than the kernel reported when the file was opened.
                Err(Errno::INVAL) if self.direct && !through_cache => through_cache = true,
                Err(errno) => return Err(self.failed(operation, at, (len - done) as u64, errno)),
            }
        }
        Ok(())
    }

    /// Makes every completed write to the file durable. A failure poisons the file (D4).
    pub(super) fn sync_blocking(&self) -> Result<()> {
        self.state
            .syncs
            .whole(|| rustix::io::retry_on_intr(|| rustix::fs::fdatasync(&self.descriptor)))
            .map_err(|failure| failure.into_error(DeviceOperation::Sync, &self.name, self.state.len()))
    }
}
