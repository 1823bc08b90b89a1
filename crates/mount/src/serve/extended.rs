//! Extended attributes, and access control lists among them.

use super::{Answer, ErrorNumber, MountRequest, RequestCaller, WritePrivileges};
use crate::acl::{self, AccessList};
use alluvium_files::{AttributeChange, ErrorKind, Inode, SetMode};

/// Attributes of this namespace exist for root only.
const TRUSTED: &[u8] = b"trusted.";
const SET_GROUP: u32 = 0o2000;

impl MountRequest<'_> {
    pub(crate) fn extended_attribute(&self, inode: Inode, name: &[u8]) -> Answer<Vec<u8>> {
        Ok(self.files.extended_attribute(inode, name)?)
    }

    /// Returns the names of all extended attributes, each followed by a zero byte.
    pub(crate) fn extended_attributes(&self, caller: RequestCaller, inode: Inode) -> Answer<Vec<u8>> {
        let mut list = Vec::new();
        for name in self.files.extended_attributes(inode)? {
            if caller.user == 0 || !name.starts_with(TRUSTED) {
                list.extend_from_slice(&name);
                list.push(0);
            }
        }
        Ok(list)
    }

    /// Sets an extended attribute; `flags` are those of `setxattr(2)`. With `privileges` removed,
    /// an access control list takes the set-group-ID bit away.
    pub(crate) fn set_extended_attribute(
        &self,
        inode: Inode,
        name: &[u8],
        value: &[u8],
        flags: i32,
        privileges: WritePrivileges,
    ) -> Answer<()> {
        let mode = match flags {
            0 => SetMode::Any,
            libc::XATTR_CREATE => SetMode::Create,
            libc::XATTR_REPLACE => SetMode::Replace,
            _ => return Err(ErrorNumber(libc::EINVAL)),
        };
        if name == acl::ACCESS {
            return self.set_access_list(inode, value, privileges);
        }
        if name == acl::DEFAULT {
            AccessList::decode(value).ok_or(ErrorNumber(libc::EINVAL))?;
            self.nodes().set_default_list(inode, None);
        }
        let set = self.files.set_extended_attribute(inode, name, value, mode);
        Ok(set?)
    }

    /// Sets the access control list of an inode, and with it the permission bits.
    fn set_access_list(&self, inode: Inode, value: &[u8], privileges: WritePrivileges) -> Answer<()> {
        let list = AccessList::decode(value).ok_or(ErrorNumber(libc::EINVAL))?;
        let before = self.files.attributes(inode)?;
        let mut mode = before.mode & !0o777 | list.mode();
        if privileges == WritePrivileges::Removed {
            mode &= !SET_GROUP;
        }
        if list.is_minimal() {
            self.remove_if_there(inode, acl::ACCESS)?;
        } else {
            self.files
                .set_extended_attribute(inode, acl::ACCESS, value, SetMode::Any)?;
        }
        if mode != before.mode {
            let change = AttributeChange {
                mode: Some(mode),
                ..AttributeChange::default()
            };
            self.files.set_attributes(inode, &change)?;
        }
        Ok(())
    }

    fn remove_if_there(&self, inode: Inode, name: &[u8]) -> Answer<()> {
        match self.files.remove_extended_attribute(inode, name) {
            Err(error) if error.kind() != ErrorKind::NoAttribute => Err(error.into()),
            _ => Ok(()),
        }
    }

    pub(crate) fn remove_extended_attribute(&self, inode: Inode, name: &[u8]) -> Answer<()> {
        if name == acl::ACCESS || name == acl::DEFAULT {
            self.nodes().set_default_list(inode, None);
            return self.remove_if_there(inode, name);
        }
        Ok(self.files.remove_extended_attribute(inode, name)?)
    }
}
