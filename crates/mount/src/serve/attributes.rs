//! Attributes, and what their changes take away: set-user-ID bits, entries of access control lists.

use super::{Answer, MountRequest, NodeReply, RequestCaller, WritePrivileges};
use crate::acl::{self, AccessList};
use alluvium_files::{AttributeChange, Attributes, ErrorKind, FileKind, Inode, SetMode};

const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;

/// Returns the mode without the bits that a change of contents or owner takes away. A set-group-ID
/// bit without permission to execute for the group is none.
fn unprivileged(mode: u32) -> u32 {
    let sets_group = mode & SET_GROUP != 0 && mode & GROUP_EXECUTE != 0;
    mode & !SET_USER & !if sets_group { SET_GROUP } else { 0 }
}

impl MountRequest<'_> {
    pub(crate) fn attributes(&self, inode: Inode) -> Answer<NodeReply> {
        let epoch = self.epoch();
        let attributes = self.files.attributes(inode)?;
        Ok(self.reply(epoch, attributes))
    }

    pub(crate) fn set_attributes(
        &self,
        inode: Inode,
        mut change: AttributeChange,
        privileges: WritePrivileges,
    ) -> Answer<NodeReply> {
        let epoch = self.epoch();
        let changes_owner = change.user.is_some() || change.group.is_some();
        let changes_contents = change.size.is_some() && privileges == WritePrivileges::Removed;
        if change.mode.is_none() && (changes_owner || changes_contents) {
            let before = self.files.attributes(inode)?;
            let mode = unprivileged(before.mode);
            if before.kind != FileKind::Directory && mode != before.mode {
                change.mode = Some(mode);
            }
        }
        if change == AttributeChange::default() {
            return self.attributes(inode);
        }
        let attributes = self.files.set_attributes(inode, &change)?;
        if let Some(mode) = change.mode {
            self.change_list(inode, mode)?;
        }
        Ok(self.reply(epoch, attributes))
    }

    /// Makes the access control list of an inode agree with a new mode.
    fn change_list(&self, inode: Inode, mode: u32) -> Answer<()> {
        let bytes = match self.files.extended_attribute(inode, acl::ACCESS) {
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), ErrorKind::NoAttribute | ErrorKind::NotSupported) => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(list) = AccessList::decode(&bytes) {
            let list = list.with_mode(mode).encode();
            self.files
                .set_extended_attribute(inode, acl::ACCESS, &list, SetMode::Any)?;
        }
        Ok(())
    }

    /// Takes away the set-user-ID and set-group-ID bits of a file whose contents change, unless the
    /// caller may keep them.
    pub(super) fn drop_privileges(&self, caller: RequestCaller, inode: Inode) -> Answer<()> {
        if caller.keeps_privileges() {
            return Ok(());
        }
        self.remove_privileges(inode)
    }

    /// Takes away the set-user-ID and set-group-ID bits of a file.
    pub(super) fn remove_privileges(&self, inode: Inode) -> Answer<()> {
        let Attributes { mode, kind, .. } = self.files.attributes(inode)?;
        if kind == FileKind::Regular && unprivileged(mode) != mode {
            let change = AttributeChange {
                mode: Some(unprivileged(mode)),
                ..AttributeChange::default()
            };
            self.files.set_attributes(inode, &change)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_cannot_execute_keeps_its_bit() {
        assert_eq!(unprivileged(0o6755), 0o755);
        assert_eq!(unprivileged(0o6745), 0o2745);
        assert_eq!(unprivileged(0o1644), 0o1644);
    }
}
