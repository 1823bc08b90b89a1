//! The tiers of a store: a directory and a data file each, opened for direct I/O.
//!
//! *Scope*: the mapping from tiers to directories, and how a tier's directory identifies its store.
//!
//! *Must not depend on*: the contents of a data file, and the placement of structures on tiers.
//!
//! ```text
//!  first directory          second directory         third directory
//!  ├── superblock           ├── tier  (the mark)     ├── tier
//!  ├── extents-<n>.map      ├── tier-1.data          ├── tier-2.data
//!  ├── log-<n> …            └── LOCK                 └── LOCK
//!  ├── tiers  (the list)
//!  ├── tier-0.data
//!  └── LOCK
//! ```
//!
//! Invariants:
//!
//! - **T1** A store has 1 to [`MAX_TIERS`] directories. The file of tier *n* is in the *n*-th; the
//!   first also contains all files that do not belong to a tier.
//! - **T2** A further directory has a mark: the id of the store and the number of the tier. The
//!   mark is durable before the first superblock that counts the tier. A directory with a different
//!   mark, or without one, is rejected by name before its data file is opened.
//! - **T3** A mark has the name `tier` only once such a superblock is durable. Until then it is
//!   `tier.new`, and a creation removes files only next to such a mark.
//! - **T7** Extents installed on a further tier are durable: their writer has synced the tier. So a
//!   failing tier holds nothing that a checkpoint still has to sync, and checkpoints skip it.

mod directories;
mod failing;
pub mod format;
pub mod list;
mod mark;
mod numbered;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;
mod versioned_cell;

pub use directories::TierDirectories;
pub use failing::FailedAccess;
use failing::TierFailureState;
pub(crate) use mark::{DamagedMarkPolicy, abandon, begin, end, is_tier_directory};
pub use mark::{MARK_FILE, NEW_MARK_FILE, mark_of};
pub(crate) use numbered::TierArray;
pub(crate) use versioned_cell::VersionedCell;

use crate::node::tier_file;
use crate::{DiskLocation, Error, OnDiskObject, Result};
use alluvium_base::Purpose;
use alluvium_device::{Device, Directory, FileOptions};
use parking_lot::Mutex;
use std::sync::Arc;

/// Maximum number of tiers in a store. Their numbers fit into a byte on disk, and more would have
/// no use.
pub const MAX_TIERS: usize = 8;

/// The data files of the tiers, tier 0 first.
///
/// ```
/// use alluvium_device::{Directory, memory::MemoryDirectory};
/// use alluvium_storage::TierFiles;
/// let directory = MemoryDirectory::new();
/// let tiers = TierFiles::create(&[&directory])?;
/// assert_eq!(tiers.get(0)?.len(), 0);
/// assert!(tiers.get(1).is_err());
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
#[derive(Debug)]
pub struct TierFiles {
    /// The file of each tier. It is replaced when the file is reopened after a failure of its
    /// device.
    files: TierArray<VersionedCell<Arc<dyn Device>>>,
    /// The names of the directories, for errors.
    names: TierArray<Box<str>>,
    failing: [TierFailureState; MAX_TIERS],
    /// Serialises the syncs of each tier: of two concurrent ones, one could report the failure of
    /// the other.
    syncing: [Mutex<()>; MAX_TIERS],
}

impl TierFiles {
    /// Creates the files of the tiers, each in its directory. Their names are durable once the
    /// directories are synced.
    ///
    /// # Errors
    /// I/O errors.
    ///
    /// # Panics
    /// If there is no directory, or there are more than [`MAX_TIERS`].
    pub fn create(directories: &[&dyn Directory]) -> Result<TierFiles> {
        Self::with(directories, |directory, name| {
            Ok(directory.create(name, FileOptions::DIRECT)?)
        })
    }

    /// Opens the files of the tiers, each in its directory.
    ///
    /// # Errors
    /// [`Error::NoDataFile`] if a file is missing; I/O errors.
    ///
    /// # Panics
    /// If there is no directory, or there are more than [`MAX_TIERS`].
    pub fn open(directories: &[&dyn Directory], options: FileOptions) -> Result<TierFiles> {
        Self::with(directories, |directory, name| {
            let opened = directory.open(name, options);
            opened.map_err(|error| match error {
                alluvium_device::Error::NotFound { file } => Error::NoDataFile {
                    file,
                    directory: directory.describe(),
                },
                other => other.into(),
            })
        })
    }

    fn with(
        directories: &[&dyn Directory],
        file: impl Fn(&dyn Directory, &str) -> Result<Arc<dyn Device>>,
    ) -> Result<TierFiles> {
        let count = directories.len();
        assert!(
            (1..=MAX_TIERS).contains(&count),
            "{count} tiers: there are 1 to {MAX_TIERS} (T1)"
        );
        let numbered = directories.iter().enumerate();
        let files = numbered.map(|(tier, directory)| file(*directory, &tier_file(tier as u8)));
        let names = directories.iter().map(|directory| directory.describe());
        Ok(Self::named(files.collect::<Result<Vec<_>>>()?, names))
    }

    fn named(files: Vec<Arc<dyn Device>>, names: impl Iterator<Item = String>) -> TierFiles {
        TierFiles {
            files: files.into_iter().map(VersionedCell::new).collect(),
            names: names.map(String::into_boxed_str).collect(),
            failing: Default::default(),
            syncing: Default::default(),
        }
    }

    /// Returns tiers with these files, for tests.
    #[cfg(all(test, not(alluvium_model_check)))]
    pub(crate) fn of(files: Vec<Arc<dyn Device>>) -> TierFiles {
        let names: Vec<String> = (0..files.len()).map(|tier| format!("{tier}")).collect();
        Self::named(files, names.into_iter())
    }

    /// Returns the file of a tier. The number may come from a damaged pointer, so an unknown one is
    /// an error.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if there is no such tier.
    pub fn get(&self, tier: u8) -> Result<&Arc<dyn Device>> {
        let file = self.files.get(usize::from(tier));
        file.map(VersionedCell::get).ok_or_else(|| {
            let place = DiskLocation::new(OnDiskObject::Node, tier_file(tier), 0);
            Error::corrupt(
                place,
                format!("a tier below {}", self.files.len()),
                format!("tier {tier}"),
            )
        })
    }

    /// Returns the number of tiers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// Adds the file of the next tier, in a directory of this name.
    pub(crate) fn add(&self, file: Arc<dyn Device>, directory: &str) {
        self.names.push(directory.into());
        // This step is last, because the number of files defines the number of tiers.
        self.files.push(VersionedCell::new(file));
    }

    /// Replaces the file of a failed tier by a reopened one, and clears the failure.
    pub(crate) fn replace(&self, tier: u8, device: Arc<dyn Device>) {
        assert!(self.fails(tier), "tier {tier} is opened again as it fails (T7)");
        let file = self.files.get(usize::from(tier)).expect("there is such a tier");
        file.replace(device);
        self.failing[usize::from(tier)].forget();
    }

    /// Makes every completed write of a tier durable.
    ///
    /// # Errors
    /// [`Error::TierFails`] or I/O errors; the failed file is poisoned.
    pub fn sync_tier(&self, tier: u8, purpose: Purpose) -> Result<()> {
        let file = self.get(tier)?;
        let _turn = self.syncing[usize::from(tier)].lock();
        self.record_failure(tier, file.sync(purpose))
    }

    /// Makes every completed write of every tier durable. The failure of a further tier is not an
    /// error here, because its installed data is already durable (T7).
    ///
    /// # Errors
    /// I/O errors; the failed file is poisoned.
    pub fn sync(&self, purpose: Purpose) -> Result<()> {
        for tier in 0..self.count() as u8 {
            match self.sync_tier(tier, purpose) {
                Err(Error::TierFails { .. }) => {}
                other => other?,
            }
        }
        Ok(())
    }
}
