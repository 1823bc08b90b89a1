//! Requests of the kernel, passed on to [`MountRequest`], and their answers.

use super::answers::{AnswerWriter, ListedAttributes};
use super::requests::{KernelRequest, RequestArguments};
use crate::options::PageRetention;
use crate::serve::{
    Answer, CopyRange, ErrorNumber, FileCreation, ListedEntry, ListingDetail, ListingSpace, LookupReply,
    MountRequest, NodeReply, RequestCaller, WritePrivileges,
};
use alluvium_files::{FileKind, Inode, RenameMode, WritePosition};

/// Flag of an open file: the kernel keeps its pages from earlier.
const KEEP_PAGES: u32 = 1 << 1;

/// Bytes that follow the header of an answer. `None`: there is no answer.
pub(super) type AnswerBody = Option<Vec<u8>>;

/// Does what a request asks for. The answer to a read takes the memory of `spare`.
pub(super) fn answer(
    serving: &MountRequest<'_>,
    request: &KernelRequest<'_>,
    spare: &mut Vec<u8>,
) -> Answer<AnswerBody> {
    use RequestArguments as Arguments;
    match &request.arguments {
        Arguments::Forget(count) => {
            serving.forget(request.inode, *count);
            return Ok(None);
        }
        Arguments::ForgetMany(forgotten) => {
            for (inode, count) in forgotten {
                serving.forget(*inode, *count);
            }
            return Ok(None);
        }
        Arguments::Interrupt => return Ok(None),
        Arguments::Read { offset, size } => {
            serving.read(request.inode, *offset, *size, spare)?;
            return Ok(Some(std::mem::take(spare)));
        }
        Arguments::ReadLink => return serving.read_link(request.inode).map(Some),
        Arguments::Extended { name, size } => {
            return sized(serving.extended_attribute(request.inode, name)?, *size);
        }
        Arguments::ExtendedNames { size } => {
            return sized(
                serving.extended_attributes(caller(request), request.inode)?,
                *size,
            );
        }
        _ => {}
    }
    let mut writer = AnswerWriter::new();
    match &request.arguments {
        Arguments::Lookup(_)
        | Arguments::SymbolicLink { .. }
        | Arguments::MakeNode { .. }
        | Arguments::MakeDirectory { .. }
        | Arguments::Link { .. }
        | Arguments::Create { .. }
        | Arguments::CreateUnnamed { .. } => answer_entry(serving, request, &mut writer)?,
        Arguments::Unlink(_) | Arguments::RemoveDirectory(_) | Arguments::Rename { .. } => {
            answer_names(serving, request)?;
        }
        Arguments::OpenDirectory
        | Arguments::List { .. }
        | Arguments::ListAttributes { .. }
        | Arguments::ReleaseDirectory(_) => answer_directory(serving, request, &mut writer)?,
        Arguments::Open { .. }
        | Arguments::Write { .. }
        | Arguments::Release
        | Arguments::Allocate { .. }
        | Arguments::Seek { .. }
        | Arguments::Copy { .. } => answer_contents(serving, request, &mut writer)?,
        _ => answer_attributes(serving, request, &mut writer)?,
    }
    Ok(Some(writer.into_bytes()))
}

fn caller(request: &KernelRequest<'_>) -> RequestCaller {
    RequestCaller {
        user: request.user,
        group: request.group,
    }
}

fn privileges(are_removed: bool) -> WritePrivileges {
    if are_removed {
        WritePrivileges::Removed
    } else {
        WritePrivileges::Kept
    }
}

/// Answers with a value, or with its size if the program asks for that.
fn sized(value: Vec<u8>, size: usize) -> Answer<AnswerBody> {
    if size == 0 {
        let mut writer = AnswerWriter::new();
        let length = u32::try_from(value.len()).map_err(|_| ErrorNumber(libc::E2BIG))?;
        writer.count(length);
        return Ok(Some(writer.into_bytes()));
    }
    if value.len() > size {
        return Err(ErrorNumber(libc::ERANGE));
    }
    Ok(Some(value))
}

fn write_entry(writer: &mut AnswerWriter, node: &NodeReply) {
    writer.entry(&node.attributes, node.entry_timeout, node.attribute_timeout);
}

fn open_flags(serving: &MountRequest<'_>) -> u32 {
    match serving.options().pages {
        PageRetention::UntilNotice => KEEP_PAGES,
        PageRetention::UntilOpened => 0,
    }
}

fn kind_of_mode(mode: u32) -> Answer<FileKind> {
    Ok(match mode & libc::S_IFMT {
        0 | libc::S_IFREG => FileKind::Regular,
        libc::S_IFIFO => FileKind::Pipe,
        libc::S_IFSOCK => FileKind::Socket,
        libc::S_IFBLK => FileKind::BlockDevice,
        libc::S_IFCHR => FileKind::CharacterDevice,
        _ => return Err(ErrorNumber(libc::EINVAL)),
    })
}

fn creation(kind: FileKind, mode: u32, umask: u32) -> FileCreation<'static> {
    FileCreation {
        kind,
        mode: mode & 0o7777,
        umask,
        device: 0,
        target: b"",
    }
}

/// Answers requests whose answer is an inode under a name.
fn answer_entry(
    serving: &MountRequest<'_>,
    request: &KernelRequest<'_>,
    writer: &mut AnswerWriter,
) -> Answer<()> {
    use RequestArguments as Arguments;
    let (caller, parent) = (caller(request), request.inode);
    let node = match &request.arguments {
        Arguments::Lookup(name) => match serving.lookup(parent, name)? {
            LookupReply::Found(node) => node,
            LookupReply::Absent(timeout) if timeout.is_zero() => return Err(ErrorNumber(libc::ENOENT)),
            LookupReply::Absent(timeout) => {
                writer.absence(timeout);
                return Ok(());
            }
        },
        Arguments::Link { inode, name } => serving.link(*inode, parent, name)?,
        Arguments::SymbolicLink { name, target } => {
            let creation = FileCreation {
                target,
                ..creation(FileKind::Symlink, 0o777, 0)
            };
            serving.create(caller, parent, name, creation)?
        }
        Arguments::MakeDirectory { mode, umask, name } => {
            serving.create(caller, parent, name, creation(FileKind::Directory, *mode, *umask))?
        }
        Arguments::MakeNode {
            mode,
            umask,
            device,
            name,
        } => {
            let creation = FileCreation {
                device: *device,
                ..creation(kind_of_mode(*mode)?, *mode, *umask)
            };
            serving.create(caller, parent, name, creation)?
        }
        Arguments::Create { mode, umask, name } => {
            serving.create_open(caller, parent, name, creation(FileKind::Regular, *mode, *umask))?
        }
        Arguments::CreateUnnamed { mode, umask } => {
            serving.create_unnamed(caller, parent, creation(FileKind::Regular, *mode, *umask))?
        }
        _ => return Err(ErrorNumber(libc::ENOSYS)),
    };
    write_entry(writer, &node);
    if matches!(
        request.arguments,
        Arguments::Create { .. } | Arguments::CreateUnnamed { .. }
    ) {
        writer.opened(0, open_flags(serving));
    }
    Ok(())
}

/// Answers requests that remove or move a name.
fn answer_names(serving: &MountRequest<'_>, request: &KernelRequest<'_>) -> Answer<()> {
    match &request.arguments {
        RequestArguments::Unlink(name) => serving.unlink(request.inode, name),
        RequestArguments::RemoveDirectory(name) => serving.remove_directory(request.inode, name),
        RequestArguments::Rename {
            new_parent,
            flags,
            name,
            new_name,
        } => {
            let mode = match *flags {
                0 => RenameMode::Replace,
                libc::RENAME_NOREPLACE => RenameMode::Keep,
                libc::RENAME_EXCHANGE => RenameMode::Exchange,
                _ => return Err(ErrorNumber(libc::EINVAL)),
            };
            serving.rename(request.inode, name, *new_parent, new_name, mode)
        }
        _ => Err(ErrorNumber(libc::ENOSYS)),
    }
}

/// Answers requests about open directories.
fn answer_directory(
    serving: &MountRequest<'_>,
    request: &KernelRequest<'_>,
    writer: &mut AnswerWriter,
) -> Answer<()> {
    let directory = request.inode;
    match request.arguments {
        RequestArguments::OpenDirectory => writer.opened(serving.open_directory(directory)?, 0),
        RequestArguments::List { handle, offset, size } => {
            let add = |entry: &ListedEntry<'_>| write_listed(writer, size, entry, None);
            serving.list(directory, handle, offset, ListingDetail::Kinds, add)?;
        }
        RequestArguments::ListAttributes { handle, offset, size } => {
            let add = |entry: &ListedEntry<'_>| {
                let attributes = entry.reply.as_ref().map_or(ListedAttributes::Unknown, |node| {
                    ListedAttributes::Known(&node.attributes, node.entry_timeout, node.attribute_timeout)
                });
                write_listed(writer, size, entry, Some(&attributes))
            };
            serving.list(directory, handle, offset, ListingDetail::Attributes, add)?;
        }
        RequestArguments::ReleaseDirectory(handle) => serving.close_directory(directory, handle),
        _ => return Err(ErrorNumber(libc::ENOSYS)),
    }
    Ok(())
}

fn write_listed(
    writer: &mut AnswerWriter,
    size: usize,
    entry: &ListedEntry<'_>,
    attributes: Option<&ListedAttributes<'_>>,
) -> ListingSpace {
    let listed = (entry.name, entry.inode, entry.kind, entry.offset);
    if writer.directory_entry(size, listed, attributes) {
        ListingSpace::Added
    } else {
        ListingSpace::Full
    }
}

/// Answers requests about open files.
fn answer_contents(
    serving: &MountRequest<'_>,
    request: &KernelRequest<'_>,
    writer: &mut AnswerWriter,
) -> Answer<()> {
    use RequestArguments as Arguments;
    let inode: Inode = request.inode;
    match request.arguments {
        Arguments::Open {
            flags,
            removes_privileges,
        } => {
            serving.open(inode, flags, privileges(removes_privileges))?;
            writer.opened(0, open_flags(serving));
        }
        Arguments::Write {
            offset,
            flags,
            is_page,
            removes_privileges,
            data,
        } => {
            // Pages that are written later stand at their offsets, whatever their file is open for.
            let position = if flags & libc::O_APPEND != 0 && !is_page {
                WritePosition::End
            } else {
                WritePosition::At(offset)
            };
            serving.write(inode, offset, position, privileges(removes_privileges), data)?;
            writer.count(u32::try_from(data.len()).unwrap_or(u32::MAX));
        }
        Arguments::Release => serving.close(inode),
        Arguments::Allocate { offset, length, mode } => {
            serving.allocate(caller(request), inode, offset, length, mode)?;
        }
        Arguments::Seek { offset, whence } => writer.u64(serving.seek(inode, offset, whence)?),
        Arguments::Copy {
            from_offset,
            to,
            to_offset,
            length,
            is_long,
        } => {
            let range = CopyRange {
                from: inode,
                from_offset,
                to,
                to_offset,
                length,
            };
            let copied = serving.copy_range(caller(request), range)?;
            if is_long {
                writer.u64(copied.into());
            } else {
                writer.count(copied);
            }
        }
        _ => return Err(ErrorNumber(libc::ENOSYS)),
    }
    Ok(())
}

/// Answers all other requests.
fn answer_attributes(
    serving: &MountRequest<'_>,
    request: &KernelRequest<'_>,
    writer: &mut AnswerWriter,
) -> Answer<()> {
    use RequestArguments as Arguments;
    let inode = request.inode;
    match &request.arguments {
        Arguments::Attributes => {
            let node = serving.attributes(inode)?;
            writer.timed_attributes(&node.attributes, node.attribute_timeout);
        }
        Arguments::ExtendedStatus => {
            let node = serving.attributes(inode)?;
            writer.extended_status(&node.attributes, node.attribute_timeout);
        }
        Arguments::SetAttributes(set) => {
            let removed = privileges(set.removes_privileges);
            let node = serving.set_attributes(inode, set.change.clone(), removed)?;
            writer.timed_attributes(&node.attributes, node.attribute_timeout);
        }
        Arguments::SetExtended {
            name,
            value,
            flags,
            removes_group,
        } => serving.set_extended_attribute(inode, name, value, *flags, privileges(*removes_group))?,
        Arguments::RemoveExtended(name) => serving.remove_extended_attribute(inode, name)?,
        Arguments::Sync => serving.sync()?,
        Arguments::Space => writer.space(&serving.space()?),
        Arguments::Destroy => {}
        Arguments::Control => return Err(ErrorNumber(libc::ENOTTY)),
        // Nothing waits for a close, so the kernel need not ask.
        _ => return Err(ErrorNumber(libc::ENOSYS)),
    }
    Ok(())
}
