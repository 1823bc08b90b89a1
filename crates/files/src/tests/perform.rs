//! Operations as values, and performing them on a file system.

use crate::{
    AllocateMode, AttributeChange, ErrorKind, FileKind, FileSystem, Inode, NewNode, RenameMode, SeekTarget,
    SetMode, WritePosition,
};

/// An operation, on the inodes of the file system under test.
#[derive(Clone, Debug)]
pub(super) enum FileOperation {
    Lookup(Inode, Vec<u8>),
    Attributes(Inode),
    Parent(Inode),
    Resize(Inode, u64),
    SetMode(Inode, u32),
    Create(Inode, Vec<u8>, FileKind),
    CreateUnnamed(Inode),
    Link(Inode, Inode, Vec<u8>),
    Unlink(Inode, Vec<u8>),
    RemoveDirectory(Inode, Vec<u8>),
    Rename(Inode, Vec<u8>, Inode, Vec<u8>, RenameMode),
    Hold(Inode),
    Release(Inode),
    Read(Inode, u64, usize),
    Write(Inode, WritePosition, Vec<u8>),
    Allocate(Inode, AllocateMode, u64, u64),
    Seek(Inode, u64, SeekTarget),
    Copy(Inode, u64, Inode, u64, u64),
    List(Inode),
    GetExtended(Inode, Vec<u8>),
    SetExtended(Inode, Vec<u8>, Vec<u8>, SetMode),
    RemoveExtended(Inode, Vec<u8>),
    ListExtended(Inode),
}

/// What an operation has returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OperationOutcome {
    Done,
    Fails(ErrorKind),
    Inode(Inode),
    Attributes(FileKind, u64, u32),
    Bytes(Vec<u8>),
    Names(Vec<Vec<u8>>),
    Number(u64),
}

/// Performs an operation on a file system.
pub(super) fn perform(files: &dyn FileSystem, operation: &FileOperation) -> OperationOutcome {
    use FileOperation as Op;
    let node = |kind| NewNode {
        kind,
        mode: 0o644,
        user: 1,
        group: 2,
        device: 0,
        target: if kind == FileKind::Symlink {
            b"elsewhere"
        } else {
            b""
        },
    };
    let shown = |attributes: crate::Attributes| {
        OperationOutcome::Attributes(attributes.kind, attributes.size, attributes.mode)
    };
    let change = AttributeChange::default();
    let result = match operation {
        Op::Lookup(parent, name) => files
            .lookup(*parent, name)
            .map(|found| OperationOutcome::Inode(found.inode)),
        Op::Attributes(inode) => files.attributes(*inode).map(shown),
        Op::Parent(inode) => files.parent(*inode).map(OperationOutcome::Inode),
        Op::Resize(inode, size) => {
            let change = AttributeChange {
                size: Some(*size),
                ..change
            };
            files.set_attributes(*inode, &change).map(shown)
        }
        Op::SetMode(inode, mode) => {
            let change = AttributeChange {
                mode: Some(*mode),
                ..change
            };
            files.set_attributes(*inode, &change).map(shown)
        }
        Op::Create(parent, name, kind) => files
            .create(*parent, name, &node(*kind))
            .map(|found| OperationOutcome::Inode(found.inode)),
        Op::CreateUnnamed(parent) => files
            .create_unnamed(*parent, &node(FileKind::Regular))
            .map(|found| OperationOutcome::Inode(found.inode)),
        Op::Link(inode, parent, name) => files.link(*inode, *parent, name).map(shown),
        Op::Unlink(parent, name) => files.unlink(*parent, name).map(|()| OperationOutcome::Done),
        Op::RemoveDirectory(parent, name) => files
            .remove_directory(*parent, name)
            .map(|()| OperationOutcome::Done),
        Op::Rename(parent, name, to, new, mode) => files
            .rename(*parent, name, *to, new, *mode)
            .map(|()| OperationOutcome::Done),
        Op::Hold(inode) => files.hold(*inode).map(|()| OperationOutcome::Done),
        Op::Release(inode) => files.release(*inode).map(|()| OperationOutcome::Done),
        // Where holes are depends on the blocks, so they are compared with the contents.
        Op::Seek(inode, offset, target) => return seek(files, *inode, *offset, *target),
        _ => perform_on_contents(files, operation),
    };
    result.unwrap_or_else(|error| OperationOutcome::Fails(error.kind()))
}

/// Performs an operation on contents, extended attributes or lists.
fn perform_on_contents(files: &dyn FileSystem, operation: &FileOperation) -> crate::Result<OperationOutcome> {
    use FileOperation as Op;
    match operation {
        Op::Read(inode, offset, length) => files.read(*inode, *offset, *length).map(OperationOutcome::Bytes),
        Op::Write(inode, position, data) => {
            files.write(*inode, *position, data).map(OperationOutcome::Number)
        }
        Op::Allocate(inode, mode, offset, length) => files
            .allocate(*inode, *mode, *offset, *length)
            .map(|()| OperationOutcome::Done),
        Op::Copy(from, from_offset, to, to_offset, length) => files
            .copy_range(*from, *from_offset, *to, *to_offset, *length)
            .map(OperationOutcome::Number),
        Op::List(inode) => files
            .read_directory(*inode, None, 1000)
            .map(|entries| OperationOutcome::Names(entries.into_iter().map(|entry| entry.name).collect())),
        Op::GetExtended(inode, name) => files
            .extended_attribute(*inode, name)
            .map(OperationOutcome::Bytes),
        Op::SetExtended(inode, name, value, mode) => files
            .set_extended_attribute(*inode, name, value, *mode)
            .map(|()| OperationOutcome::Done),
        Op::RemoveExtended(inode, name) => files
            .remove_extended_attribute(*inode, name)
            .map(|()| OperationOutcome::Done),
        Op::ListExtended(inode) => files.extended_attributes(*inode).map(OperationOutcome::Names),
        other => unreachable!("{other:?} is not about contents"),
    }
}

/// Seeks, and verifies that everything before what was found is of the other kind.
fn seek(files: &dyn FileSystem, inode: Inode, offset: u64, target: SeekTarget) -> OperationOutcome {
    let size = match files.attributes(inode) {
        Ok(attributes) => attributes.size,
        Err(error) => return OperationOutcome::Fails(error.kind()),
    };
    match (files.seek(inode, offset, target), target) {
        (Err(error), _) if error.kind() != ErrorKind::NoSuchOffset => OperationOutcome::Fails(error.kind()),
        (Err(error), SeekTarget::Hole) => {
            assert!(offset >= size, "{error}");
            OperationOutcome::Done
        }
        (found, SeekTarget::Data) => {
            let until = found.unwrap_or(size);
            let skipped = files
                .read(inode, offset, until.saturating_sub(offset) as usize)
                .unwrap();
            assert!(skipped.iter().all(|&byte| byte == 0), "data stands in a hole");
            OperationOutcome::Done
        }
        (Ok(found), SeekTarget::Hole) => {
            assert!(
                (offset..=size).contains(&found),
                "a hole at {found} after {offset}"
            );
            OperationOutcome::Done
        }
    }
}
