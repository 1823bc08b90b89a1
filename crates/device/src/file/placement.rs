//! Determines whether a file system overwrites data in place or copies it on write.
//!
//! A store into a mapping cannot return an error. If it needs a block that the file system does not
//! have, a signal kills the process. Files are therefore mapped only on file systems that are known
//! to overwrite the allocated space of a range in place, now and later:
//!
//! - ext4, when the blocks of this very file are in extents (without extents, as on ext3, the only
//!   way to get space is to write);
//! - overlayfs, when the file below is such an ext4 file, whose flags the file reports;
//! - tmpfs.
//!
//! XFS is not among them, although it writes in place: any program may share a file's blocks with a
//! copy at any time (`cp --reflink`), and from then on a store requires new blocks. Unknown file
//! systems are treated as copy-on-write.

use rustix::io::Errno;
use std::os::fd::AsFd;

/// Magic numbers of file systems (`linux/magic.h`).
const EXT: u64 = 0xef53;
const OVERLAY: u64 = 0x794c_7630;
const TMPFS: u64 = 0x0102_1994;
const XFS: u64 = 0x5846_5342;

/// Magic numbers and names of copy-on-write file systems.
const COPY_ON_WRITE: [(u64, &str); 4] = [
    (0x9123_683e, "btrfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xca45_1a4e, "bcachefs"),
    (0xf2f5_2010, "f2fs"),
];

/// Flag of a file with extents (`FS_EXTENT_FL`), set only by ext4.
const IN_EXTENTS: u32 = 0x0008_0000;

/// Returns why a file must not be mapped, or `None` if a store into a mapping of allocated space
/// cannot fail for lack of space.
///
/// # Errors
/// I/O errors.
pub(super) fn objection(file: impl AsFd) -> Result<Option<String>, Errno> {
    let magic = rustix::fs::fstatfs(&file)?.f_type as u64 & u64::from(u32::MAX);
    let in_extents = || rustix::fs::ioctl_getflags(&file).is_ok_and(|flags| flags.bits() & IN_EXTENTS != 0);
    Ok(objection_for(magic, in_extents))
}

/// Returns whether the file system copies on write. Unknown file systems are assumed to. XFS copies
/// only shared blocks, so it counts as writing in place.
///
/// # Errors
/// I/O errors.
pub(super) fn copies_on_write(file: impl AsFd) -> Result<bool, Errno> {
    let magic = rustix::fs::fstatfs(&file)?.f_type as u64 & u64::from(u32::MAX);
    Ok(![EXT, XFS].contains(&magic) && objection(file)?.is_some())
}

fn objection_for(magic: u64, in_extents: impl Fn() -> bool) -> Option<String> {
    let objection = match magic {
        TMPFS => return None,
        EXT | OVERLAY if in_extents() => return None,
        EXT => "the file has no extents, so space cannot be reserved in it".to_owned(),
        OVERLAY => "the file system below this overlay is not known to write in place".to_owned(),
        XFS => {
            "on XFS a copy can share the blocks of a file (reflink), and then its space is no longer reserved"
                .to_owned()
        }
        _ => match COPY_ON_WRITE.iter().find(|(known, _)| *known == magic) {
            Some((_, name)) => {
                format!("{name} copies on write, so the space of a mapping cannot be reserved")
            }
            None => format!("this file system ({magic:#x}) is not known to write in place"),
        },
    };
    Some(objection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_file_systems_that_are_proven_to_write_in_place_are_mapped() {
        for (magic, in_extents, word) in [
            (EXT, true, None),
            (EXT, false, Some("extents")),
            (OVERLAY, true, None),
            (OVERLAY, false, Some("overlay")),
            (TMPFS, false, None),
            (XFS, true, Some("XFS")),
            (0x9123_683e, true, Some("btrfs")),
            (0x2fc1_2fc1, true, Some("zfs")),
            (0xf2f5_2010, true, Some("f2fs")),
            // FUSE passes on whatever flags its program reports.
            (0x6573_5546, true, Some("0x65735546")),
        ] {
            let objection = objection_for(magic, || in_extents);
            match word {
                None => assert_eq!(objection, None, "{magic:#x}"),
                Some(word) => assert!(objection.unwrap().contains(word), "{magic:#x}"),
            }
        }
    }
}
