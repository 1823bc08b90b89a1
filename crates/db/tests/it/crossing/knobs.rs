//! Store options that must not affect any result.

use super::ops::Operation;
use alluvium::simulation::FilterSource;
use alluvium::{DeviceProfile, Durability, Options};
use alluvium_storage::log::SegmentAccess;

/// Store options that must not affect any result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NeutralOptions {
    /// Bytes of the page cache.
    pub(crate) cache: u64,
    /// Bytes of the record cache.
    pub(crate) record_memory: u64,
    /// Number of children per node of the tiered tree.
    pub(crate) fanout: usize,
    /// Filter type of the levels.
    pub(crate) filters: FilterSource,
    /// Bytes of the log.
    pub(crate) log: u64,
    /// Lanes of the log.
    pub(crate) lanes: usize,
    /// How the log is accessed.
    pub(crate) access: SegmentAccess,
    /// Bytes of a page.
    pub(crate) page_size: u32,
    /// The cost profile of the device.
    pub(crate) device: DeviceProfile,
    /// Bytes planned for the first of two tiers.
    pub(crate) planned: u64,
    /// Number of background threads.
    pub(crate) workers: usize,
    /// Durability of all commits, replacing the history's.
    pub(crate) durability: Option<Durability>,
    /// An upkeep operation, and how many operations pass between two executions of it.
    pub(crate) upkeep: Option<(usize, Operation)>,
    /// Whether everything is synced before a crash, so that no set of options loses anything.
    pub(crate) loses_nothing: bool,
}

impl Default for NeutralOptions {
    fn default() -> NeutralOptions {
        NeutralOptions {
            cache: 1 << 20,
            record_memory: 64 << 10,
            fanout: 4,
            filters: FilterSource::default(),
            log: 384 << 10,
            lanes: 2,
            access: SegmentAccess::Written,
            page_size: 4 << 10,
            device: DeviceProfile::SSD,
            planned: 64 << 10,
            workers: 0,
            durability: None,
            upkeep: None,
            loses_nothing: false,
        }
    }
}

impl NeutralOptions {
    /// Applies the options that are not part of a scale.
    pub(crate) fn of(&self, options: Options) -> Options {
        options
            .record_memory(self.record_memory)
            .page_size(self.page_size)
            .device(self.device)
            .workers(self.workers)
    }
}
