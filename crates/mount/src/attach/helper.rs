//! `fusermount3`: a program of the operating system that mounts for users who are not root. It gets
//! a socket in the variable `_FUSE_COMMFD` and sends the device over it.

use super::{DetachMode, KIND, receive_descriptor, socket_pair, system_error};
use crate::error::MountError;
use crate::options::{MountAccess, MountOptions, MountWritability};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Output};

const PROGRAM: &str = "fusermount3";

/// Mounts a directory. The administrator may forbid that other users see the mount; it is then
/// mounted for the owner alone.
pub(super) fn mount(directory: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    match run(directory, options, options.access) {
        Err(_) if options.access == MountAccess::Everyone => {
            tracing::warn!(
                "other users cannot see the mount on {directory:?}: /etc/fuse.conf needs the line user_allow_other"
            );
            run(directory, options, MountAccess::Owner)
        }
        other => other,
    }
}

fn run(directory: &Path, options: &MountOptions, access: MountAccess) -> Result<OwnedFd, MountError> {
    let failed = |error| system_error(directory, "mounting with fusermount3", error);
    let (own, theirs) = socket_pair().map_err(failed)?;
    // The program inherits the socket.
    rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty()).map_err(|error| failed(error.into()))?;
    let kind = KIND.trim_start_matches("fuse.");
    let mut text = format!("fsname={},subtype={kind},default_permissions", options.source);
    if access == MountAccess::Everyone {
        text.push_str(",allow_other");
    }
    if options.writability == MountWritability::ReadOnly {
        text.push_str(",ro");
    }
    let mut command = Command::new(PROGRAM);
    command.args(["-o", &text, "--"]).arg(directory);
    command.env("_FUSE_COMMFD", theirs.as_raw_fd().to_string());
    let output = command.output();
    drop(theirs);
    checked(directory, output)?;
    match receive_descriptor(own.as_fd()).map_err(failed)? {
        Some((_, Some(device))) => Ok(device),
        _ => Err(failed(io::Error::other("it sent no device"))),
    }
}

/// Unmounts a directory.
pub(super) fn unmount(directory: &Path, detachment: DetachMode) -> Result<(), MountError> {
    let mut command = Command::new(PROGRAM);
    command.arg("-u");
    if detachment == DetachMode::Forced {
        command.arg("-z");
    }
    command.arg("--").arg(directory);
    checked(directory, command.output())
}

fn checked(directory: &Path, output: io::Result<Output>) -> Result<(), MountError> {
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(system_error(directory, PROGRAM, io::Error::other(text)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(MountError::NotPermitted {
            directory: directory.to_owned(),
            step: "mounting as a user who is not root",
            advice: "install `fusermount3` (on Debian: apt-get install fuse3), or run the command as root",
        }),
        Err(error) => Err(system_error(directory, PROGRAM, error)),
    }
}
