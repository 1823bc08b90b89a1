//! Copies a range between two files without moving data, on file systems that can share blocks
//! between files.

use super::device::FileDevice;
use crate::{DeviceOperation, Result};
use alluvium_base::Purpose;
use rustix::io::Errno;
use std::ops::Range;

/// Magic numbers (`linux/magic.h`) of the file systems on which `copy_file_range` shares blocks or
/// copies on the server. On others, the call moves the bytes through the kernel piece by piece,
/// which is slower than batches of requests.
const SHARING: [u64; 5] = [
    0x9123_683e, // Btrfs
    0x5846_5342, // XFS
    0xca45_1a4e, // bcachefs
    0x2fc1_2fc1, // ZFS
    0x0000_6969, // NFS
];

/// Maximum number of bytes copied by a single call.
const MOST: u64 = 1 << 30;

/// Copies as much of a range, from its start, as the file system can copy by itself. Returns the
/// offset at which it stopped.
///
/// # Errors
/// I/O errors.
pub(super) fn share(
    target: &FileDevice,
    source: &FileDevice,
    range: Range<u64>,
    purpose: Purpose,
) -> Result<u64> {
    let (target, source) = (&target.file, &source.file);
    target.require_writable(DeviceOperation::Write)?;
    target
        .state
        .require_unpoisoned(DeviceOperation::Write, &target.name)?;
    source.inside(DeviceOperation::Read, range.start, range.end - range.start)?;
    target.inside(DeviceOperation::Write, range.start, range.end - range.start)?;
    let is_sharing = rustix::fs::fstatfs(&target.descriptor)
        .is_ok_and(|stat| SHARING.contains(&(stat.f_type as u64 & u64::from(u32::MAX))));
    let mut at = range.start;
    while is_sharing && at < range.end {
        let (mut from, mut to) = (at, at);
        let len = (range.end - at).min(MOST) as usize;
        let copied = rustix::fs::copy_file_range(
            &source.descriptor,
            Some(&mut from),
            &target.descriptor,
            Some(&mut to),
            len,
        );
        match copied {
            Ok(moved) if moved > 0 => {
                source.counters.read(purpose, moved as u64);
                target.counters.write(purpose, moved as u64);
                at += moved as u64;
            }
            Err(Errno::INTR) => {}
            // The file system cannot copy between these two files, or cannot copy any further.
            Ok(_) | Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => break,
            Err(errno) => return Err(target.failed(DeviceOperation::Write, at, len as u64, errno)),
        }
    }
    Ok(at)
}
