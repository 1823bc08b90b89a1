//! The file systems that are compared, and how each is made.

use crate::error::is_installed;
use crate::{Error, Result, run_program};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// A file system to age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileSystemKind {
    Ext4,
    Xfs,
    /// Btrfs with nodes of this length in bytes, or of its default length, 16 KiB.
    Btrfs(Option<u32>),
    /// A store in a directory of ext4 on the same device, mounted by `alluvium mount`.
    Alluvium,
}

/// Identifier and hash seed of file systems of ext4. Directories are listed in the order of hashed
/// names, so a fixed seed makes the order the same in each run.
const EXT4_SEED: &str = "a111afaa-0001-4000-8000-000000000001";

impl FileSystemKind {
    /// Returns the name of the file system that the kernel mounts from the loop device.
    #[must_use]
    pub fn kernel_name(self) -> &'static str {
        match self {
            FileSystemKind::Ext4 | FileSystemKind::Alluvium => "ext4",
            FileSystemKind::Xfs => "xfs",
            FileSystemKind::Btrfs(_) => "btrfs",
        }
    }

    /// Returns the smallest size of a device, in bytes.
    #[must_use]
    pub fn least_bytes(self) -> u64 {
        match self {
            FileSystemKind::Ext4 => 16 << 20,
            FileSystemKind::Xfs => 300 << 20,
            FileSystemKind::Btrfs(_) => 256 << 20,
            FileSystemKind::Alluvium => 128 << 20,
        }
    }

    /// Returns an error unless this machine can make and mount the file system.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub fn require(self) -> Result<()> {
        for program in [&*format!("mkfs.{}", self.kernel_name()), "losetup", "mount"] {
            if !is_installed(program) {
                return Err(Error::Unavailable(format!(
                    "{self} cannot be made: {program} is not installed; install the package that contains it, or leave {self} out of \
                     --file-systems"
                )));
            }
        }
        if self == FileSystemKind::Alluvium && !Path::new("/dev/fuse").exists() {
            return Err(Error::Unavailable(
                "alluvium cannot be mounted: there is no /dev/fuse; leave it out of --file-systems"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Makes the file system on a device, which the caller has verified (AG1). The options are the
    /// defaults, apart from complete initialisation of ext4 (Conway 2020, §4.4).
    pub(super) fn make(self, device: &Path) -> Result<()> {
        let lazy = format!("lazy_itable_init=0,lazy_journal_init=0,hash_seed={EXT4_SEED}");
        let node;
        let mut words: Vec<&str> = match self {
            FileSystemKind::Ext4 | FileSystemKind::Alluvium => {
                vec!["-q", "-F", "-b", "4096", "-U", EXT4_SEED, "-E", &lazy]
            }
            FileSystemKind::Xfs | FileSystemKind::Btrfs(None) => vec!["-q", "-f"],
            FileSystemKind::Btrfs(Some(bytes)) => {
                node = bytes.to_string();
                vec!["-q", "-f", "-n", &node]
            }
        };
        let device = device.to_string_lossy();
        words.push(&device);
        run_program(&format!("mkfs.{}", self.kernel_name()), words).map(drop)
    }
}

impl fmt::Display for FileSystemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileSystemKind::Alluvium => f.write_str("alluvium"),
            FileSystemKind::Btrfs(Some(bytes)) => write!(f, "btrfs-{}K", bytes / 1024),
            other => f.write_str(other.kernel_name()),
        }
    }
}

impl FromStr for FileSystemKind {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<FileSystemKind, String> {
        let node = |text: &str| {
            let kib: u32 = text.strip_suffix('K')?.parse().ok()?;
            let is_valid = kib.is_power_of_two() && (4..=64).contains(&kib);
            is_valid.then_some(FileSystemKind::Btrfs(Some(kib * 1024)))
        };
        match text {
            "ext4" => Ok(FileSystemKind::Ext4),
            "xfs" => Ok(FileSystemKind::Xfs),
            "btrfs" => Ok(FileSystemKind::Btrfs(None)),
            "alluvium" => Ok(FileSystemKind::Alluvium),
            other => other.strip_prefix("btrfs-").and_then(node).ok_or_else(|| {
                format!(
                    "there is no file system {other:?} to age: choose ext4, xfs, btrfs, btrfs-4K to btrfs-64K (the length of nodes), or \
                     alluvium"
                )
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_printed_alike() {
        for name in ["ext4", "xfs", "btrfs", "btrfs-4K", "btrfs-64K", "alluvium"] {
            assert_eq!(name.parse::<FileSystemKind>().unwrap().to_string(), name);
        }
        for name in ["zfs", "btrfs-5K", "btrfs-128K", "btrfs-", ""] {
            assert!(name.parse::<FileSystemKind>().is_err(), "{name}");
        }
    }
}
