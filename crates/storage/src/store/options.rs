//! Options for creating and opening a store.

use crate::cache::NodeCache;
use crate::extents::ExtentOptions;
use crate::log::LogOptions;
use crate::{Error, PageSize, Result};
use alluvium_base::{DeviceProfile, MIB};

/// How the cache's memory is managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheMemory {
    /// Memory freed by a smaller budget is returned to the operating system.
    Returnable,
    /// The memory is registered with the kernel, which makes reads cheaper. It stays resident while
    /// the store is open, whatever the budget.
    Registered,
}

/// Options of a store. Those marked *creation* are stored in the superblock; opening reads them
/// from there.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// *Creation.* A random number that identifies the store. The caller generates it.
    pub id: u128,
    /// *Creation.* The unit of node sizes: a node has 1 to 16 pages.
    pub page_size: PageSize,
    /// The total budget of the cache in bytes.
    pub cache_bytes: u64,
    /// Whether the cache's memory is registered with the kernel.
    pub cache_memory: CacheMemory,
    pub extents: ExtentOptions,
    pub log: LogOptions,
    /// The cost profile of the device, used by the layers above.
    pub device: DeviceProfile,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            id: 0,
            page_size: PageSize::default(),
            cache_bytes: 32 * MIB,
            cache_memory: CacheMemory::Returnable,
            extents: ExtentOptions::default(),
            log: LogOptions::default(),
            device: DeviceProfile::default(),
        }
    }
}

impl StoreOptions {
    /// Returns the options with the log's identity derived from the store's.
    pub(super) fn identified(&self) -> StoreOptions {
        let log = LogOptions {
            identity: self.id as u64 ^ (self.id >> 64) as u64,
            ..self.log
        };
        StoreOptions { log, ..self.clone() }
    }

    /// Checks every option before anything is created or opened.
    pub(super) fn validate(&self) -> Result<()> {
        let least = NodeCache::least_budget(self.page_size);
        if self.cache_bytes < least {
            let why = format!(
                "{} bytes is below the minimum of {least} for this page size",
                self.cache_bytes
            );
            return Err(Error::BadOption {
                option: "cache budget",
                why,
            });
        }
        self.log.validate()
    }
}
