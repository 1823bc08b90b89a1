//! The list of a store's tiers other than the first. It is a file in the store's first directory,
//! and contains the path that each tier's directory had when the store was last opened.
//!
//! *Scope*: reading the list, and replacing it so that a crash leaves either the old or the new
//! list.
//!
//! *Must not depend on*: how a path becomes a directory; the contents of a tier.
//!
//! The superblock contains the number of tiers, and marker files identify their directories. The
//! list serves only to find the directories, and to name a missing one. A store can be opened
//! without it.
//!
//! Invariants:
//!
//! - **T4** The tiers in a list are in ascending order, and the first tier is not listed.

pub mod format;

use crate::{DiskLocation, Error, OnDiskObject, Result};
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, Directory, FileOptions};

/// Name of the file that contains the list.
pub const LIST_FILE: &str = "tiers";
/// Name of a new list file while it is being written.
pub const NEW_LIST_FILE: &str = "tiers.new";

/// An entry of the list, for one tier other than the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierEntry {
    /// The number of the tier, from 1 to 7.
    pub tier: u8,
    /// The path of the tier's directory.
    pub path: String,
    /// Maximum number of bytes that the tier may use, or `None` for no limit.
    pub max_bytes: Option<u64>,
    /// Whether the tier is being drained, so that it accepts no new data.
    pub is_drained: bool,
}

/// The tiers of a store other than the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TierList {
    /// The identity of the store to which the tiers belong.
    pub store: u128,
    /// The entries, in tier order.
    pub tiers: Vec<TierEntry>,
}

impl TierList {
    /// Reads the list from a store's first directory. Returns `None` if there is no list.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the list is damaged; [`Error::NewerFormat`]; I/O errors.
    pub fn read(directory: &dyn Directory) -> Result<Option<TierList>> {
        let file = match directory.open(LIST_FILE, FileOptions::DIRECT.read_only()) {
            Ok(file) => file,
            Err(alluvium_device::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let place = DiskLocation::new(OnDiskObject::TierList, LIST_FILE, 0);
        let len = file.len();
        if len == 0 || len > format::MAX_BYTES as u64 || !len.is_multiple_of(alluvium_device::BLOCK) {
            let expected = format!("a list of at most {} bytes", format::MAX_BYTES);
            return Err(Error::corrupt(place, expected, format!("{len} bytes")));
        }
        let bytes = file.read_at(0, len as usize, Purpose::Recovery)?;
        TierList::decode(&bytes, &place).map(Some)
    }

    /// Durably replaces the list in a store's first directory. A crash leaves either the old or the
    /// new list.
    ///
    /// # Errors
    /// I/O errors.
    pub fn write(&self, directory: &dyn Directory) -> Result<()> {
        if directory.list()?.iter().any(|name| name == NEW_LIST_FILE) {
            directory.remove(NEW_LIST_FILE)?;
        }
        let bytes = self.encode();
        let file = directory.create(NEW_LIST_FILE, FileOptions::DIRECT)?;
        file.grow(bytes.len() as u64)?;
        file.write_at(0, AlignedBuffer::padded(&bytes), Purpose::Superblock)?;
        file.sync(Purpose::Superblock)?;
        directory.sync()?;
        directory.rename(NEW_LIST_FILE, LIST_FILE)?;
        Ok(directory.sync()?)
    }

    /// Returns the entry of a tier, or `None` if the tier is not listed.
    #[must_use]
    pub fn get(&self, tier: u8) -> Option<&TierEntry> {
        debug_assert!(
            self.tiers.is_sorted_by_key(|listed| listed.tier),
            "they ascend (T4)"
        );
        self.tiers.iter().find(|listed| listed.tier == tier)
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use alluvium_device::memory::MemoryDirectory;

    fn list(paths: &[&str]) -> TierList {
        let listed = (1..).zip(paths).map(|(tier, path)| TierEntry {
            tier,
            path: (*path).to_owned(),
            max_bytes: None,
            is_drained: false,
        });
        TierList {
            store: 9,
            tiers: listed.collect(),
        }
    }

    #[test]
    fn a_list_is_replaced_as_a_whole_and_what_a_crash_left_is_no_obstacle() {
        let directory = MemoryDirectory::new();
        assert_eq!(TierList::read(&directory).unwrap(), None);
        list(&["/a"]).write(&directory).unwrap();
        directory.create(NEW_LIST_FILE, FileOptions::DIRECT).unwrap();
        list(&["/a", "/b"]).write(&directory).unwrap();
        let read = TierList::read(&directory).unwrap().unwrap();
        assert_eq!(read, list(&["/a", "/b"]));
        assert_eq!(read.get(2).unwrap().path, "/b");
        assert!(read.get(3).is_none());
        assert_eq!(directory.list().unwrap(), [LIST_FILE]);
    }

    #[test]
    fn an_empty_and_a_damaged_list_are_errors_that_name_it() {
        let directory = MemoryDirectory::new();
        directory.create(LIST_FILE, FileOptions::DIRECT).unwrap();
        let empty = TierList::read(&directory).unwrap_err();
        assert!(empty.to_string().contains("tiers"), "{empty}");
        list(&["/a"]).write(&directory).unwrap();
        let file = directory.open(LIST_FILE, FileOptions::DIRECT).unwrap();
        file.write_at(0, AlignedBuffer::padded(&[0; 512]), Purpose::Other)
            .unwrap();
        assert!(matches!(TierList::read(&directory), Err(Error::Corrupt { .. })));
    }
}
