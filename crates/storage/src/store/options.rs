//! Options with which a store is created or opened.

use crate::cache::NodeCache;
use crate::extents::ExtentOptions;
use crate::log::LogOptions;
use crate::{Error, PageSize, Result};
use alluvium_base::{DeviceProfile, MIB};

/// Whether the memory of the cache can be returned to the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheMemory {
    /// When the cache budget is reduced, the freed memory is returned to the operating system.
    Returnable,
    /// The memory is registered with the kernel, which reduces the cost of reads. It stays resident
    /// while the store is open, even if the cache budget is reduced.
    Registered,
}

/// Options of a store. An option marked *creation* is used only when the store is created. It is
/// then stored in the superblock, and opening the store reads it from there.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// *Creation.* A random number that identifies the store. The caller must generate it.
    pub id: u128,
    /// *Creation.* The page size. The size of a node is 1 to 16 pages.
    pub page_size: PageSize,
    /// Memory budget of the cache in bytes.
    pub cache_bytes: u64,
    /// Whether the memory of the cache is registered with the kernel or can be returned to it.
    pub cache_memory: CacheMemory,
    pub extents: ExtentOptions,
    pub log: LogOptions,
    /// The cost profile of the device, which the layers above use to choose between plans.
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
    /// Returns the options with the identity of the log set to a value derived from the store's
    /// identity.
    pub(super) fn identified(&self) -> StoreOptions {
        let log = LogOptions {
            identity: self.id as u64 ^ (self.id >> 64) as u64,
            ..self.log
        };
        StoreOptions { log, ..self.clone() }
    }

    /// Checks that all options are valid. It is called before anything is created or opened.
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
