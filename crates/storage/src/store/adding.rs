//! Adding a tier to a store that is open.
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
use crate::tiers::format::Mark;
use crate::tiers::{self, MAX_TIERS};
use crate::{Error, Result};
use alluvium_device::{Directory, FileOptions};
use std::sync::Arc;

impl Store {
    /// Adds a tier in a directory of its own, which is empty (steps 1 and 2). It takes nothing
    /// before [`Store::end_adding`], which follows once a checkpoint is durable.
    /// Returns its number.
    ///
    /// No other addition, and no copy of the store, is under way.
    ///
    /// # Errors
    /// [`Error::WrongTier`] when the directory holds something; [`Error::BadOption`] when there are
    /// as many as there can be; [`Error::Full`] when the disk has no space for the tier's reserve;
    /// `Locked`, or as the device says. The store has no further tier then.
    pub fn begin_adding(&self, directory: &Arc<dyn Directory>, limits: TierLimits) -> Result<u8> {
        self.health.check()?;
        let tier = self.tiers.count() as u8;
        if usize::from(tier) == MAX_TIERS {
            let why = format!("the store has {MAX_TIERS} directories, and can have no more");
            return Err(Error::BadOption { option: "tier", why });
        }
        self.directories().require_vacant_for(tier, &**directory)?;
        let lock = directory.lock(LOCK_FILE)?;
        let mark = Mark {
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
        // Last: how many there are is how many files there are.
        self.tiers.add(file, &directory.describe());
        assert_eq!(
            self.directories().count(),
            self.tiers.count(),
            "each tier has a directory (T1)"
        );
        Ok(tier)
    }

    /// Has a tier take data that the durable superblock counts (step 4).
    ///
    /// # Errors
    /// As the device says. The next opening ends it.
    ///
    /// # Panics
    /// When the superblock does not count it.
    pub fn end_adding(&self, tier: u8) -> Result<()> {
        assert!(tier < self.superblock().tiers, "tier {tier} is durable (T3)");
        let directory = self.directories().get(tier).expect("it was added");
        tiers::end(&**directory)?;
        self.open_tier(tier);
        Ok(())
    }
}
