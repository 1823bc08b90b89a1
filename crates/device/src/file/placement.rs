//! Where a file system puts a changed page: in its place, or somewhere else.
//!
//! A store into a mapping cannot be refused: where it needs a block that the file system does not
//! have, the process gets a signal and dies. So files are mapped only where it is proven that the
//! space of a range, once it is allocated, is the space that is written to, now and later:
//!
//! - ext4, when the blocks of this very file are in extents (without them, as on ext3, space is
//!   only had by writing);
//! - overlayfs, when the file below is such a file of ext4: the flags of a file are those of the
//!   file below;
//! - tmpfs.
//!
//! XFS is not among them, although it writes in place: any program may share the blocks of a file
//! with a copy of it at any time (`cp --reflink`), and from then on a store needs new ones. What is
//! not known here counts as copying on write.

use rustix::io::Errno;
use std::os::fd::AsFd;

/// The numbers that file systems give themselves (`linux/magic.h`).
const EXT: u64 = 0xef53;
const OVERLAY: u64 = 0x794c_7630;
const TMPFS: u64 = 0x0102_1994;
const XFS: u64 = 0x5846_5342;

/// File systems that write a changed page to a new place.
const COPY_ON_WRITE: [(u64, &str); 4] = [
    (0x9123_683e, "btrfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xca45_1a4e, "bcachefs"),
    (0xf2f5_2010, "f2fs"),
];

/// The flag of a file whose blocks are in extents (`FS_EXTENT_FL`), which only ext4 sets.
const IN_EXTENTS: u32 = 0x0008_0000;

/// Tells what is to be said against mapping a file; nothing where stores into a mapping of
/// allocated space cannot fail for lack of space.
///
/// # Errors
/// As the operating system says.
pub(super) fn objection(file: impl AsFd) -> Result<Option<String>, Errno> {
    let magic = rustix::fs::fstatfs(&file)?.f_type as u64 & u64::from(u32::MAX);
    let in_extents = || rustix::fs::ioctl_getflags(&file).is_ok_and(|flags| flags.bits() & IN_EXTENTS != 0);
    Ok(judge(magic, in_extents))
}

/// Tells whether the file system writes to a new place what was written before. What is not known
/// counts as doing so; XFS does it only where blocks are shared.
///
/// # Errors
/// As the operating system says.
pub(super) fn copies_on_write(file: impl AsFd) -> Result<bool, Errno> {
    let magic = rustix::fs::fstatfs(&file)?.f_type as u64 & u64::from(u32::MAX);
    Ok(![EXT, XFS].contains(&magic) && objection(file)?.is_some())
}

fn judge(magic: u64, in_extents: impl Fn() -> bool) -> Option<String> {
    let objection = match magic {
        TMPFS => return None,
        EXT | OVERLAY if in_extents() => return None,
        EXT => "the file has no extents, so space cannot be reserved in it".to_owned(),
        OVERLAY => "the file system below this overlay is not known to write in place".to_owned(),
        XFS => "on XFS a copy may come to share the blocks of a file (reflink), and then its space is not reserved any more".to_owned(),
        _ => match COPY_ON_WRITE.iter().find(|(known, _)| *known == magic) {
            Some((_, name)) => format!("{name} copies on write, so the space of a mapping cannot be reserved"),
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
            // FUSE hands on whatever flags a program invents.
            (0x6573_5546, true, Some("0x65735546")),
        ] {
            let objection = judge(magic, || in_extents);
            match word {
                None => assert_eq!(objection, None, "{magic:#x}"),
                Some(word) => assert!(objection.unwrap().contains(word), "{magic:#x}"),
            }
        }
    }
}
