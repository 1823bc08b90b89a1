//! What a store is created and opened with.

use crate::cache::Cache;
use crate::extents::ExtentOptions;
use crate::log::LogOptions;
use crate::{Error, PageSize, Result};
use alluvium_base::{DeviceProfile, MIB};

/// What the cache's memory may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheMemory {
    /// What a smaller budget frees goes back to the operating system.
    Returnable,
    /// Registered with the kernel, which saves it some work in each read, and resident as long as
    /// the store is open, whatever the budget.
    Registered,
}

/// Options of a store. Those marked *creation* are kept in the superblock; opening takes them from
/// there.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// *Creation.* A random number that tells this store from others. Randomness is the caller's.
    pub id: u128,
    /// *Creation.* The page size.
    pub page_size: PageSize,
    /// The cache's budget in bytes, all told.
    pub cache_bytes: u64,
    /// Whether the cache's memory is registered with the kernel.
    pub cache_memory: CacheMemory,
    /// How space is managed.
    pub extents: ExtentOptions,
    /// How the log is laid out.
    pub log: LogOptions,
    /// What the device costs: layouts above depend on it.
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
    /// With the log tied to the store.
    pub(super) fn identified(&self) -> StoreOptions {
        let log = LogOptions {
            identity: self.id as u64 ^ (self.id >> 64) as u64,
            ..self.log
        };
        StoreOptions { log, ..self.clone() }
    }

    /// Checks every option, before anything is created or opened.
    pub(super) fn validate(&self) -> Result<()> {
        let least = Cache::least_budget(self.page_size);
        if self.cache_bytes < least {
            let why = format!(
                "{} bytes is less than {least}, the least with this page size",
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
