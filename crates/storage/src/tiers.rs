//! The data files of a store: one per tier, opened past the page cache.

use crate::node::tier_file;
use crate::{Error, Place, Result, Structure};
use alluvium_base::Purpose;
use alluvium_device::{Device, Directory, FileOptions};
use std::sync::Arc;

/// The most tiers in a store: their numbers fit a byte on disk, and more would have no use.
pub const MAX_TIERS: usize = 8;

/// The data files, tier 0 first.
///
/// ```
/// use alluvium_device::{Directory, memory::MemoryDirectory};
/// use alluvium_storage::Tiers;
/// let directory = MemoryDirectory::new();
/// let tiers = Tiers::create(&directory, 1)?;
/// assert_eq!(tiers.get(0)?.len(), 0);
/// assert!(tiers.get(1).is_err());
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
#[derive(Debug)]
pub struct Tiers {
    files: Vec<Arc<dyn Device>>,
}

impl Tiers {
    /// Creates the files of `count` tiers. Their names are durable once the directory is synced.
    ///
    /// # Errors
    /// As the device says.
    ///
    /// # Panics
    /// When `count` is zero or above [`MAX_TIERS`].
    pub fn create(directory: &dyn Directory, count: usize) -> Result<Tiers> {
        Self::with(count, |name| directory.create(name, FileOptions::DIRECT))
    }

    /// Opens the files of `count` tiers.
    ///
    /// # Errors
    /// As the device says.
    ///
    /// # Panics
    /// When `count` is zero or above [`MAX_TIERS`].
    pub fn open(directory: &dyn Directory, count: usize, options: FileOptions) -> Result<Tiers> {
        Self::with(count, |name| directory.open(name, options))
    }

    fn with(count: usize, file: impl Fn(&str) -> alluvium_device::Result<Arc<dyn Device>>) -> Result<Tiers> {
        assert!(
            (1..=MAX_TIERS).contains(&count),
            "{count} tiers: there are 1 to {MAX_TIERS}"
        );
        let files = (0..count).map(|tier| file(&tier_file(tier as u8)));
        Ok(Tiers {
            files: files.collect::<alluvium_device::Result<_>>()?,
        })
    }

    /// These files, for tests with devices of their own.
    #[cfg(all(test, not(alluvium_model_check)))]
    pub(crate) fn of(files: Vec<Arc<dyn Device>>) -> Tiers {
        Tiers { files }
    }

    /// Returns the file of a tier. The number may come from a damaged pointer, so an unknown one is
    /// an error.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when there is no such tier.
    pub fn get(&self, tier: u8) -> Result<&Arc<dyn Device>> {
        self.files.get(usize::from(tier)).ok_or_else(|| {
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

    /// Makes every completed write of every tier durable.
    ///
    /// # Errors
    /// As the device says; the failed file is poisoned.
    pub fn sync(&self, purpose: Purpose) -> Result<()> {
        self.files.iter().try_for_each(|file| Ok(file.sync(purpose)?))
    }
}
