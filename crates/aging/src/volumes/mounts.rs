//! Mounts: the kernel's list of them, mounting and unmounting.

use crate::measure::events::DeviceNumber;
use crate::{Error, ErrorContext, Result, run_program};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LIST: &str = "/proc/self/mountinfo";

/// Maximum time to wait until the last user of a mount has closed its files.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum time to wait until other mount namespaces have ended.
const NAMESPACE_PATIENCE: Duration = Duration::from_secs(120);

/// A mount of this process's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// Number of the file system, by which the kernel names its read-ahead.
    pub device: DeviceNumber,
    pub directory: PathBuf,
    pub file_system: String,
    /// As in `/dev/loop0`.
    pub source: String,
}

/// Lists all mounts, in the order in which they were made.
///
/// # Errors
/// I/O errors.
pub fn list() -> Result<Vec<MountEntry>> {
    let path = Path::new(LIST);
    let text = fs::read_to_string(path).at("reading", path)?;
    Ok(text.lines().filter_map(parse_line).collect())
}

/// Returns the newest mount on a directory, whose path may be relative.
///
/// # Errors
/// I/O errors.
pub fn find(directory: &Path) -> Result<Option<MountEntry>> {
    // The kernel lists absolute paths. A directory that is gone has no mount.
    let canonical = fs::canonicalize(directory);
    let directory = canonical.as_deref().unwrap_or(directory);
    Ok(list()?
        .into_iter()
        .rev()
        .find(|entry| entry.directory == directory))
}

/// Returns the newest mount that contains a path, which must be canonical.
///
/// # Errors
/// I/O errors.
pub fn containing(path: &Path) -> Result<Option<MountEntry>> {
    let entries = list()?
        .into_iter()
        .filter(|entry| path.starts_with(&entry.directory));
    // Of several mounts on one directory, the newest hides the others.
    Ok(entries.max_by_key(|entry| entry.directory.components().count()))
}

/// Parses `36 35 7:0 / /mnt rw,noatime shared:1 - ext4 /dev/loop0 rw`.
fn parse_line(line: &str) -> Option<MountEntry> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(2);
    let (device, directory) = (before.next()?, before.nth(1)?);
    let mut after = after.split(' ');
    Some(MountEntry {
        device: DeviceNumber::parse(device)?,
        directory: PathBuf::from(unescape(directory)),
        file_system: after.next()?.to_owned(),
        source: after.next()?.to_owned(),
    })
}

/// Decodes the kernel's escapes of spaces and control characters, as in `\040`.
fn unescape(text: &str) -> OsString {
    let bytes = text.as_bytes();
    let (mut decoded, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let octal = text
            .get(at + 1..at + 4)
            .filter(|_| byte == b'\\')
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        decoded.push(octal.unwrap_or(byte));
        at += if octal.is_some() { 4 } else { 1 };
    }
    OsString::from_vec(decoded)
}

/// Mounts a file system.
///
/// # Errors
/// The message of `mount`.
pub fn mount(file_system: &str, source: &Path, directory: &Path, options: &str) -> Result<()> {
    let (source, directory) = (source.as_os_str(), directory.as_os_str());
    let words = ["-t", file_system, "-o", options].map(std::ffi::OsStr::new);
    run_program("mount", words.into_iter().chain([source, directory])).map(drop)
}

/// Unmounts all mounts on a directory. Waits for a while for processes that use them.
///
/// # Errors
/// The message of `umount`.
pub fn unmount(directory: &Path) -> Result<()> {
    let began = Instant::now();
    while find(directory)?.is_some() {
        match run_program("umount", [directory.as_os_str()]) {
            Err(Error::Program { output, .. }) if output.contains("busy") && began.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(50));
            }
            // Another process may have unmounted it at the same time.
            Err(error) if find(directory)?.is_some() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Waits until no mount uses a block device, once it is unmounted here. A mount namespace that
/// another program created in the meantime has a copy of each mount, and the kernel keeps the file
/// system with its caches until the last copy is gone.
///
/// # Errors
/// [`Error::Refused`] if the device stays in use; I/O errors.
pub(super) fn wait_until_unused(device: &Path) -> Result<()> {
    let began = Instant::now();
    loop {
        // The kernel refuses an exclusive opening while a file system uses the device.
        match rustix::fs::open(
            device,
            OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            Ok(_) => return Ok(()),
            Err(Errno::BUSY) if began.elapsed() < NAMESPACE_PATIENCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(Errno::BUSY) => {
                return Err(Error::Refused(format!(
                    "{} is still mounted in the mount namespace of another program, so its caches cannot be emptied: end containers and \
                     commands in transactions, and run again",
                    device.display()
                )));
            }
            Err(error) => return Err(error).at("opening", device),
        }
    }
}

/// Unmounts at once, also if the server of the file system has died or files are open.
pub(super) fn detach(directory: &Path) -> Result<()> {
    while find(directory)?.is_some() {
        run_program("umount", ["-l".as_ref(), directory.as_os_str()])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_parsed_with_their_escapes() {
        let line = "36 35 7:3 / /mnt/a\\040b\\134c rw,noatime shared:1 master:2 - ext4 /dev/loop3 rw,errors=continue";
        let entry = parse_line(line).unwrap();
        assert_eq!(entry.directory, PathBuf::from("/mnt/a b\\c"));
        assert_eq!(
            (entry.file_system.as_str(), entry.source.as_str()),
            ("ext4", "/dev/loop3")
        );
        assert_eq!((entry.device.major, entry.device.minor), (7, 3));
        assert_eq!(parse_line("no mount"), None);
    }

    #[test]
    fn mounts_of_this_machine_are_listed_and_none_is_on_a_new_directory() {
        assert!(find(Path::new("/proc")).unwrap().is_some());
        let ups = std::env::current_dir().unwrap().components().count() - 1;
        let relative = Path::new(&"../".repeat(ups)).join("proc");
        assert!(find(&relative).unwrap().is_some(), "{}", relative.display());
        let place = tempfile::tempdir().unwrap();
        assert_eq!(find(place.path()).unwrap(), None);
        unmount(place.path()).unwrap();
    }
}
