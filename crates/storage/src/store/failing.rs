//! Tiers that fail, and their return.
//!
//! A tier that fails takes nothing new from then on (`tiers/failing.rs`), and a checkpoint passes
//! it over: what it holds is durable (T7). It is used again once it was opened once more, which
//! forgets failed syncs. What lies on it is verified when it is read, like all else.

use super::{CacheMemory, LOCK_FILE, Store};
use crate::node::tier_file;
use crate::tiers::MARK_FILE;
use crate::{Error, Result};
use alluvium_base::Purpose;
use alluvium_device::{BLOCK, Device, Directory, FileOptions};
use std::sync::Arc;

impl Store {
    /// Looks whether the directories of further tiers are still there. A data file that was removed
    /// while it is open takes writes that nothing will ever find.
    pub(super) fn look_at_tiers(&self) {
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
                    let _noted = self.tiers.judge::<(), _>(tier, Err(error));
                    continue;
                }
            };
            if !is_there {
                let file = format!("{} (it was removed, or its device is gone)", tier_file(tier));
                let gone = alluvium_device::Error::NotFound { file };
                let _noted = self.tiers.judge::<(), _>(tier, Err(gone));
            }
        }
    }

    /// Has a tier that failed be used again, in its directory as the store has it open, or as
    /// `elsewhere` opens it afresh. One that does not fail stays as it is.
    ///
    /// # Errors
    /// [`Error::WrongTier`] when the directory holds something else, or less than the tier had;
    /// as the device says, when it still fails. The tier is as before then.
    pub fn readmit_tier(
        &self,
        tier: u8,
        elsewhere: impl FnOnce() -> Result<Arc<dyn Directory>>,
    ) -> Result<()> {
        self.health.check()?;
        // One at a time, and none while a tier is added.
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
                // One that the store has locked already is the one that was just tried.
                locks.push(directory.lock(LOCK_FILE)?);
                if self.cache_memory == CacheMemory::Registered {
                    directory.register_memory(self.cache.memory_region());
                }
                // What else is asked of the tier's directory is asked of this one: the other may
                // lead to a file system that is not there any more.
                self.directories
                    .replace(self.directories().clone().with(tier, directory));
                device
            }
        };
        self.tiers.replace(tier, device);
        tracing::info!(tier, "a tier that failed is used again");
        Ok(())
    }

    /// Opens the file of a tier once more, and sees that it answers.
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
                    "its file has {found} bytes, and had {had}: give the directory that has all of it, or restore the \
                     store from a backup"
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

    /// Returns what a tier said when it failed, if it fails.
    #[must_use]
    pub fn tier_failure(&self, tier: u8) -> Option<Error> {
        self.tiers.failure(tier)
    }
}
