//! Requests of the kernel, passed on to [`MountRequest`].

use super::SessionEnd;
use super::convert::{
    decoded_device, dots, file_attr, file_type, filled, kind_of_mode, nobody, plain, time_change,
};
use crate::options::{PageRetention, WriteCaching};
use crate::serve::{
    Answer, CopyRange, ErrorNumber, FileCreation, ListingDetail, LookupReply, MountRequest, MountServer,
    NodeReply, RequestCaller, WritePrivileges,
};
use alluvium_files::{AttributeChange, FileKind, Inode, RenameMode, WritePosition};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Longest write, and longest read, in one request.
const LONGEST_TRANSFER: u32 = 1 << 20;
/// Requests that the kernel has under way at once without a program that waits for them.
const BACKGROUND_REQUESTS: u16 = 64;

/// Answers the kernel's requests from a server.
pub(super) struct KernelBridge {
    pub(super) server: Arc<MountServer>,
    pub(super) ending: Arc<SessionEnd>,
}

impl KernelBridge {
    fn answer<T>(&self, work: impl FnOnce(&MountRequest<'_>) -> Answer<T>) -> Result<T, fuser::Errno> {
        let answer = self.server.answer(work);
        answer.map_err(|ErrorNumber(number)| fuser::Errno::from_i32(number))
    }

    fn empty(&self, reply: ReplyEmpty, work: impl FnOnce(&MountRequest<'_>) -> Answer<()>) {
        match self.answer(work) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn entry(&self, reply: ReplyEntry, work: impl FnOnce(&MountRequest<'_>) -> Answer<NodeReply>) {
        match self.answer(work) {
            Ok(node) => found(reply, &node),
            Err(error) => reply.error(error),
        }
    }

    fn attr(&self, reply: ReplyAttr, work: impl FnOnce(&MountRequest<'_>) -> Answer<NodeReply>) {
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

fn caller(request: &Request) -> RequestCaller {
    RequestCaller {
        user: request.uid(),
        group: request.gid(),
    }
}

fn inode(number: INodeNo) -> Inode {
    Inode(number.0)
}

impl Filesystem for KernelBridge {
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
        self.ending.announce();
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
            let kind = kind_of_mode(mode).ok_or(ErrorNumber(libc::EINVAL))?;
            let creation = FileCreation {
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
            let creation = FileCreation {
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
                _ => return Err(ErrorNumber(libc::EINVAL)),
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
        // Pages that are written back later stand at their offsets, whatever their file is open
        // for.
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
