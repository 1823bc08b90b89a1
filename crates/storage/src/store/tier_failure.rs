//! Failed tiers, and their return to use.
//!
//! A failed tier accepts no new data (`tiers/failing.rs`). Checkpoints do not sync it, because its
//! data is already durable (T7). To return the tier to use, its data file is reopened, because a
//! file whose sync has failed can no longer be trusted. As on every tier, data is verified each
//! time it is read.

use super::{CacheMemory, LOCK_FILE, Store};
use crate::node::tier_file;
use crate::tiers::MARK_FILE;
use crate::{Error, Result};
use alluvium_base::Purpose;
use alluvium_device::{BLOCK, Device, Directory, FileOptions};
use std::sync::Arc;

impl Store {
    /// Checks that the directories of all tiers but the first still contain their files, and marks
    /// those tiers as failed that do not. Otherwise, a data file that was removed while open would
    /// accept writes that can never be read again.
    pub(super) fn check_tier_directories(&self) {
        let further = self.directories().iter().zip(0u8..).skip(1);
        for (directory, tier) in further.filter(|(_, tier)| !self.is_closed(*tier)) {
            if self.tiers.fails(tier) {
                continue;
            }
            let is_there = match directory.list() {
                Ok(names) => [MARK_FILE.to_owned(), tier_file(tier)]
                    .iter()
                    .all(|wanted| names.contains(wanted)),
                Err(error) => {
                    let _noted = self.tiers.record_failure::<(), _>(tier, Err(error));
                    continue;
                }
            };
            if !is_there {
                let file = format!("{} (it was removed, or its device is gone)", tier_file(tier));
                let gone = alluvium_device::Error::NotFound { file };
                let _noted = self.tiers.record_failure::<(), _>(tier, Err(gone));
            }
        }
    }

    /// Returns a failed tier to use. Tries its current directory first. If that fails, calls
    /// `elsewhere` to open another one. Does nothing if the tier has not failed.
    ///
    /// # Errors
    /// [`Error::WrongTier`] if the directory does not belong to the tier or its data file is too
    /// short; I/O errors if the tier still fails. In both cases, the tier stays failed.
    pub fn readmit_tier(
        &self,
        tier: u8,
        elsewhere: impl FnOnce() -> Result<Arc<dyn Directory>>,
    ) -> Result<()> {
        self.health.check()?;
        // This lock serialises calls of this function, and excludes adding a tier.
        let mut locks = self.locks.lock();
        if !self.tiers.fails(tier) {
            return Ok(());
        }
        let own = self.directories().get(tier).expect("a tier that fails is there");
        let device = match self.opened_again(tier, &**own) {
            Ok(device) => device,
            Err(_) => {
                let directory = elsewhere()?;
                let device = self.opened_again(tier, &*directory)?;
                // If the store already owns this lock, this is the directory that was just tried,
                // and locking fails.
                locks.push(directory.lock(LOCK_FILE)?);
                if self.cache_memory == CacheMemory::Registered {
                    directory.register_memory(self.cache.memory_region());
                }
                // The new directory replaces the old one for all later requests, because the old
                // path may belong to a file system that no longer exists.
                self.directories
                    .replace(self.directories().clone().with(tier, directory));
                device
            }
        };
        self.tiers.replace(tier, device);
        tracing::info!(tier, "a failed tier is in use again");
        Ok(())
    }

    /// Reopens a tier's data file, and checks that it can be read and synced.
    fn opened_again(&self, tier: u8, directory: &dyn Directory) -> Result<Arc<dyn Device>> {
        let store = self.superblock().store;
        self.directories().require_mark_of(store, tier, directory)?;
        let device = directory.open(&tier_file(tier), FileOptions::DIRECT)?;
        let had = self.tiers.get(tier)?.len();
        if device.len() < had {
            let found = device.len();
            return Err(Error::WrongTier {
                directory: directory.describe(),
                tier,
                store: self.directory().describe(),
                why: format!(
                    "its file has {found} bytes, but had {had}: give the directory with the whole file, or \
                    restore the store from a backup"
                ),
            });
        }
        if had >= BLOCK {
            device.read_at(0, BLOCK as usize, Purpose::Recovery)?;
        }
        device.sync(Purpose::Recovery)?;
        debug_assert_ne!(tier, 0, "the first tier does not fail by itself (T7)");
        Ok(device)
    }

    /// Returns the error that made a tier fail, or `None` if it has not failed.
    #[must_use]
    pub fn tier_failure(&self, tier: u8) -> Option<Error> {
        self.tiers.failure(tier)
    }
}
