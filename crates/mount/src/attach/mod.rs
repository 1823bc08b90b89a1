//! Attaching a FUSE device to a directory, and detaching it.
//!
//! *Scope*: `/dev/fuse`, `mount(2)`, `umount2(2)`, `fusermount3`, the kernel's table of mounts.
//!
//! *Must not depend on*: requests.

mod device;
mod helper;
mod system;
mod table;

pub(crate) use device::{KernelMount, kernel_mount};
pub(crate) use system::{clone_device, receive_descriptor, send_descriptor, socket_pair};
pub(crate) use table::{process_mounts, read_process_file};

use crate::error::MountError;
use crate::options::MountOptions;
use rustix::fs::{Mode, OFlags};
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The type under which the table of mounts shows a mount of ours. Not a tuning parameter.
pub(crate) const KIND: &str = "fuse.alluvium";

/// Whether processes that use a mount keep it from being unmounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DetachMode {
    /// They do.
    UnlessBusy,
    /// They get ENOTCONN from now on.
    Forced,
}

/// Mounts a new FUSE device on a directory, and returns the device and the directory's full path.
pub(crate) fn attach(directory: &Path, options: &MountOptions) -> Result<(OwnedFd, PathBuf), MountError> {
    let directory = prepare(directory)?;
    let device = match device::open_and_mount(&directory, options) {
        Err(MountError::NotPermitted { .. }) if rustix::process::geteuid().as_raw() != 0 => {
            helper::mount(&directory, options)?
        }
        other => other?,
    };
    Ok((device, directory))
}

/// How far the kernel reads ahead in files that a program reads in order, in KiB. Its own limit for
/// FUSE is 128.
/// Tuning: `1024` since 2026-11-30; reading 1 MiB that is not in memory took 2.2 ms, and takes 1.1.
const READ_AHEAD_KIB: &[u8] = b"1024";

/// Lets the kernel read farther ahead in the files of a mount in the namespace of a process. The
/// mount has answered its first request. Only root may ask for it; reads are slower without.
pub(crate) fn widen_read_ahead(process: &str, directory: &Path) {
    let Some(entry) = table::mounted_at(process, directory).filter(|entry| entry.kind == KIND) else {
        return;
    };
    let setting = format!("/sys/class/bdi/{}/read_ahead_kb", entry.device);
    let set = rustix::fs::open(&setting, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
        .and_then(|file| rustix::io::write(&file, READ_AHEAD_KIB));
    if let Err(error) = set {
        tracing::debug!("the kernel reads ahead as far as usual: writing {setting}: {error}");
    }
}

/// Checks a directory, and removes the mount of a process that has ended.
fn prepare(directory: &Path) -> Result<PathBuf, MountError> {
    if probe(directory)? == DirectoryState::Abandoned {
        clear_abandoned(directory)?;
        if probe(directory)? == DirectoryState::Abandoned {
            return Err(abandoned(directory));
        }
    }
    let path = full_path(directory)?;
    if let Some(entry) = table::mounted_at("self", &path) {
        return Err(MountError::InUse {
            directory: directory.to_owned(),
            mounted_source: entry.source,
            kind: entry.kind,
        });
    }
    Ok(path)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DirectoryState {
    Usable,
    /// A FUSE mount whose process has ended.
    Abandoned,
}

fn probe(directory: &Path) -> Result<DirectoryState, MountError> {
    match rustix::fs::stat(directory) {
        Ok(status) if rustix::fs::FileType::from_raw_mode(status.st_mode).is_dir() => {
            Ok(DirectoryState::Usable)
        }
        Ok(_) => Err(MountError::NotADirectory(directory.to_owned())),
        Err(rustix::io::Errno::NOTCONN | rustix::io::Errno::CONNABORTED) => Ok(DirectoryState::Abandoned),
        Err(rustix::io::Errno::NOENT) => Err(MountError::Missing(directory.to_owned())),
        Err(rustix::io::Errno::NOTDIR) => Err(MountError::NotADirectory(directory.to_owned())),
        Err(error) => Err(system_error(directory, "looking at the directory", error.into())),
    }
}

/// Removes the mount of a process of ours that has ended.
fn clear_abandoned(directory: &Path) -> Result<(), MountError> {
    let path = full_path(directory)?;
    let Some(entry) = table::mounted_at("self", &path) else {
        return Ok(());
    };
    if entry.kind != KIND {
        return Err(MountError::Abandoned {
            directory: directory.to_owned(),
            mounted_source: entry.source,
            kind: entry.kind,
        });
    }
    tracing::warn!("the process that served {path:?} has ended: removing its mount");
    detach(&path, DetachMode::Forced)
}

fn abandoned(directory: &Path) -> MountError {
    MountError::Abandoned {
        directory: directory.to_owned(),
        mounted_source: "a file system".to_owned(),
        kind: "fuse".to_owned(),
    }
}

/// Returns the path without links and dots. The last part may be a mount whose process has ended,
/// so only its parent is resolved if it cannot be.
fn full_path(directory: &Path) -> Result<PathBuf, MountError> {
    let resolved = directory.canonicalize().or_else(|error| {
        let (Some(parent), Some(name)) = (directory.parent(), directory.file_name()) else {
            return Err(error);
        };
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        Ok(parent.canonicalize()?.join(name))
    });
    resolved.map_err(|error| system_error(directory, "resolving the path", error))
}

/// Unmounts what is mounted on a directory.
pub(crate) fn detach(directory: &Path, detachment: DetachMode) -> Result<(), MountError> {
    let path = c_string(directory)?;
    let flags = match detachment {
        DetachMode::UnlessBusy => 0,
        DetachMode::Forced => libc::MNT_FORCE | libc::MNT_DETACH,
    };
    let error = match system::unmount(&path, flags) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    match error.raw_os_error() {
        // Another process has unmounted it.
        Some(libc::EINVAL | libc::ENOENT) => Ok(()),
        Some(libc::EBUSY) => Err(MountError::Busy(directory.to_owned())),
        Some(libc::EPERM) => helper::unmount(directory, detachment),
        _ => Err(MountError::System {
            directory: directory.to_owned(),
            step: "unmounting",
            source: error,
        }),
    }
}

pub(crate) fn system_error(directory: &Path, step: &'static str, source: io::Error) -> MountError {
    MountError::System {
        directory: directory.to_owned(),
        step,
        source,
    }
}

pub(crate) fn c_string(path: &Path) -> Result<CString, MountError> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|error| system_error(path, "reading the path, which has a zero byte", error.into()))
}
