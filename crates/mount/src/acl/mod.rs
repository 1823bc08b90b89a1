//! POSIX access control lists: how they, the permission bits and new files depend on each other
//! (POSIX 1003.1e draft 17, §23). The kernel checks them; the file system keeps them up to date.
//!
//! *Scope*: lists as values.
//!
//! *Must not depend on*: FUSE, file systems.
//!
//! Invariants:
//!
//! - **L1** The permission bits are those of the entries for owner, mask (without one: owning
//!   group) and others.

mod format;

/// The extended attribute with the list that controls access to an inode.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The extended attribute with the list that new inodes in a directory get.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

/// Whom an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AclTag {
    Owner,
    User(u32),
    OwningGroup,
    Group(u32),
    /// The most that users, groups and the owning group are permitted.
    Mask,
    Other,
}

/// An entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AclEntry {
    tag: AclTag,
    /// Read 4, write 2, execute 1.
    permissions: u16,
}

/// An access control list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessList {
    entries: Vec<AclEntry>,
}

impl AccessList {
    /// Returns the list that an extended attribute holds, or `None` if it holds none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<AccessList> {
        let entries = format::decode(bytes)?;
        Some(AccessList { entries })
    }

    /// Returns the value of the extended attribute.
    pub(crate) fn encode(&self) -> Vec<u8> {
        format::encode(&self.entries)
    }

    /// Returns whether the permission bits say all that the list says.
    pub(crate) fn is_minimal(&self) -> bool {
        let base = |tag| matches!(tag, AclTag::Owner | AclTag::OwningGroup | AclTag::Other);
        self.entries.iter().all(|entry| base(entry.tag))
    }

    /// Returns the permission bits, the lower nine of a mode.
    pub(crate) fn mode(&self) -> u32 {
        let has_mask = self.entries.iter().any(|entry| entry.tag == AclTag::Mask);
        self.entries.iter().fold(0, |mode, entry| {
            let bits = u32::from(entry.permissions);
            mode | match entry.tag {
                AclTag::Owner => bits << 6,
                AclTag::Mask => bits << 3,
                AclTag::OwningGroup if !has_mask => bits << 3,
                AclTag::Other => bits,
                _ => 0,
            }
        })
    }

    /// Returns the list after a change of the permission bits.
    pub(crate) fn with_mode(&self, mode: u32) -> AccessList {
        self.map_bits(|shift, _| (mode >> shift & 7) as u16)
    }

    /// Returns the list of a new inode that is created with `mode` in a directory with this default
    /// list.
    pub(crate) fn inherited(&self, mode: u32) -> AccessList {
        self.map_bits(|shift, permissions| permissions & (mode >> shift & 7) as u16)
    }

    /// Changes the entries that the permission bits show. `change` gets the position of their bits
    /// in a mode.
    fn map_bits(&self, change: impl Fn(u32, u16) -> u16) -> AccessList {
        let has_mask = self.entries.iter().any(|entry| entry.tag == AclTag::Mask);
        let changed = |entry: &AclEntry| {
            let shift = match entry.tag {
                AclTag::Owner => Some(6),
                AclTag::Mask => Some(3),
                AclTag::OwningGroup if !has_mask => Some(3),
                AclTag::Other => Some(0),
                _ => None,
            };
            let permissions = shift.map_or(entry.permissions, |shift| change(shift, entry.permissions));
            AclEntry {
                tag: entry.tag,
                permissions,
            }
        };
        AccessList {
            entries: self.entries.iter().map(changed).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(AclTag, u16)]) -> AccessList {
        let entries = entries
            .iter()
            .map(|&(tag, permissions)| AclEntry { tag, permissions });
        AccessList {
            entries: entries.collect(),
        }
    }

    fn extended() -> AccessList {
        list(&[
            (AclTag::Owner, 7),
            (AclTag::User(1000), 6),
            (AclTag::OwningGroup, 5),
            (AclTag::Group(7), 4),
            (AclTag::Mask, 6),
            (AclTag::Other, 0),
        ])
    }

    #[test]
    fn a_list_is_read_back_as_it_was_written() {
        assert_eq!(AccessList::decode(&extended().encode()), Some(extended()));
    }

    #[test]
    fn no_other_bytes_are_a_list() {
        let mut bytes = extended().encode();
        assert_eq!(AccessList::decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(AccessList::decode(&bytes[..3]), None);
        bytes[4] = 0x03;
        assert_eq!(AccessList::decode(&bytes), None);
        bytes[0] = 1;
        assert_eq!(AccessList::decode(&bytes), None);
    }

    #[test]
    fn the_group_bits_show_the_mask_if_there_is_one() {
        assert_eq!(extended().mode(), 0o760);
        assert!(!extended().is_minimal());
        let base = list(&[(AclTag::Owner, 6), (AclTag::OwningGroup, 4), (AclTag::Other, 4)]);
        assert_eq!(base.mode(), 0o644);
        assert!(base.is_minimal());
    }

    #[test]
    fn a_new_mode_changes_the_mask_and_not_the_group() {
        let changed = extended().with_mode(0o4705);
        assert_eq!(changed.mode(), 0o705);
        assert_eq!(changed.entries[2].permissions, 5);
    }

    #[test]
    fn a_new_file_gets_at_most_what_its_creator_asks_for() {
        let inherited = extended().inherited(0o640);
        assert_eq!(inherited.mode(), 0o640);
        assert_eq!(inherited.entries[1].permissions, 6);
    }
}
