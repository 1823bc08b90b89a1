//! Adds a tier to an open store, in these steps:
//!
//! ```text
//!  1  the directory gets a mark and a file, durably          a crash: the directory is vacant
//!  2  the tier is there in memory, and takes nothing
//!  3  a checkpoint counts it in the superblock               a crash: an opening does the rest
//!  4  the mark gets its name, and the tier takes data
//! ```

use super::{CacheMemory, LOCK_FILE, Store};
use crate::extents::TierLimits;
use crate::node::tier_file;
use crate::tiers::format::TierMark;
use crate::tiers::{self, MAX_TIERS};
use crate::{Error, Result};
use alluvium_device::{Directory, FileOptions};
use std::sync::Arc;

impl Store {
    /// Starts adding a tier in an empty directory (steps 1 and 2), and returns its number. The
    /// caller must then complete a checkpoint and call [`Store::end_adding`]. Until then, the tier
    /// receives no data.
    ///
    /// No other tier may be in the process of being added, and no copy of the store may be in
    /// progress.
    ///
    /// # Errors
    /// [`Error::WrongTier`] if the directory is not empty; [`Error::BadOption`] if the store
    /// already has the maximum number of tiers; [`Error::Full`] if the disk has no space for the
    /// tier's reserve; `Locked`; I/O errors. After an error, the store has no new tier.
    pub fn begin_adding(&self, directory: &Arc<dyn Directory>, limits: TierLimits) -> Result<u8> {
        self.health.check()?;
        let tier = self.tiers.count() as u8;
        if usize::from(tier) == MAX_TIERS {
            let why = format!("the store already has {MAX_TIERS} directories, the maximum");
            return Err(Error::BadOption { option: "tier", why });
        }
        self.directories().require_vacant_for(tier, &**directory)?;
        let lock = directory.lock(LOCK_FILE)?;
        let mark = TierMark {
            store: self.superblock().store,
            tier,
        };
        let made = tiers::begin(mark, &**directory).and_then(|()| {
            let file = directory.create(&tier_file(tier), FileOptions::DIRECT)?;
            directory.sync()?;
            self.extents.add_tier(&*file, limits)?;
            Ok(file)
        });
        let file = match made {
            Ok(file) => file,
            Err(error) => {
                tiers::abandon(&**directory);
                return Err(error);
            }
        };
        self.close_tier(tier);
        if self.cache_memory == CacheMemory::Registered {
            directory.register_memory(self.cache.memory_region());
        }
        let mut locks = self.locks.lock();
        locks.push(lock);
        self.directories
            .replace(self.directories().clone().and(Arc::clone(directory)));
        // Add the file last, because the number of files defines the number of tiers.
        self.tiers.add(file, &directory.describe());
        assert_eq!(
            self.directories().count(),
            self.tiers.count(),
            "each tier has a directory (T1)"
        );
        Ok(tier)
    }

    /// Opens an added tier for data (step 4). The durable superblock must already include it.
    ///
    /// # Errors
    /// I/O errors, after which the next opening of the store repeats the step.
    ///
    /// # Panics
    /// If the durable superblock does not include the tier.
    pub fn end_adding(&self, tier: u8) -> Result<()> {
        assert!(tier < self.superblock().tiers, "tier {tier} is durable (T3)");
        let directory = self.directories().get(tier).expect("it was added");
        tiers::end(&**directory)?;
        self.open_tier(tier);
        Ok(())
    }
}
