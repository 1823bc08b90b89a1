//! Allocating, finding and freeing the disk space of a file.
//!
//! The results of `fallocate` differ between file systems. For a range that is already allocated,
//! ext4 succeeds, but XFS on a full disk reports no space. File systems without extents refuse to
//! allocate but still punch holes. So an out-of-space error is checked against the file's extent
//! map, and a refusal is remembered: a hole is never punched where it could not be filled again.

use super::open_file::OpenFile;
use super::placement;
use super::sys;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::{Errno, retry_on_intr};
use std::ops::Range;

/// Number of zero bytes per write where the file system cannot allocate.
const ZEROS: usize = 1 << 20;

/// Bytes of a range that are allocated to find out whether the file system can allocate.
const PROBED: u64 = 4096;

impl OpenFile {
    /// Allocates a range, extending the file if the range extends past its end. Writes zeros where
    /// the file system cannot allocate.
    pub(super) fn allocate_extending(&self, range: Range<u64>) -> Result<(), Errno> {
        match self.fallocate(FallocateFlags::empty(), &range) {
            Err(errno) if is_refusal(errno) => self.write_zeros(range),
            outcome => outcome,
        }
    }

    /// Allocates a range inside the file; existing contents are kept.
    pub(super) fn allocate_inside(&self, range: &Range<u64>) -> Result<(), Errno> {
        match self.fallocate(FallocateFlags::KEEP_SIZE, range) {
            Err(errno) if is_refusal(errno) => self.fill_holes(range),
            Err(errno @ Errno::NOSPC) => {
                if self.has_space(range) {
                    Ok(())
                } else {
                    Err(errno)
                }
            }
            outcome => outcome,
        }
    }

    /// Allocates new space for a range whose contents are discarded, if overwriting it would need
    /// new space anyway.
    pub(super) fn renew_inside(&self, range: &Range<u64>) -> Result<(), Errno> {
        if self.writes_elsewhere(range)? && self.punch(range)? {
            self.allocate_inside(range)?;
        }
        Ok(())
    }

    /// Returns whether overwriting a range needs space other than the range's own, according to the
    /// file system's extent map.
    fn writes_elsewhere(&self, range: &Range<u64>) -> Result<bool, Errno> {
        let copies = placement::copies_on_write(&self.descriptor)?;
        let Ok(extents) = sys::extents(&self.descriptor, range.clone()) else {
            return Ok(false);
        };
        Ok(extents
            .iter()
            .any(|extent| extent.shared || (copies && extent.written)))
    }

    /// Punches a hole. Returns false where holes are not supported, or where this hole could not be
    /// filled again.
    pub(super) fn punch(&self, range: &Range<u64>) -> Result<bool, Errno> {
        if !self.can_allocate(range) {
            return Ok(false);
        }
        match self.fallocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, range) {
            Ok(()) => Ok(true),
            Err(errno) if is_refusal(errno) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Returns whether space can be allocated in this file without writing. Allocates part of a
    /// range inside the file to find out.
    pub(super) fn can_allocate(&self, range: &Range<u64>) -> bool {
        self.state.can_allocate(|| {
            let part = range.start..range.end.min(range.start + PROBED);
            !self
                .fallocate(FallocateFlags::KEEP_SIZE, &part)
                .is_err_and(is_refusal)
        })
    }

    fn fallocate(&self, flags: FallocateFlags, range: &Range<u64>) -> Result<(), Errno> {
        let len = range.end - range.start;
        let outcome = retry_on_intr(|| rustix::fs::fallocate(&self.descriptor, flags, range.start, len));
        if !flags.contains(FallocateFlags::PUNCH_HOLE) {
            self.state.note_allocation(!outcome.is_err_and(is_refusal));
        }
        outcome
    }

    /// Returns whether every byte of a range has its own space, according to the extent map. Shared
    /// extents do not count: changing them needs new blocks.
    fn has_space(&self, range: &Range<u64>) -> bool {
        let mut at = range.start;
        while at < range.end {
            let Ok(extents) = sys::extents(&self.descriptor, at..range.end) else {
                // Without an extent map, only holes can be detected.
                return self.next_hole(at).is_ok_and(|hole| hole >= range.end);
            };
            let reached = extents
                .iter()
                .take_while(|extent| !extent.shared)
                .fold(at, |reached, extent| {
                    if extent.range.start <= reached {
                        reached.max(extent.range.end)
                    } else {
                        reached
                    }
                });
            if reached == at {
                return false;
            }
            at = reached;
        }
        true
    }

    /// Returns the first offset from `at` on that has no data; the end of the file counts as a
    /// hole.
    fn next_hole(&self, at: u64) -> Result<u64, Errno> {
        rustix::fs::seek(&self.descriptor, SeekFrom::Hole(at))
    }

    /// Writes zeros into the holes of a range. Searching for holes is enough, because a file system
    /// that cannot allocate has no space that is allocated but unwritten.
    fn fill_holes(&self, range: &Range<u64>) -> Result<(), Errno> {
        let mut at = range.start;
        while at < range.end {
            let hole = match self.next_hole(at) {
                Ok(hole) if hole < range.end => hole,
                _ => break,
            };
            let end = match rustix::fs::seek(&self.descriptor, SeekFrom::Data(hole)) {
                Ok(data) => data.min(range.end),
                Err(_) => range.end,
            };
            self.write_zeros(hole..end)?;
            at = end;
        }
        Ok(())
    }

    fn write_zeros(&self, range: Range<u64>) -> Result<(), Errno> {
        let twin = self.through_cache()?;
        let zeros = vec![0; ZEROS.min(range.end.saturating_sub(range.start) as usize)];
        let mut at = range.start;
        while at < range.end {
            let piece = zeros.len().min((range.end - at).try_into().unwrap_or(ZEROS));
            match rustix::io::pwrite(twin, &zeros[..piece], at) {
                Ok(0) => return Err(Errno::IO),
                Ok(moved) => at += moved as u64,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

/// Returns whether the file system does not support the call.
fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS)
}
