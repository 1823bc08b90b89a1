//! Errors of mounts and views.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a file system cannot be mounted or unmounted, or a command cannot be run in a view.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    /// There is nothing at the path.
    #[error("cannot mount on {0:?}: it does not exist; create it with `mkdir -p`")]
    Missing(PathBuf),
    /// There is a file at the path.
    #[error("cannot mount on {0:?}: it is not a directory; name a directory")]
    NotADirectory(PathBuf),
    /// Something is mounted there.
    #[error(
        "cannot mount on {directory:?}: {mounted_source:?} ({kind}) is mounted there; unmount it with `umount`, or \
         name another directory"
    )]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// What is mounted, as the table of mounts names it.
        mounted_source: String,
        /// The type of the file system that is mounted.
        kind: String,
    },
    /// A FUSE mount of another program has lost its process.
    #[error(
        "cannot mount on {directory:?}: the process that served {mounted_source:?} ({kind}) there has ended; remove \
         that mount with `umount -l`"
    )]
    Abandoned {
        /// The directory.
        directory: PathBuf,
        /// What is mounted, as the table of mounts names it.
        mounted_source: String,
        /// The type of the file system that is mounted.
        kind: String,
    },
    /// The kernel has no FUSE.
    #[error(
        "cannot mount: /dev/fuse does not exist; load the kernel module with `modprobe fuse`, or pass the device to \
         the container (docker: --device /dev/fuse)"
    )]
    NoDevice,
    /// The operating system refuses to mount.
    #[error("cannot mount on {directory:?}: {step}: permission denied; {advice}")]
    NotPermitted {
        /// The directory.
        directory: PathBuf,
        /// What was refused.
        step: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// Files in the mount are in use.
    #[error(
        "cannot unmount {0:?}: it is in use; end the processes that have open files or their working directory there \
         (`lsof +f -- DIRECTORY` lists them)"
    )]
    Busy(PathBuf),
    /// The command cannot be started.
    #[error("cannot run {program:?}: {source}; name a program that is installed, or its path")]
    Command {
        /// The program.
        program: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Another call of the operating system failed.
    #[error("cannot mount on {directory:?}: {step}: {source}")]
    System {
        /// The directory.
        directory: PathBuf,
        /// What failed.
        step: &'static str,
        /// The error.
        source: io::Error,
    },
}
