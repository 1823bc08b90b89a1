//! How a file system is mounted.

use std::time::Duration;

/// Who may use a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountAccess {
    /// All users, as the permissions of the files say. Where the operating system reserves this for
    /// root and refuses it, only the owner.
    Everyone,
    /// The user who mounts.
    Owner,
}

/// Until when the kernel keeps the contents of files in its page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageRetention {
    /// Until the file system reports a change to its listener. For file systems that report all
    /// changes of others.
    UntilNotice,
    /// Until the file is opened the next time, or its size or time of modification changes. For
    /// file systems that others change without a report.
    UntilOpened,
}

/// When the kernel passes on what programs write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCaching {
    /// Before `write` returns.
    Through,
    /// Later, or when the file is closed or synced. Only for file systems without other writers.
    Back,
}

/// Whether a mount can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountWritability {
    /// It can be read and written.
    ReadWrite,
    /// It can be read.
    ReadOnly,
}

/// What device files and set-user-ID bits in a mount do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceFiles {
    /// They have the effect that they have in other file systems. Only root can mount so; for
    /// others they have no effect.
    Honored,
    /// They have no effect (`nosuid`, `nodev`).
    Ignored,
}

/// How a file system is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// The source that the table of mounts shows.
    pub source: String,
    /// How long the kernel may remember to which inode a name refers. Zero: not at all.
    pub entry_timeout: Duration,
    /// How long the kernel may remember that a name does not exist. Zero: not at all.
    pub absence_timeout: Duration,
    /// How long the kernel may remember attributes. Zero: not at all.
    pub attribute_timeout: Duration,
    /// Until when the kernel keeps contents.
    pub pages: PageRetention,
    /// When the kernel passes on writes.
    pub writes: WriteCaching,
    /// Who may use the mount.
    pub access: MountAccess,
    /// Whether it can be written.
    pub writability: MountWritability,
    /// What device files and set-user-ID bits do.
    pub devices: DeviceFiles,
    /// Number of threads that serve requests, at least 1. A thread that syncs serves nothing else.
    pub threads: usize,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            source: "alluvium".to_owned(),
            entry_timeout: Duration::from_secs(60),
            absence_timeout: Duration::from_secs(60),
            attribute_timeout: Duration::from_secs(60),
            pages: PageRetention::UntilNotice,
            writes: WriteCaching::Through,
            access: MountAccess::Everyone,
            writability: MountWritability::ReadWrite,
            devices: DeviceFiles::Honored,
            threads: 8,
        }
    }
}
