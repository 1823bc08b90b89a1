//! Bytes of POSIX access control lists in extended attributes, as Linux defines them
//! (`linux/posix_acl_xattr.h`). All numbers are little endian.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  version: 2
//!      4    8n  entries
//! ```
//!
//! An entry:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     2  whom it is about: 1 owner, 2 a user, 4 owning group, 8 a group, 16 mask, 32 others
//!      2     2  permissions: read 4, write 2, execute 1
//!      4     4  the user or the group; 2^32 - 1 for the other kinds
//! ```

#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{AclEntry, AclTag};

const VERSION: u32 = 2;
const HEADER_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;
/// The user or group of entries that name none.
const NOBODY: u32 = u32::MAX;

/// Returns the entries of a list, or `None` if the bytes are no list.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<AclEntry>> {
    let (version, entries) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    if u32::from_le_bytes(*version) != VERSION {
        return None;
    }
    let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
    if !rest.is_empty() {
        return None;
    }
    entries.iter().map(decode_entry).collect()
}

fn decode_entry(bytes: &[u8; ENTRY_BYTES]) -> Option<AclEntry> {
    let [tag_low, tag_high, low, high, id @ ..] = *bytes;
    let id = u32::from_le_bytes(id);
    let tag = match u16::from_le_bytes([tag_low, tag_high]) {
        0x01 => AclTag::Owner,
        0x02 => AclTag::User(id),
        0x04 => AclTag::OwningGroup,
        0x08 => AclTag::Group(id),
        0x10 => AclTag::Mask,
        0x20 => AclTag::Other,
        _ => return None,
    };
    let permissions = u16::from_le_bytes([low, high]);
    (permissions <= 7).then_some(AclEntry { tag, permissions })
}

/// Returns the bytes of a list.
pub(super) fn encode(entries: &[AclEntry]) -> Vec<u8> {
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for entry in entries {
        let (tag, id): (u16, u32) = match entry.tag {
            AclTag::Owner => (0x01, NOBODY),
            AclTag::User(user) => (0x02, user),
            AclTag::OwningGroup => (0x04, NOBODY),
            AclTag::Group(group) => (0x08, group),
            AclTag::Mask => (0x10, NOBODY),
            AclTag::Other => (0x20, NOBODY),
        };
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&entry.permissions.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_list_are_those_of_linux() {
        let entry = |tag, permissions| AclEntry { tag, permissions };
        let bytes = encode(&[entry(AclTag::Owner, 6), entry(AclTag::Group(7), 4)]);
        assert_eq!(
            bytes,
            [2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 8, 0, 4, 0, 7, 0, 0, 0]
        );
    }
}
