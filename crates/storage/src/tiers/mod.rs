//! The tiers of a store: a directory and a data file each, opened past the page cache.
//!
//! *Knows*: which directory holds which tier, and how a tier's directory says to which store it
//! belongs.
//!
//! *Does not know*: what is in a data file, and which structure places what on which tier.
//!
//! *Read in this order*: `directories.rs`, this file (the data files), `format.rs` and `mark.rs`
//! (the mark of a directory), `list/` (where the directories were), `failing.rs` (which of them
//! fail).
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
//! - **T1** A store has 1 to [`MAX_TIERS`] directories. The file of tier *n* lies in the *n*-th;
//!   the first also has all that is not a tier's.
//! - **T2** A further directory has a mark: the id of the store and the number of the tier. It is
//!   durable before the first superblock that counts the tier is. A directory with another mark,
//!   or without one, is refused by name before its data file is opened.
//! - **T3** A mark has the name `tier` only once such a superblock is durable; until then it is
//!   `tier.new`, and only beside such a mark does a creation remove files.
//! - **T7** What is installed on a further tier is durable: who wrote it has synced the tier. So a
//!   tier that fails takes nothing away that a checkpoint needs, and a checkpoint passes it over.

mod directories;
mod failing;
pub mod format;
pub mod list;
mod mark;
mod newest;
mod numbered;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;

pub use directories::Directories;
pub use failing::Access;
use failing::Failing;
pub(crate) use mark::{Damaged, abandon, begin, end, is_tier_directory};
pub use mark::{MARK_FILE, NEW_MARK_FILE, mark_of};
pub(crate) use newest::Newest;
pub(crate) use numbered::Numbered;

use crate::node::tier_file;
use crate::{Error, Place, Result, Structure};
use alluvium_base::Purpose;
use alluvium_device::{Device, Directory, FileOptions};
use parking_lot::Mutex;
use std::sync::Arc;

/// The most tiers in a store: their numbers fit a byte on disk, and more would have no use.
pub const MAX_TIERS: usize = 8;

/// The data files, tier 0 first.
///
/// ```
/// use alluvium_device::{Directory, memory::MemoryDirectory};
/// use alluvium_storage::Tiers;
/// let directory = MemoryDirectory::new();
/// let tiers = Tiers::create(&[&directory])?;
/// assert_eq!(tiers.get(0)?.len(), 0);
/// assert!(tiers.get(1).is_err());
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
#[derive(Debug)]
pub struct Tiers {
    /// Each with the same file opened once more after its device had failed.
    files: Numbered<Newest<Arc<dyn Device>>>,
    /// Their directories, as errors name them.
    names: Numbered<Box<str>>,
    failing: [Failing; MAX_TIERS],
    /// Syncs of a tier take turns: of two at once, one could be told of a failure that is the
    /// other's.
    syncing: [Mutex<()>; MAX_TIERS],
}

impl Tiers {
    /// Creates the files of the tiers, each in its directory. Their names are durable once the
    /// directories are synced.
    ///
    /// # Errors
    /// As the device says.
    ///
    /// # Panics
    /// When there is no directory, or there are more than [`MAX_TIERS`].
    pub fn create(directories: &[&dyn Directory]) -> Result<Tiers> {
        Self::with(directories, |directory, name| {
            Ok(directory.create(name, FileOptions::DIRECT)?)
        })
    }

    /// Opens the files of the tiers, each in its directory.
    ///
    /// # Errors
    /// [`Error::NoDataFile`] where one is missing; as the device says.
    ///
    /// # Panics
    /// When there is no directory, or there are more than [`MAX_TIERS`].
    pub fn open(directories: &[&dyn Directory], options: FileOptions) -> Result<Tiers> {
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
    ) -> Result<Tiers> {
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

    fn named(files: Vec<Arc<dyn Device>>, names: impl Iterator<Item = String>) -> Tiers {
        Tiers {
            files: files.into_iter().map(Newest::new).collect(),
            names: names.map(String::into_boxed_str).collect(),
            failing: Default::default(),
            syncing: Default::default(),
        }
    }

    /// These files, for tests with devices of their own.
    #[cfg(all(test, not(alluvium_model_check)))]
    pub(crate) fn of(files: Vec<Arc<dyn Device>>) -> Tiers {
        let names: Vec<String> = (0..files.len()).map(|tier| format!("{tier}")).collect();
        Self::named(files, names.into_iter())
    }

    /// Returns the file of a tier. The number may come from a damaged pointer, so an unknown one is
    /// an error.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when there is no such tier.
    pub fn get(&self, tier: u8) -> Result<&Arc<dyn Device>> {
        let file = self.files.get(usize::from(tier));
        file.map(Newest::get).ok_or_else(|| {
            let place = Place::new(Structure::Node, tier_file(tier), 0);
            Error::corrupt(
                place,
                format!("a tier below {}", self.files.len()),
                format!("tier {tier}"),
            )
        })
    }

    /// Returns how many tiers there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// Adds the file of the next tier, in a directory of this name.
    pub(crate) fn add(&self, file: Arc<dyn Device>, directory: &str) {
        self.names.push(directory.into());
        // Last: how many there are is how many files there are.
        self.files.push(Newest::new(file));
    }

    /// Has a tier that failed be read and written through a file that was opened once more.
    pub(crate) fn replace(&self, tier: u8, device: Arc<dyn Device>) {
        assert!(self.fails(tier), "tier {tier} is opened again as it fails (T7)");
        let file = self.files.get(usize::from(tier)).expect("there is such a tier");
        file.replace(device);
        self.failing[usize::from(tier)].forget();
    }

    /// Makes every completed write of a tier durable.
    ///
    /// # Errors
    /// [`Error::TierFails`], or as the device says; the failed file is poisoned.
    pub fn sync_tier(&self, tier: u8, purpose: Purpose) -> Result<()> {
        let file = self.get(tier)?;
        let _turn = self.syncing[usize::from(tier)].lock();
        self.judge(tier, file.sync(purpose))
    }

    /// Makes every completed write of every tier durable. What lies on a tier that fails is durable
    /// already (T7), so its failure is no error here.
    ///
    /// # Errors
    /// As the device says; the failed file is poisoned.
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
