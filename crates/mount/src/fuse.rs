//! The one file that knows `fuser`: requests of the kernel become calls of [`Serving`], and answers
//! become replies.

use crate::notices::Notice;
use crate::options::{PageRetention, WriteCaching};
use crate::serve::{
    Answer, Caller, CopyRange, Creation, Errno, Filled, ListingDetail, LookupReply, NodeReply, Server,
    Serving, WritePrivileges,
};
use alluvium_files::{
    AttributeChange, Attributes, FileKind, Inode, RenameMode, TimeChange, Timestamp, WritePosition,
};
use fuser::{
    BackgroundSession, BsdFileFlags, Config, CopyFileRangeFlags, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, Session, SessionACL,
    TimeOrNow, WriteFlags,
};
use parking_lot::{Condvar, Mutex};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longest write, and longest read, in one request.
const LONGEST_TRANSFER: u32 = 1 << 20;
/// Requests that the kernel has under way at once without a program that waits for them.
const BACKGROUND_REQUESTS: u16 = 64;
/// The size of blocks that programs are advised to read and write.
const PREFERRED_BYTES: u32 = 4096;

/// The threads that serve a mount.
pub(crate) struct FuseSession {
    background: BackgroundSession,
    notifying: JoinHandle<()>,
    ending: Arc<Ending>,
}

/// Whether the kernel has ended the mount.
#[derive(Default)]
struct Ending {
    has_ended: Mutex<bool>,
    changed: Condvar,
}

impl FuseSession {
    /// Serves a mounted device.
    pub(crate) fn start(server: &Arc<Server>, device: OwnedFd) -> io::Result<FuseSession> {
        let ending = Arc::new(Ending::default());
        let bridge = Bridge {
            server: server.clone(),
            ending: ending.clone(),
        };
        let mut config = Config::default();
        config.n_threads = Some(server.options().threads.max(1));
        config.clone_fd = true;
        // The kernel itself restricts who may use the mount.
        let background = Session::from_fd(bridge, device, SessionACL::All, config)?.spawn()?;
        let (notifier, notices) = (background.notifier(), server.notices().clone());
        let notifying = std::thread::Builder::new()
            .name("notices".to_owned())
            .spawn(move || {
                notices.deliver(|notice| {
                    let sent = match notice {
                        Notice::Entry { parent, name } => {
                            notifier.inval_entry(INodeNo(parent.0), OsStr::from_bytes(name))
                        }
                        Notice::Contents(inode) => notifier.inval_inode(INodeNo(inode.0), 0, 0),
                    };
                    if let Err(error) = sent {
                        tracing::debug!("the kernel did not take {notice:?}: {error}");
                    }
                });
            })?;
        Ok(FuseSession {
            background,
            notifying,
            ending,
        })
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.ending.has_ended.lock()
    }

    /// Waits until the kernel has ended the mount, and returns whether it has.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut has_ended = self.ending.has_ended.lock();
        while !*has_ended {
            if self.ending.changed.wait_until(&mut has_ended, until).timed_out() {
                return *has_ended;
            }
        }
        true
    }

    /// Waits for the threads. The mount has ended, and so have the server's notices.
    pub(crate) fn join(self) {
        if let Err(error) = self.background.join() {
            tracing::warn!("a mount ended with an error: {error}");
        }
        if self.notifying.join().is_err() {
            tracing::error!("the thread for notices panicked");
        }
    }
}

struct Bridge {
    server: Arc<Server>,
    ending: Arc<Ending>,
}

impl Bridge {
    fn answer<T>(&self, work: impl FnOnce(&Serving<'_>) -> Answer<T>) -> Result<T, fuser::Errno> {
        let answer = self.server.answer(work);
        answer.map_err(|Errno(number)| fuser::Errno::from_i32(number))
    }

    fn empty(&self, reply: ReplyEmpty, work: impl FnOnce(&Serving<'_>) -> Answer<()>) {
        match self.answer(work) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn entry(&self, reply: ReplyEntry, work: impl FnOnce(&Serving<'_>) -> Answer<NodeReply>) {
        match self.answer(work) {
            Ok(node) => found(reply, &node),
            Err(error) => reply.error(error),
        }
    }

    fn attr(&self, reply: ReplyAttr, work: impl FnOnce(&Serving<'_>) -> Answer<NodeReply>) {
        match self.answer(work) {
            Ok(node) => reply.attr(&node.attribute_timeout, &file_attr(&node.attributes)),
            Err(error) => reply.error(error),
        }
    }

    fn open_flags(&self) -> FopenFlags {
        match self.server.options().pages {
            PageRetention::UntilNotice => FopenFlags::FOPEN_KEEP_CACHE,
            PageRetention::UntilOpened => FopenFlags::empty(),
        }
    }
}

fn found(reply: ReplyEntry, node: &NodeReply) {
    let attributes = file_attr(&node.attributes);
    let generation = Generation(node.attributes.generation);
    reply.entry_with_ttls(
        &node.attribute_timeout,
        &node.entry_timeout,
        &attributes,
        generation,
    );
}

/// Answers with a value, or with its size if the program asks for that.
fn sized(reply: ReplyXattr, size: u32, answer: Result<Vec<u8>, fuser::Errno>) {
    match answer {
        Err(error) => reply.error(error),
        Ok(value) => match u32::try_from(value.len()) {
            Ok(length) if size == 0 => reply.size(length),
            Ok(length) if length <= size => reply.data(&value),
            _ => reply.error(fuser::Errno::ERANGE),
        },
    }
}

fn caller(request: &Request) -> Caller {
    Caller {
        user: request.uid(),
        group: request.gid(),
    }
}

fn inode(number: INodeNo) -> Inode {
    Inode(number.0)
}

fn kind_of_mode(mode: u32) -> Option<FileKind> {
    Some(match mode & libc::S_IFMT {
        0 | libc::S_IFREG => FileKind::Regular,
        libc::S_IFDIR => FileKind::Directory,
        libc::S_IFLNK => FileKind::Symlink,
        libc::S_IFIFO => FileKind::Pipe,
        libc::S_IFSOCK => FileKind::Socket,
        libc::S_IFBLK => FileKind::BlockDevice,
        libc::S_IFCHR => FileKind::CharacterDevice,
        _ => return None,
    })
}

fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Pipe => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::CharacterDevice => FileType::CharDevice,
    }
}

/// The kernel's 32 bits of a device number: the minor number around the major one.
fn encoded_device(device: u64) -> u32 {
    let (major, minor) = (libc::major(device), libc::minor(device));
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

fn decoded_device(device: u32) -> u64 {
    let major = (device >> 8) & 0xfff;
    let minor = device & 0xff | (device >> 12) & 0xfff00;
    libc::makedev(major, minor)
}

fn system_time(time: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let second = if time.seconds < 0 {
        UNIX_EPOCH.checked_sub(whole)
    } else {
        UNIX_EPOCH.checked_add(whole)
    };
    let exact = second.and_then(|second| second.checked_add(Duration::from_nanos(time.nanoseconds.into())));
    exact.unwrap_or(UNIX_EPOCH)
}

/// Returns the time that the kernel has sent. Before 1970, fuser subtracts the nanoseconds from the
/// second instead of adding them, so they are the fraction of the distance.
fn timestamp(time: SystemTime) -> Timestamp {
    let (distance, is_before) = match time.duration_since(UNIX_EPOCH) {
        Ok(distance) => (distance, false),
        Err(error) => (error.duration(), true),
    };
    let seconds = i64::try_from(distance.as_secs()).unwrap_or(i64::MAX);
    Timestamp {
        seconds: if is_before { -seconds } else { seconds },
        nanoseconds: distance.subsec_nanos(),
    }
}

fn time_change(time: TimeOrNow) -> TimeChange {
    match time {
        TimeOrNow::Now => TimeChange::Now,
        TimeOrNow::SpecificTime(time) => TimeChange::At(timestamp(time)),
    }
}

#[allow(clippy::cast_possible_truncation)]
fn file_attr(attributes: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(attributes.inode.0),
        size: attributes.size,
        blocks: attributes.blocks,
        atime: system_time(attributes.accessed),
        mtime: system_time(attributes.modified),
        ctime: system_time(attributes.changed),
        crtime: system_time(attributes.created),
        kind: file_type(attributes.kind),
        perm: (attributes.mode & 0o7777) as u16,
        nlink: attributes.links,
        uid: attributes.user,
        gid: attributes.group,
        rdev: encoded_device(attributes.device),
        blksize: PREFERRED_BYTES,
        flags: 0,
    }
}

fn plain(kind: FileKind, mode: u32, umask: u32) -> Creation<'static> {
    Creation {
        kind,
        mode: mode & 0o7777,
        umask,
        device: 0,
        target: b"",
    }
}

impl Filesystem for Bridge {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let options = self.server.options();
        let pages = match options.pages {
            PageRetention::UntilNotice => InitFlags::FUSE_EXPLICIT_INVAL_DATA,
            PageRetention::UntilOpened => InitFlags::FUSE_AUTO_INVAL_DATA,
        };
        let writes = match options.writes {
            WriteCaching::Through => InitFlags::empty(),
            WriteCaching::Back => InitFlags::FUSE_WRITEBACK_CACHE,
        };
        let wanted = InitFlags::FUSE_ATOMIC_O_TRUNC
            | InitFlags::FUSE_DONT_MASK
            | InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_READDIRPLUS_AUTO
            | InitFlags::FUSE_ASYNC_DIO
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_HANDLE_KILLPRIV_V2
            | InitFlags::FUSE_POSIX_ACL
            | InitFlags::FUSE_CACHE_SYMLINKS
            | pages
            | writes;
        for flag in wanted.iter() {
            // An older kernel does without.
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(LONGEST_TRANSFER);
        let _ = config.set_max_background(BACKGROUND_REQUESTS);
        Ok(())
    }

    fn destroy(&mut self) {
        self.server.notices().end();
        *self.ending.has_ended.lock() = true;
        self.ending.changed.notify_all();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.answer(|serving| serving.lookup(inode(parent), name.as_bytes())) {
            Ok(LookupReply::Found(node)) => found(reply, &node),
            Ok(LookupReply::Absent(Duration::ZERO)) => reply.error(fuser::Errno::ENOENT),
            Ok(LookupReply::Absent(timeout)) => reply.entry(&timeout, &nobody(), Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, count: u64) {
        let _ = self.answer(|serving| {
            serving.forget(inode(ino), count);
            Ok(())
        });
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.attr(reply, |serving| serving.attributes(inode(ino)));
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = AttributeChange {
            mode: mode.map(|mode| mode & 0o7777),
            user,
            group,
            size,
            accessed: accessed.map(time_change),
            modified: modified.map(time_change),
        };
        self.attr(reply, |serving| {
            serving.set_attributes(caller(request), inode(ino), change)
        });
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.answer(|serving| serving.read_link(inode(ino))) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        self.entry(reply, |serving| {
            let kind = kind_of_mode(mode).ok_or(Errno(libc::EINVAL))?;
            let creation = Creation {
                device: decoded_device(device),
                ..plain(kind, mode, umask)
            };
            serving.create(caller(request), inode(parent), name.as_bytes(), creation)
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        self.entry(reply, |serving| {
            let creation = plain(FileKind::Directory, mode, umask);
            serving.create(caller(request), inode(parent), name.as_bytes(), creation)
        });
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty(reply, |serving| serving.unlink(inode(parent), name.as_bytes()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty(reply, |serving| {
            serving.remove_directory(inode(parent), name.as_bytes())
        });
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.entry(reply, |serving| {
            let creation = Creation {
                target: target.as_os_str().as_bytes(),
                ..plain(FileKind::Symlink, 0o777, 0)
            };
            serving.create(caller(request), inode(parent), name.as_bytes(), creation)
        });
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (name, new_name) = (name.as_bytes(), new_name.as_bytes());
        self.empty(reply, |serving| {
            let mode = match flags.bits() {
                0 => RenameMode::Replace,
                libc::RENAME_NOREPLACE => RenameMode::Keep,
                libc::RENAME_EXCHANGE => RenameMode::Exchange,
                _ => return Err(Errno(libc::EINVAL)),
            };
            serving.rename(inode(parent), name, inode(new_parent), new_name, mode)
        });
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(reply, |serving| {
            serving.link(inode(ino), inode(parent), name.as_bytes())
        });
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.answer(|serving| serving.open(caller(request), inode(ino), flags.0)) {
            Ok(()) => reply.opened(FileHandle(0), self.open_flags()),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let creation = plain(FileKind::Regular, mode, umask);
        match self
            .answer(|serving| serving.create_open(caller(request), inode(parent), name.as_bytes(), creation))
        {
            Ok(node) => {
                let (timeout, generation) = (node.entry_timeout, Generation(node.attributes.generation));
                let attributes = file_attr(&node.attributes);
                reply.created(
                    &timeout,
                    &attributes,
                    generation,
                    FileHandle(0),
                    self.open_flags(),
                );
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.answer(|serving| serving.read(inode(ino), offset, size as usize)) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // Pages that are written back later stand at their offsets, whatever their file is open for.
        let is_page = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let position = if flags.0 & libc::O_APPEND != 0 && !is_page {
            WritePosition::End
        } else {
            WritePosition::At(offset)
        };
        let privileges = if write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            WritePrivileges::Removed
        } else {
            WritePrivileges::Kept
        };
        match self.answer(|serving| serving.write(inode(ino), offset, position, privileges, data)) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(error) => reply.error(error),
        }
    }

    /// Nothing waits for a close, so the kernel need not ask.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.empty(reply, |serving| {
            serving.close(inode(ino));
            Ok(())
        });
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.empty(reply, |serving| serving.sync());
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.answer(|serving| serving.open_directory(inode(ino))) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let answer = self.answer(|serving| {
            serving.list(inode(ino), fh.0, offset, ListingDetail::Kinds, |entry| {
                let name = OsStr::from_bytes(entry.name);
                filled(reply.add(INodeNo(entry.inode.0), entry.offset, file_type(entry.kind), name))
            })
        });
        match answer {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let answer = self.answer(|serving| {
            serving.list(inode(ino), fh.0, offset, ListingDetail::Attributes, |entry| {
                let name = OsStr::from_bytes(entry.name);
                let (attributes, timeout, generation) = match &entry.reply {
                    Some(node) => {
                        let timeout = node.entry_timeout.min(node.attribute_timeout);
                        (file_attr(&node.attributes), timeout, node.attributes.generation)
                    }
                    None => (dots(entry.inode), Duration::ZERO, 0),
                };
                let generation = Generation(generation);
                filled(reply.add(
                    attributes.ino,
                    entry.offset,
                    name,
                    &timeout,
                    &attributes,
                    generation,
                ))
            })
        });
        match answer {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(&self, _: &Request, ino: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.empty(reply, |serving| {
            serving.close_directory(inode(ino), fh.0);
            Ok(())
        });
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.empty(reply, |serving| serving.sync());
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.answer(|serving| serving.space()) {
            Ok(space) => {
                let files = space.inodes.saturating_add(space.free_inodes);
                reply.statfs(
                    space.blocks,
                    space.free_blocks,
                    space.free_blocks,
                    files,
                    space.free_inodes,
                    space.block_bytes,
                    space.name_bytes,
                    space.block_bytes,
                );
            }
            Err(error) => reply.error(error),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        self.empty(reply, |serving| {
            serving.set_extended_attribute(caller(request), inode(ino), name.as_bytes(), value, flags)
        });
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let answer = self.answer(|serving| serving.extended_attribute(inode(ino), name.as_bytes()));
        sized(reply, size, answer);
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let answer = self.answer(|serving| serving.extended_attributes(caller(request), inode(ino)));
        sized(reply, size, answer);
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty(reply, |serving| {
            serving.remove_extended_attribute(inode(ino), name.as_bytes())
        });
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(fuser::Errno::ENOTTY);
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.empty(reply, |serving| {
            serving.allocate(caller(request), inode(ino), offset, length, mode)
        });
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        match self.answer(|serving| serving.seek(inode(ino), offset, whence)) {
            Ok(offset) => reply.offset(i64::try_from(offset).unwrap_or(i64::MAX)),
            Err(error) => reply.error(error),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
        from: INodeNo,
        _: FileHandle,
        from_offset: u64,
        to: INodeNo,
        _: FileHandle,
        to_offset: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let range = CopyRange {
            from: inode(from),
            from_offset,
            to: inode(to),
            to_offset,
            length,
        };
        match self.answer(|serving| serving.copy_range(caller(request), range)) {
            Ok(copied) => reply.written(copied),
            Err(error) => reply.error(error),
        }
    }
}

fn filled(is_full: bool) -> Filled {
    if is_full { Filled::Full } else { Filled::Added }
}

/// The attributes of a name that does not exist: inode 0.
fn nobody() -> FileAttr {
    dots(Inode(0))
}

/// The attributes of `.` and `..`, of which the kernel reads number and kind.
fn dots(inode: Inode) -> FileAttr {
    FileAttr {
        ino: INodeNo(inode.0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::Directory,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}
