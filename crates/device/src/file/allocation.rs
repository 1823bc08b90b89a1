//! The space behind a file: taken from the file system, looked for, and given back.
//!
//! The answers of `fallocate` differ between file systems. For a range that is allocated already,
//! ext4 succeeds, but XFS on a full disk reports no space. File systems without extents refuse the
//! call and punch holes all the same. So an error for want of space is checked against the file's
//! map, and a refusal is remembered: a hole is never made where it could not be filled.

use super::open_file::OpenFile;
use super::placement;
use super::sys;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::{Errno, retry_on_intr};
use std::ops::Range;

/// How many zero bytes one write carries where a file system cannot allocate.
const ZEROS: usize = 1 << 20;

/// How much of a range is allocated to find out whether the file system can.
const PROBED: u64 = 4096;

impl OpenFile {
    /// Allocates a range, extending the file when the range reaches past its end; by writing zeros
    /// where the file system cannot allocate.
    pub(super) fn allocate_extending(&self, range: Range<u64>) -> Result<(), Errno> {
        match self.fallocate(FallocateFlags::empty(), &range) {
            Err(errno) if is_refusal(errno) => self.write_zeros(range),
            outcome => outcome,
        }
    }

    /// Allocates a range inside the file; what is there stays.
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

    /// Takes new space for a range whose bytes are not needed any more, where a write to it would
    /// need new space all the same.
    pub(super) fn renew_inside(&self, range: &Range<u64>) -> Result<(), Errno> {
        if self.writes_elsewhere(range)? && self.punch(range)? {
            self.allocate_inside(range)?;
        }
        Ok(())
    }

    /// Tells whether a write to a range needs space beside that of the range, as far as the file
    /// system's map of the file says.
    fn writes_elsewhere(&self, range: &Range<u64>) -> Result<bool, Errno> {
        let copies = placement::copies_on_write(&self.descriptor)?;
        let Ok(extents) = sys::extents(&self.descriptor, range.clone()) else {
            return Ok(false);
        };
        Ok(extents
            .iter()
            .any(|extent| extent.shared || (copies && extent.written)))
    }

    /// Punches a hole; false where holes are not supported, or where this one could not be filled
    /// again.
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

    /// Tells whether space can be allocated in this file without writing to it. A part of a range,
    /// inside the file, is allocated to find out.
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

    /// Tells whether every byte of a range has space of its own, as the file system's map of the
    /// file says. What is shared with another file has none: a change needs new blocks.
    fn has_space(&self, range: &Range<u64>) -> bool {
        let mut at = range.start;
        while at < range.end {
            let Ok(extents) = sys::extents(&self.descriptor, at..range.end) else {
                // Where there is no map there are only holes to look for.
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

    /// Returns the first place from `at` on that has no data; the end of the file counts as one.
    fn next_hole(&self, at: u64) -> Result<u64, Errno> {
        rustix::fs::seek(&self.descriptor, SeekFrom::Hole(at))
    }

    /// Writes zeros into the holes of a range. They are found by looking, since a file system that
    /// cannot allocate has no other kind of space.
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

/// Returns whether the file system does not know the call.
fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS)
}
