//! Operations as messages: how a session runs them.

use super::format::MOST_BODY;
use super::message::{FileOperation, FilesReply, NodeDescription};
use alluvium_files::{Error, FileSystem, NewNode, Result};

/// Most bytes of one answer to a read, and most names of one page of a directory: half of a body,
/// because names and frames need space, too.
pub(super) const MOST_READ: usize = MOST_BODY / 2;
pub(super) const MOST_ENTRIES: usize = MOST_READ / 512;

impl NodeDescription {
    pub(super) fn of(node: &NewNode<'_>) -> NodeDescription {
        NodeDescription {
            kind: node.kind,
            mode: node.mode,
            user: node.user,
            group: node.group,
            device: node.device,
            target: node.target.to_vec(),
        }
    }

    fn node(&self) -> NewNode<'_> {
        NewNode {
            kind: self.kind,
            mode: self.mode,
            user: self.user,
            group: self.group,
            device: self.device,
            target: &self.target,
        }
    }
}

impl FilesReply {
    pub(super) fn failed(error: &Error) -> FilesReply {
        FilesReply::Failed {
            kind: error.kind(),
            errno: error.errno(),
            text: error.to_string(),
        }
    }
}

/// Runs an operation. Its failure is the reply.
pub(super) fn run(files: &dyn FileSystem, operation: &FileOperation) -> FilesReply {
    let ran = match operation {
        FileOperation::Lookup(..)
        | FileOperation::Attributes(_)
        | FileOperation::Parent(_)
        | FileOperation::ReadLink(_)
        | FileOperation::Read(..)
        | FileOperation::Seek(..)
        | FileOperation::ReadDirectory(..)
        | FileOperation::ExtendedAttribute(..)
        | FileOperation::ExtendedAttributes(_)
        | FileOperation::Space => read(files, operation),
        _ => change(files, operation),
    };
    ran.unwrap_or_else(|error| FilesReply::failed(&error))
}

fn read(files: &dyn FileSystem, operation: &FileOperation) -> Result<FilesReply> {
    Ok(match operation {
        FileOperation::Lookup(parent, name) => FilesReply::Attributes(files.lookup(*parent, name)?),
        FileOperation::Attributes(inode) => FilesReply::Attributes(files.attributes(*inode)?),
        FileOperation::Parent(directory) => FilesReply::Inode(files.parent(*directory)?),
        FileOperation::ReadLink(inode) => FilesReply::Bytes(files.read_link(*inode)?),
        FileOperation::Read(inode, offset, length) => {
            let length = (*length as usize).min(MOST_READ);
            FilesReply::Bytes(files.read(*inode, *offset, length)?)
        }
        FileOperation::Seek(inode, offset, target) => {
            FilesReply::Number(files.seek(*inode, *offset, *target)?)
        }
        FileOperation::ReadDirectory(directory, after, limit) => {
            let limit = (*limit as usize).min(MOST_ENTRIES);
            FilesReply::Entries(files.read_directory(*directory, after.as_deref(), limit)?)
        }
        FileOperation::ExtendedAttribute(inode, name) => {
            FilesReply::Bytes(files.extended_attribute(*inode, name)?)
        }
        FileOperation::ExtendedAttributes(inode) => FilesReply::Names(files.extended_attributes(*inode)?),
        _ => FilesReply::Space(files.space()?),
    })
}

fn change(files: &dyn FileSystem, operation: &FileOperation) -> Result<FilesReply> {
    match operation {
        FileOperation::SetAttributes(inode, change) => {
            return Ok(FilesReply::Attributes(files.set_attributes(*inode, change)?));
        }
        FileOperation::Create(parent, name, node) => {
            return Ok(FilesReply::Attributes(files.create(
                *parent,
                name,
                &node.node(),
            )?));
        }
        FileOperation::CreateUnnamed(parent, node) => {
            return Ok(FilesReply::Attributes(
                files.create_unnamed(*parent, &node.node())?,
            ));
        }
        FileOperation::Link(inode, parent, name) => {
            return Ok(FilesReply::Attributes(files.link(*inode, *parent, name)?));
        }
        FileOperation::Write(inode, position, data) => {
            return Ok(FilesReply::Number(files.write(*inode, *position, data)?));
        }
        FileOperation::CopyRange(from, from_offset, to, to_offset, length) => {
            let copied = files.copy_range(*from, *from_offset, *to, *to_offset, *length)?;
            return Ok(FilesReply::Number(copied));
        }
        FileOperation::Unlink(parent, name) => files.unlink(*parent, name)?,
        FileOperation::RemoveDirectory(parent, name) => files.remove_directory(*parent, name)?,
        FileOperation::Rename(parent, name, new_parent, new_name, mode) => {
            files.rename(*parent, name, *new_parent, new_name, *mode)?;
        }
        FileOperation::Hold(inode) => files.hold(*inode)?,
        FileOperation::Release(inode) => files.release(*inode)?,
        FileOperation::Allocate(inode, mode, offset, length) => {
            files.allocate(*inode, *mode, *offset, *length)?;
        }
        FileOperation::SetExtendedAttribute(inode, name, value, mode) => {
            files.set_extended_attribute(*inode, name, value, *mode)?;
        }
        FileOperation::RemoveExtendedAttribute(inode, name) => {
            files.remove_extended_attribute(*inode, name)?;
        }
        _ => files.sync()?,
    }
    Ok(FilesReply::Done)
}
