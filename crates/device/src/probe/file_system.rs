//! The file system of a directory.

use crate::{DeviceOperation, Error, Result};
use alluvium_base::measurements::Medium;
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// Known file systems by magic number (`linux/magic.h`), and their media.
const KNOWN: [(u64, &str, Medium); 18] = [
    (0xef53, "ext4", Medium::Device),
    (0x5846_5342, "xfs", Medium::Device),
    (0x9123_683e, "btrfs", Medium::Device),
    (0x2fc1_2fc1, "zfs", Medium::Device),
    (0xf2f5_2010, "f2fs", Medium::Device),
    (0xca45_1a4e, "bcachefs", Medium::Device),
    (0x794c_7630, "overlayfs", Medium::Device),
    (0x0102_1994, "tmpfs", Medium::Memory),
    (0x8584_58f6, "ramfs", Medium::Memory),
    (0x9584_58f6, "hugetlbfs", Medium::Memory),
    (0x6969, "nfs", Medium::Network),
    (0xff53_4d42, "cifs", Medium::Network),
    (0xfe53_4d42, "smb2", Medium::Network),
    (0x517b, "smb", Medium::Network),
    (0x00c3_6400, "ceph", Medium::Network),
    (0x0102_1997, "9p", Medium::Network),
    (0x5346_414f, "afs", Medium::Network),
    (0x0bd0_0bd0, "lustre", Medium::Network),
];

/// Properties of a directory's file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystemInfo {
    /// Type of the file system, or its magic number if the type is unknown.
    pub file_system: String,
    pub medium: Medium,
    pub free_bytes: u64,
}

impl FileSystemInfo {
    /// Returns the properties of an in-memory directory.
    #[must_use]
    pub fn memory() -> FileSystemInfo {
        FileSystemInfo {
            file_system: "memory".to_owned(),
            medium: Medium::Memory,
            free_bytes: u64::MAX,
        }
    }

    /// Returns the medium that serves requests, considering the notes of the directory.
    pub(super) fn medium_with(&self, notes: &[String]) -> Medium {
        let is_refused = |note: &String| note.contains("direct I/O");
        match self.medium {
            Medium::Device if notes.iter().any(is_refused) => Medium::PageCache,
            medium => medium,
        }
    }
}

/// Returns the file system of a directory.
///
/// # Errors
/// `NotFound`, `PermissionDenied`, `Unsupported` if the path is not a directory, or I/O errors.
pub fn place_of(path: &Path) -> Result<FileSystemInfo> {
    let shown = path.display().to_string();
    let failed = |errno: Errno| Error::from_io(DeviceOperation::Open, &shown, 0, 0, io::Error::from(errno));
    let stat = rustix::fs::stat(path).map_err(failed)?;
    if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() {
        return Err(Error::Unsupported {
            operation: DeviceOperation::Open,
            file: shown,
            why: "it is not a directory".to_owned(),
        });
    }
    let about = rustix::fs::statfs(path).map_err(failed)?;
    // The number has 32 bits, which some machines sign-extend.
    let magic = about.f_type as u64 & u64::from(u32::MAX);
    let (file_system, medium) = KNOWN.iter().find(|(known, ..)| *known == magic).map_or_else(
        || (format!("file system {magic:#x}"), Medium::Device),
        |&(_, name, medium)| (name.to_owned(), medium),
    );
    Ok(FileSystemInfo {
        file_system,
        medium,
        free_bytes: about
            .f_bavail
            .saturating_mul(u64::try_from(about.f_bsize).unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_a_file_system_and_a_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let place = place_of(directory.path()).unwrap();
        assert!(!place.file_system.is_empty(), "{place:?}");
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        let refused = place_of(&file).unwrap_err();
        assert!(refused.to_string().contains("not a directory"), "{refused}");
        let missing = place_of(&directory.path().join("missing")).unwrap_err();
        assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
    }

    #[test]
    fn memory_is_told_from_devices() {
        let shared = Path::new("/dev/shm");
        if !shared.is_dir() {
            crate::skipped!("/dev/shm", "it is no directory");
            return;
        }
        assert_eq!(place_of(shared).unwrap().medium, Medium::Memory);
    }

    #[test]
    fn a_refused_direct_file_is_the_page_cache_s() {
        let place = FileSystemInfo {
            medium: Medium::Device,
            ..FileSystemInfo::memory()
        };
        let refused = ["direct I/O (O_DIRECT) is refused by the file system of /x".to_owned()];
        assert_eq!(place.medium_with(&refused), Medium::PageCache);
        assert_eq!(place.medium_with(&[]), Medium::Device);
        assert_eq!(FileSystemInfo::memory().medium_with(&refused), Medium::Memory);
    }
}
