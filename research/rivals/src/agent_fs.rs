//! AgentFS, a file system in a SQLite database (crate `agentfs-sdk`), behind our mounts.
//!
//! So the same programs are measured on both with the same kernel interface. AgentFS has no
//! extended attributes, no files without names and no holes; such operations are errors here.

use agentfs_sdk::filesystem::{FileSystem as AgentFiles, FsError, Stats, TimeChange as AgentTime};
use agentfs_sdk::{AgentFS, AgentFSOptions};
use alluvium_files::{
    AllocateMode, AttributeChange, Attributes, DirectoryEntry, Error, ErrorKind, FileKind, FileSystem, Inode,
    NewNode, RenameMode, Result, SeekTarget, SetMode, SpaceStatistics, TimeChange, Timestamp, WritePosition,
};
use alluvium_mount::{Mount, MountOptions, MountState};
use std::future::Future;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;

/// The files of an AgentFS database.
pub struct AgentFilesView {
    runtime: Runtime,
    agent: AgentFS,
}

/// Mounts the files of an AgentFS database until they are unmounted.
///
/// # Errors
/// Errors of the database and of the mount.
pub fn serve(database: &str, directory: &Path) -> anyhow::Result<()> {
    let runtime = Runtime::new()?;
    let agent = runtime.block_on(AgentFS::open(AgentFSOptions::with_path(database)))?;
    let files = std::sync::Arc::new(AgentFilesView { runtime, agent });
    let mount = Mount::new(files, directory, &MountOptions::default())?;
    println!("serving {}", mount.directory().display());
    while mount.wait(Duration::from_secs(3600)) == MountState::Mounted {}
    Ok(())
}

fn failed(error: agentfs_sdk::error::Error) -> Error {
    match error {
        agentfs_sdk::error::Error::Fs(error) => {
            let kind = match error {
                FsError::NotFound => ErrorKind::NotFound,
                FsError::AlreadyExists => ErrorKind::Exists,
                FsError::NotEmpty => ErrorKind::NotEmpty,
                FsError::NotADirectory => ErrorKind::NotADirectory,
                FsError::IsADirectory => ErrorKind::IsADirectory,
                _ => ErrorKind::InvalidArgument,
            };
            Error::told(kind, error.to_errno(), error.to_string())
        }
        other => Error::new(ErrorKind::Io, other.to_string()),
    }
}

fn unsupported<T>() -> Result<T> {
    Err(Error::new(
        ErrorKind::NotSupported,
        "AgentFS has no such operation",
    ))
}

fn text(name: &[u8]) -> Result<&str> {
    std::str::from_utf8(name)
        .map_err(|_| Error::new(ErrorKind::InvalidArgument, "AgentFS has names in UTF-8 only"))
}

fn number(inode: Inode) -> i64 {
    inode.0.cast_signed()
}

fn kind_of(mode: u32) -> FileKind {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileKind::Directory,
        libc::S_IFLNK => FileKind::Symlink,
        libc::S_IFIFO => FileKind::Pipe,
        libc::S_IFSOCK => FileKind::Socket,
        libc::S_IFBLK => FileKind::BlockDevice,
        libc::S_IFCHR => FileKind::CharacterDevice,
        _ => FileKind::Regular,
    }
}

fn attributes(stats: &Stats) -> Attributes {
    let time = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
    let size = stats.size.cast_unsigned();
    Attributes {
        inode: Inode(stats.ino.cast_unsigned()),
        generation: 0,
        kind: kind_of(stats.mode),
        mode: stats.mode & 0o7777,
        user: stats.uid,
        group: stats.gid,
        links: stats.nlink,
        size,
        blocks: size.div_ceil(512),
        device: stats.rdev,
        accessed: time(stats.atime, stats.atime_nsec),
        modified: time(stats.mtime, stats.mtime_nsec),
        changed: time(stats.ctime, stats.ctime_nsec),
        created: time(stats.ctime, stats.ctime_nsec),
    }
}

fn agent_time(change: Option<TimeChange>) -> AgentTime {
    match change {
        None => AgentTime::Omit,
        Some(TimeChange::Now) => AgentTime::Now,
        Some(TimeChange::At(time)) => AgentTime::Set(time.seconds, time.nanoseconds),
    }
}

impl AgentFilesView {
    fn wait<T>(&self, future: impl Future<Output = agentfs_sdk::error::Result<T>>) -> Result<T> {
        self.runtime.block_on(future).map_err(failed)
    }

    fn files(&self) -> &dyn AgentFiles {
        &self.agent.fs
    }

    fn stats(&self, inode: Inode) -> Result<Stats> {
        let found = self.wait(self.files().getattr(number(inode)))?;
        found.ok_or_else(|| Error::new(ErrorKind::Stale, format!("inode {} does not exist", inode.0)))
    }
}

impl FileSystem for AgentFilesView {
    fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes> {
        let found = self.wait(self.files().lookup(number(parent), text(name)?))?;
        let missing = || {
            Error::new(
                ErrorKind::NotFound,
                format!("{} does not exist", name.escape_ascii()),
            )
        };
        found.as_ref().map(attributes).ok_or_else(missing)
    }

    fn attributes(&self, inode: Inode) -> Result<Attributes> {
        Ok(attributes(&self.stats(inode)?))
    }

    fn parent(&self, directory: Inode) -> Result<Inode> {
        Ok(self.lookup(directory, b"..")?.inode)
    }

    fn set_attributes(&self, inode: Inode, change: &AttributeChange) -> Result<Attributes> {
        if let Some(mode) = change.mode {
            self.wait(self.files().chmod(number(inode), mode))?;
        }
        if change.user.is_some() || change.group.is_some() {
            self.wait(self.files().chown(number(inode), change.user, change.group))?;
        }
        if let Some(size) = change.size {
            let file = self.wait(self.files().open(number(inode), libc::O_RDWR))?;
            self.wait(file.truncate(size))?;
        }
        if change.accessed.is_some() || change.modified.is_some() {
            let times = (agent_time(change.accessed), agent_time(change.modified));
            self.wait(self.files().utimens(number(inode), times.0, times.1))?;
        }
        self.attributes(inode)
    }

    fn create(&self, parent: Inode, name: &[u8], node: &NewNode<'_>) -> Result<Attributes> {
        let (parent, name, files) = (number(parent), text(name)?, self.files());
        let (user, group) = (node.user, node.group);
        let created = match node.kind {
            FileKind::Directory => self.wait(files.mkdir(parent, name, node.mode, user, group)),
            FileKind::Symlink => self.wait(files.symlink(parent, name, text(node.target)?, user, group)),
            FileKind::Regular => self
                .wait(files.create_file(parent, name, node.mode | libc::S_IFREG, user, group))
                .map(|(stats, _)| stats),
            _ => return unsupported(),
        };
        Ok(attributes(&created?))
    }

    fn create_unnamed(&self, _parent: Inode, _node: &NewNode<'_>) -> Result<Attributes> {
        unsupported()
    }

    fn link(&self, inode: Inode, parent: Inode, name: &[u8]) -> Result<Attributes> {
        let linked = self.files().link(number(inode), number(parent), text(name)?);
        Ok(attributes(&self.wait(linked)?))
    }

    fn unlink(&self, parent: Inode, name: &[u8]) -> Result<()> {
        self.wait(self.files().unlink(number(parent), text(name)?))
    }

    fn remove_directory(&self, parent: Inode, name: &[u8]) -> Result<()> {
        self.wait(self.files().rmdir(number(parent), text(name)?))
    }

    fn rename(
        &self,
        parent: Inode,
        name: &[u8],
        new_parent: Inode,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        if mode != RenameMode::Replace {
            return unsupported();
        }
        let (name, new_name) = (text(name)?, text(new_name)?);
        self.wait(
            self.files()
                .rename(number(parent), name, number(new_parent), new_name),
        )
    }

    fn read_link(&self, inode: Inode) -> Result<Vec<u8>> {
        let target = self.wait(self.files().readlink(number(inode)))?;
        let none = || Error::new(ErrorKind::InvalidArgument, "this is no symbolic link");
        target.map(String::into_bytes).ok_or_else(none)
    }

    fn hold(&self, inode: Inode) -> Result<()> {
        self.stats(inode).map(drop)
    }

    fn release(&self, _inode: Inode) -> Result<()> {
        Ok(())
    }

    fn read(&self, inode: Inode, offset: u64, length: usize) -> Result<Vec<u8>> {
        let file = self.wait(self.files().open(number(inode), libc::O_RDONLY))?;
        self.wait(file.pread(offset, length as u64))
    }

    fn write(&self, inode: Inode, position: WritePosition, data: &[u8]) -> Result<u64> {
        let offset = match position {
            WritePosition::At(offset) => offset,
            WritePosition::End => self.stats(inode)?.size.cast_unsigned(),
        };
        let file = self.wait(self.files().open(number(inode), libc::O_RDWR))?;
        self.wait(file.pwrite(offset, data))?;
        Ok(offset)
    }

    fn allocate(&self, _inode: Inode, _mode: AllocateMode, _offset: u64, _length: u64) -> Result<()> {
        unsupported()
    }

    fn seek(&self, _inode: Inode, _offset: u64, _target: SeekTarget) -> Result<u64> {
        unsupported()
    }

    fn copy_range(
        &self,
        from: Inode,
        from_offset: u64,
        to: Inode,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        let length = usize::try_from(length.min(1 << 20)).unwrap_or(1 << 20);
        let data = self.read(from, from_offset, length)?;
        self.write(to, WritePosition::At(to_offset), &data)?;
        Ok(data.len() as u64)
    }

    fn read_directory(
        &self,
        directory: Inode,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        let found = self.wait(self.files().readdir_plus(number(directory)))?;
        let mut entries: Vec<DirectoryEntry> = found
            .unwrap_or_default()
            .into_iter()
            .map(|entry| DirectoryEntry {
                inode: Inode(entry.stats.ino.cast_unsigned()),
                kind: kind_of(entry.stats.mode),
                name: entry.name.into_bytes(),
            })
            .filter(|entry| after.is_none_or(|after| entry.name.as_slice() > after))
            .collect();
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        entries.truncate(limit);
        Ok(entries)
    }

    fn extended_attribute(&self, _inode: Inode, _name: &[u8]) -> Result<Vec<u8>> {
        Err(Error::new(
            ErrorKind::NoAttribute,
            "AgentFS has no extended attributes",
        ))
    }

    fn extended_attributes(&self, _inode: Inode) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    fn set_extended_attribute(
        &self,
        _inode: Inode,
        _name: &[u8],
        _value: &[u8],
        _mode: SetMode,
    ) -> Result<()> {
        unsupported()
    }

    fn remove_extended_attribute(&self, _inode: Inode, _name: &[u8]) -> Result<()> {
        unsupported()
    }

    fn sync(&self) -> Result<()> {
        self.wait(self.agent.fs.fsync("/"))
    }

    fn space(&self) -> Result<SpaceStatistics> {
        let found = self.wait(self.files().statfs())?;
        Ok(SpaceStatistics {
            block_bytes: 4096,
            blocks: (found.bytes_used >> 12) + (1 << 24),
            free_blocks: 1 << 24,
            inodes: found.inodes,
            free_inodes: 1 << 24,
            name_bytes: 255,
        })
    }
}
