//! What lies under a directory that a user names: an image of this crate, or another device.

use super::image::{MarkedImage, image_of};
use super::mounts::{self, MountEntry};
use crate::measure::events::DeviceNumber;
use crate::{Error, ErrorContext, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The block device of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryDevice {
    pub number: DeviceNumber,
    /// Whether the device is a loop device, which serves one file system only.
    pub is_loop: bool,
}

fn mount_of(directory: &Path) -> Result<MountEntry> {
    let path = fs::canonicalize(directory).at("finding", directory)?;
    mounts::containing(&path)?
        .ok_or_else(|| Error::Refused(format!("{} lies in no mount of this process", path.display())))
}

/// Mounts the file system of a directory again, if it lies in an image of this crate. Returns
/// whether it does.
///
/// # Errors
/// [`Error::Refused`] if a run uses the image; an error of a program.
pub fn remount_own(directory: &Path) -> Result<bool> {
    let entry = mount_of(directory)?;
    let source = PathBuf::from(&entry.source);
    let Ok(image) = image_of(&source) else {
        return Ok(false);
    };
    let _lock = MarkedImage::lock(image)?;
    mounts::unmount(&entry.directory)?;
    mounts::wait_until_unused(&source)?;
    mounts::mount(&entry.file_system, &source, &entry.directory, "rw")?;
    Ok(true)
}

/// Returns the block device on which a directory lies. For a partition, that is the whole disk,
/// whose requests the kernel reports.
///
/// # Errors
/// [`Error::Refused`] if the file system has no block device; I/O errors.
pub fn device_of(directory: &Path) -> Result<DirectoryDevice> {
    use std::os::unix::fs::MetadataExt;
    let entry = mount_of(directory)?;
    // Btrfs has a number of its own, and its source is the device.
    let number = match fs::metadata(&entry.source) {
        Ok(status) if status.rdev() != 0 => {
            let (major, minor) = (rustix::fs::major(status.rdev()), rustix::fs::minor(status.rdev()));
            DeviceNumber { major, minor }
        }
        _ => entry.device,
    };
    let described = Path::new("/sys/dev/block").join(number.to_string());
    let Ok(described) = fs::canonicalize(&described) else {
        return Err(Error::Refused(format!(
            "{} is on {}, which has no block device whose requests could be recorded: give a trace as --input",
            directory.display(),
            entry.file_system
        )));
    };
    let is_partition = described.join("partition").exists();
    let whole = described.parent().filter(|_| is_partition).unwrap_or(&described);
    let path = whole.join("dev");
    let text = fs::read_to_string(&path).at("reading", &path)?;
    let number = DeviceNumber::parse(&text)
        .ok_or_else(|| Error::Refused(format!("{} names no device: {text:?}", path.display())))?;
    Ok(DirectoryDevice {
        number,
        is_loop: whole.join("loop").exists(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_outside_of_images_is_never_remounted() {
        let place = tempfile::tempdir().unwrap();
        assert!(!remount_own(place.path()).unwrap());
        assert!(!remount_own(Path::new("/proc")).unwrap());
        let refused = device_of(Path::new("/proc")).unwrap_err();
        assert!(refused.to_string().contains("no block device"), "{refused}");
    }
}
