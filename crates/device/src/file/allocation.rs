//! Allocates, finds and frees a file's disk space.
//!
//! File systems differ in what `fallocate` returns. For a range that is already allocated, ext4
//! succeeds, but XFS reports a lack of space on a full disk, so an out-of-space error is checked
//! against the file's extent map. File systems without extents refuse to allocate but still punch
//! holes, so a refusal is remembered, and a hole is never punched where it could not be filled
//! again.

use super::open_file::OpenFile;
use super::placement;
use super::sys;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::{Errno, retry_on_intr};
use std::ops::Range;

/// Number of zero bytes per write if the file system cannot allocate, so that zeros are written
/// instead.
const ZEROS: usize = 1 << 20;

/// Number of bytes to allocate in order to find out whether the file system can allocate.
const PROBED: u64 = 4096;

impl OpenFile {
    /// Allocates space for a range, extending the file if the range reaches beyond its end. If the
    /// file system cannot allocate, zeros are written.
    pub(super) fn allocate_extending(&self, range: Range<u64>) -> Result<(), Errno> {
        match self.fallocate(FallocateFlags::empty(), &range) {
            Err(errno) if is_refusal(errno) => self.write_zeros(range),
            outcome => outcome,
        }
    }

    /// Allocates space for a range inside the file, whose contents stay the same.
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

    /// If overwriting a range would require new space anyway, discards the range's contents and
    /// allocates new space for it.
    pub(super) fn renew_inside(&self, range: &Range<u64>) -> Result<(), Errno> {
        if self.writes_elsewhere(range)? && self.punch(range)? {
            self.allocate_inside(range)?;
        }
        Ok(())
    }

    /// Returns whether overwriting a range requires space beyond what the range already occupies,
    /// according to the file's extent map.
    fn writes_elsewhere(&self, range: &Range<u64>) -> Result<bool, Errno> {
        let copies = placement::copies_on_write(&self.descriptor)?;
        let Ok(extents) = sys::extents(&self.descriptor, range.clone()) else {
            return Ok(false);
        };
        Ok(extents
            .iter()
            .any(|extent| extent.shared || (copies && extent.written)))
    }

    /// Punches a hole in the file. Returns false without doing anything if holes are not supported
    /// or this hole could not be filled again.
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

    /// Returns whether space in this file can be allocated without writing, by allocating part of
    /// `range`, which must be inside the file.
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

    /// Returns whether every byte of a range has space of its own, according to the extent map.
    /// Shared extents do not count, because changing them requires new blocks.
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

    /// Returns the first offset at or after `at` that has no data. The end of the file counts as a
    /// hole.
    fn next_hole(&self, at: u64) -> Result<u64, Errno> {
        rustix::fs::seek(&self.descriptor, SeekFrom::Hole(at))
    }

    /// Writes zeros to the holes of a range. A file system that cannot allocate has no space that
    /// is allocated but unwritten, so looking for holes is enough.
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

/// Returns whether the error means that the file system does not support the call.
fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS)
}
