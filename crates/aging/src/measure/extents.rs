//! The extents of a file, as the file system reports them (FIEMAP).

use crate::Result;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

/// A contiguous range of a file on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhysicalExtent {
    /// First byte in the file.
    pub logical: u64,
    /// First byte on the device. On Btrfs, an address of its volume.
    pub physical: u64,
    pub length: u64,
}

/// Maximum number of extents per call.
const EXTENTS: usize = 128;

/// `struct fiemap` of `linux/fiemap.h`, followed by space for extents.
#[repr(C)]
struct ExtentQuery {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [KernelExtent; EXTENTS],
}

/// `struct fiemap_extent` of `linux/fiemap.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct KernelExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `FS_IOC_FIEMAP`, whose number encodes the size of the structure without its extents.
const FIEMAP: Opcode = rustix::ioctl::opcode::read_write::<[u64; 4]>(b'f', 11);
/// `FIEMAP_FLAG_SYNC`: write delayed data first, so that all of it has an address.
const SYNC: u32 = 1;
/// `FIEMAP_EXTENT_LAST`: the last extent of the file.
const LAST: u32 = 1;
/// Extents without an address of whole blocks: unknown, delayed, encoded (compressed), not aligned,
/// inline, tail.
const UNPLACED: u32 = 0x2 | 0x4 | 0x8 | 0x100 | 0x200 | 0x400;

/// Returns the extents of a file that lie in whole blocks on the device. `None` if the file system
/// does not report extents, as FUSE does not.
///
/// # Errors
/// I/O errors.
pub fn extents_of(path: &Path) -> Result<Option<Vec<PhysicalExtent>>> {
    use crate::ErrorContext;
    let file = File::open(path).at("opening", path)?;
    match query_extents(&file) {
        Ok(extents) => Ok(Some(extents)),
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS | Errno::INVAL) => Ok(None),
        Err(error) => Err(error).at("reading the extents of", path),
    }
}

fn query_extents(file: impl AsFd) -> std::result::Result<Vec<PhysicalExtent>, Errno> {
    let mut found = Vec::new();
    let mut start = 0;
    loop {
        let mut query = ExtentQuery {
            start,
            length: u64::MAX - start,
            flags: SYNC,
            mapped: 0,
            count: EXTENTS as u32,
            reserved: 0,
            extents: [KernelExtent::default(); EXTENTS],
        };
        // SAFETY: the call reads and writes a structure of this layout, followed by as many extents
        // as `count` says.
        unsafe { rustix::ioctl::ioctl(&file, Updater::<FIEMAP, ExtentQuery>::new(&mut query))? };
        let mapped = &query.extents[..(query.mapped as usize).min(EXTENTS)];
        let placed = mapped.iter().filter(|extent| extent.flags & UNPLACED == 0);
        found.extend(placed.map(|extent| PhysicalExtent {
            logical: extent.logical,
            physical: extent.physical,
            length: extent.length,
        }));
        match mapped.last() {
            Some(last) if last.flags & LAST == 0 && last.logical.saturating_add(last.length) > start => {
                start = last.logical.saturating_add(last.length);
            }
            _ => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn the_extents_of_a_file_cover_what_was_written_and_no_hole() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let file = File::create(&path).unwrap();
        file.write_all_at(&[7; 8192], 0).unwrap();
        file.write_all_at(&[7; 4096], 1 << 20).unwrap();
        let Some(extents) = extents_of(&path).unwrap() else {
            alluvium_device::skipped!(
                "FIEMAP",
                "the file system of {} reports no extents",
                path.display()
            );
            return;
        };
        assert_eq!(extents.iter().map(|extent| extent.length).sum::<u64>(), 12288);
        assert_eq!(extents[0].logical, 0);
        assert_eq!(extents.last().unwrap().logical, 1 << 20);
    }
}
