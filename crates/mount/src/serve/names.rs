//! Names: lookup, creation, links, renames, removal.

use super::{Answer, ErrorNumber, LookupReply, MountRequest, NodeReply, RequestCaller};
use crate::acl::{self, AccessList};
use alluvium_files::{Attributes, ErrorKind, FileKind, Inode, NewNode, RenameMode, SetMode};

/// A file to be created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileCreation<'a> {
    pub(crate) kind: FileKind,
    /// The permission bits that the program asked for.
    pub(crate) mode: u32,
    pub(crate) umask: u32,
    pub(crate) device: u64,
    pub(crate) target: &'a [u8],
}

/// The access control lists of a new inode.
struct InheritedLists {
    mode: u32,
    access: Option<Vec<u8>>,
    default: Option<Vec<u8>>,
}

impl MountRequest<'_> {
    pub(crate) fn lookup(&self, parent: Inode, name: &[u8]) -> Answer<LookupReply> {
        let epoch = self.epoch();
        match self.files.lookup(parent, name) {
            Ok(attributes) => Ok(LookupReply::Found(self.remembered(epoch, attributes)?)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let timeout = self.timeout_since(epoch, self.options().absence_timeout);
                Ok(LookupReply::Absent(timeout))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Creates an inode under a new name.
    pub(crate) fn create(
        &self,
        caller: RequestCaller,
        parent: Inode,
        name: &[u8],
        creation: FileCreation<'_>,
    ) -> Answer<NodeReply> {
        let epoch = self.epoch();
        let lists = self.inherit(parent, creation)?;
        let attributes = self
            .files
            .create(parent, name, &new_node(caller, creation, lists.mode))?;
        if let Err(error) = self.set_lists(&attributes, &lists) {
            let removed = match creation.kind {
                FileKind::Directory => self.files.remove_directory(parent, name),
                _ => self.files.unlink(parent, name),
            };
            removed?;
            return Err(error);
        }
        self.remembered(epoch, attributes)
    }

    /// Creates a file and opens it.
    pub(crate) fn create_open(
        &self,
        caller: RequestCaller,
        parent: Inode,
        name: &[u8],
        creation: FileCreation<'_>,
    ) -> Answer<NodeReply> {
        let reply = self.create(caller, parent, name, creation)?;
        let inode = reply.attributes.inode;
        if let Err(error) = self.nodes().open(self.files, inode) {
            self.forget(inode, 1);
            return Err(error.into());
        }
        Ok(reply)
    }

    /// Creates a file without a name, and opens it.
    pub(crate) fn create_unnamed(
        &self,
        caller: RequestCaller,
        parent: Inode,
        creation: FileCreation<'_>,
    ) -> Answer<NodeReply> {
        let epoch = self.epoch();
        let lists = self.inherit(parent, creation)?;
        let node = new_node(caller, creation, lists.mode);
        let attributes = self.files.create_unnamed(parent, &node)?;
        self.nodes().opened(attributes.inode);
        let reply = self
            .set_lists(&attributes, &lists)
            .and_then(|()| self.remembered(epoch, attributes.clone()));
        if reply.is_err() {
            self.close(attributes.inode);
        }
        reply
    }

    /// Returns what a new inode inherits from its directory's default access control list.
    fn inherit(&self, parent: Inode, creation: FileCreation<'_>) -> Answer<InheritedLists> {
        let without_list = InheritedLists {
            mode: creation.mode & !creation.umask,
            access: None,
            default: None,
        };
        if creation.kind == FileKind::Symlink || self.nodes().default_list(parent) == Some(false) {
            return Ok(without_list);
        }
        let epoch = self.epoch();
        let bytes = match self.files.extended_attribute(parent, acl::DEFAULT) {
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), ErrorKind::NoAttribute | ErrorKind::NotSupported) => {
                if self.epoch() == epoch {
                    self.nodes().set_default_list(parent, Some(false));
                }
                return Ok(without_list);
            }
            Err(error) => return Err(error.into()),
        };
        let default = AccessList::decode(&bytes).ok_or(ErrorNumber(libc::EIO))?;
        let access = default.inherited(creation.mode);
        Ok(InheritedLists {
            mode: creation.mode & !0o777 | access.mode(),
            access: (!access.is_minimal()).then(|| access.encode()),
            default: (creation.kind == FileKind::Directory).then_some(bytes),
        })
    }

    fn set_lists(&self, attributes: &Attributes, lists: &InheritedLists) -> Answer<()> {
        for (name, list) in [(acl::ACCESS, &lists.access), (acl::DEFAULT, &lists.default)] {
            if let Some(list) = list {
                self.files
                    .set_extended_attribute(attributes.inode, name, list, SetMode::Any)?;
            }
        }
        Ok(())
    }

    pub(crate) fn link(&self, inode: Inode, parent: Inode, name: &[u8]) -> Answer<NodeReply> {
        let epoch = self.epoch();
        let attributes = self.files.link(inode, parent, name)?;
        self.remembered(epoch, attributes)
    }

    pub(crate) fn unlink(&self, parent: Inode, name: &[u8]) -> Answer<()> {
        Ok(self.files.unlink(parent, name)?)
    }

    pub(crate) fn remove_directory(&self, parent: Inode, name: &[u8]) -> Answer<()> {
        Ok(self.files.remove_directory(parent, name)?)
    }

    pub(crate) fn rename(
        &self,
        parent: Inode,
        name: &[u8],
        new_parent: Inode,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Answer<()> {
        if mode == RenameMode::Replace {
            self.hold_replaced(new_parent, new_name);
        }
        Ok(self.files.rename(parent, name, new_parent, new_name, mode)?)
    }

    /// Holds what a rename is about to replace until the kernel forgets it: a program may have
    /// looked the name up and be about to open the file. It gets the file as it was then.
    fn hold_replaced(&self, parent: Inode, name: &[u8]) {
        if let Ok(replaced) = self.files.lookup(parent, name) {
            self.nodes().hold_known(self.files, replaced.inode);
        }
    }

    pub(crate) fn read_link(&self, inode: Inode) -> Answer<Vec<u8>> {
        Ok(self.files.read_link(inode)?)
    }
}

fn new_node<'a>(caller: RequestCaller, creation: FileCreation<'a>, mode: u32) -> NewNode<'a> {
    NewNode {
        kind: creation.kind,
        mode: mode & 0o7777,
        user: caller.user,
        group: caller.group,
        device: creation.device,
        target: creation.target,
    }
}
