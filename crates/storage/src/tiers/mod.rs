//! The tiers of a store. Each tier has a directory and a data file, which is opened for direct I/O.
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
//! - **T1** A store has 1 to [`MAX_TIERS`] directories. The data file of tier *n* is in directory
//!   *n*, counted from 0. The directory of tier 0 also contains all files that do not belong to a
//!   tier.
//! - **T2** Every directory but the first has a marker file with the store's id and the tier's
//!   number, which is durable before the first superblock that includes the tier. If a directory
//!   has a different marker file or none, opening fails with an error that names the directory,
//!   before the data file is opened.
//! - **T3** The marker file gets the name `tier` only once a superblock that includes the tier is
//!   durable. Until then, its name is `tier.new`. Creating a tier removes existing files only from
//!   a directory with a `tier.new` file.
//! - **T7** Extents on any tier but the first are durable when they are installed, because their
//!   writer has synced the tier. If such a tier fails, a checkpoint therefore has nothing to sync
//!   on it, and skips it.

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

/// Maximum number of tiers of a store. A tier number must fit into a byte on disk, and more tiers
/// would be of no use.
pub const MAX_TIERS: usize = 8;

/// The open data files of all tiers, in tier order.
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
    /// The data file of each tier. Replaced when the file is reopened after its device has failed.
    files: TierArray<VersionedCell<Arc<dyn Device>>>,
    /// The names of the tiers' directories, for error messages.
    names: TierArray<Box<str>>,
    failing: [TierFailureState; MAX_TIERS],
    /// One lock for each tier that serialises its syncs. Otherwise, one of two concurrent syncs
    /// could report the failure of the other.
    syncing: [Mutex<()>; MAX_TIERS],
}

impl TierFiles {
    /// Creates each tier's data file in its directory. The file names become durable when the
    /// caller syncs the directories.
    ///
    /// # Errors
    /// I/O errors.
    ///
    /// # Panics
    /// If `directories` is empty or has more than [`MAX_TIERS`] entries.
    pub fn create(directories: &[&dyn Directory]) -> Result<TierFiles> {
        Self::with(directories, |directory, name| {
            Ok(directory.create(name, FileOptions::DIRECT)?)
        })
    }

    /// Opens each tier's data file in its directory.
    ///
    /// # Errors
    /// [`Error::NoDataFile`] if a data file does not exist; I/O errors.
    ///
    /// # Panics
    /// If `directories` is empty or has more than [`MAX_TIERS`] entries.
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

    /// Returns tiers with these data files. For tests only.
    #[cfg(all(test, not(alluvium_model_check)))]
    pub(crate) fn of(files: Vec<Arc<dyn Device>>) -> TierFiles {
        let names: Vec<String> = (0..files.len()).map(|tier| format!("{tier}")).collect();
        Self::named(files, names.into_iter())
    }

    /// Returns a tier's data file. The tier number may come from a damaged pointer, so an unknown
    /// number is an error rather than a panic.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the store has no such tier.
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

    /// Adds the data file of the next tier. `directory` is the name of its directory, for error
    /// messages.
    pub(crate) fn add(&self, file: Arc<dyn Device>, directory: &str) {
        self.names.push(directory.into());
        // Add the file last, because the number of files defines the number of tiers.
        self.files.push(VersionedCell::new(file));
    }

    /// Replaces the data file of a failed tier with a reopened one. The tier then no longer counts
    /// as failed.
    pub(crate) fn replace(&self, tier: u8, device: Arc<dyn Device>) {
        assert!(self.fails(tier), "tier {tier} is opened again as it fails (T7)");
        let file = self.files.get(usize::from(tier)).expect("there is such a tier");
        file.replace(device);
        self.failing[usize::from(tier)].forget();
    }

    /// Makes every completed write to a tier durable.
    ///
    /// # Errors
    /// [`Error::TierFails`] or I/O errors. If a sync fails, later syncs of the file fail too.
    pub fn sync_tier(&self, tier: u8, purpose: Purpose) -> Result<()> {
        let file = self.get(tier)?;
        let _turn = self.syncing[usize::from(tier)].lock();
        self.record_failure(tier, file.sync(purpose))
    }

    /// Makes every completed write to every tier durable. The failure of a tier other than the
    /// first is not an error, because the data installed on it is already durable (T7).
    ///
    /// # Errors
    /// I/O errors. If a sync fails, later syncs of the file fail too.
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
