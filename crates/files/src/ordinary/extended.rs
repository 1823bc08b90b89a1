//! Extended attributes, through the link that the kernel keeps of each descriptor. This reaches
//! symbolic links and special files too, without following or opening them.

use super::{OrdinaryDirectory, errors, through_descriptor};
use crate::error::Result;
use crate::types::{Inode, SetMode};
use rustix::buffer::spare_capacity;
use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;

/// Most values are shorter, and are read by a single call.
const USUAL_BYTES: usize = 256;

impl OrdinaryDirectory {
    pub(super) fn extended(&self, inode: Inode, name: &[u8]) -> Result<Vec<u8>> {
        let path = through_descriptor(&*self.nodes.path_of(inode)?);
        let text = String::from_utf8_lossy(name).into_owned();
        let failed = |errno| errors::inode(errno, &format!("read attribute \"{text}\" of"), inode);
        let mut value = Vec::with_capacity(USUAL_BYTES);
        loop {
            match getxattr(&path, name, spare_capacity(&mut value)) {
                Ok(_) => return Ok(value),
                Err(Errno::RANGE) => {
                    let mut none = [0_u8; 0];
                    let length = getxattr(&path, name, &mut none[..]).map_err(failed)?;
                    value.reserve(length.max(value.capacity() + 1));
                }
                Err(errno) => return Err(failed(errno)),
            }
        }
    }

    pub(super) fn extended_names(&self, inode: Inode) -> Result<Vec<Vec<u8>>> {
        let path = through_descriptor(&*self.nodes.path_of(inode)?);
        let failed = |errno| errors::inode(errno, "list attributes of", inode);
        let mut list: Vec<u8> = Vec::with_capacity(USUAL_BYTES);
        loop {
            match listxattr(&path, spare_capacity(&mut list)) {
                Ok(_) => break,
                Err(Errno::OPNOTSUPP) => break,
                Err(Errno::RANGE) => {
                    let mut none = [0_u8; 0];
                    let length = listxattr(&path, &mut none[..]).map_err(failed)?;
                    list.reserve(length.max(list.capacity() + 1));
                }
                Err(errno) => return Err(failed(errno)),
            }
        }
        let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let mut names: Vec<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
        names.sort_unstable();
        Ok(names)
    }

    pub(super) fn set_extended(&self, inode: Inode, name: &[u8], value: &[u8], mode: SetMode) -> Result<()> {
        let path = through_descriptor(&*self.nodes.path_of(inode)?);
        let flags = match mode {
            SetMode::Any => XattrFlags::empty(),
            SetMode::Create => XattrFlags::CREATE,
            SetMode::Replace => XattrFlags::REPLACE,
        };
        setxattr(&path, name, value, flags)
            .map_err(|errno| errors::inode(errno, "set an attribute of", inode))
    }

    pub(super) fn remove_extended(&self, inode: Inode, name: &[u8]) -> Result<()> {
        let path = through_descriptor(&*self.nodes.path_of(inode)?);
        removexattr(&path, name).map_err(|errno| errors::inode(errno, "remove an attribute of", inode))
    }
}
