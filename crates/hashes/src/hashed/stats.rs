//! Statistics of a hashed structure.

use super::routing::RoutingFilter;
use super::run::HashRun;
use super::structure::HashedStructure;
use super::trees::RoutingList;
use std::iter::Sum;

/// The current size of a hashed structure, and what merges have written since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HashedStats {
    /// Number of hash stores that at least one part has not merged.
    pub hash_stores: u64,
    /// Number of records in hash stores, including those that some parts have already merged.
    pub hash_store_records: u64,
    /// Number of records in the sorted store or, in a bundle, in all levels.
    pub sorted_records: u64,
    /// Number of runs written by merges and still in use. SILT's form has at most one per part.
    pub runs: u64,
    /// Maximum number of levels in a part, which is at most one in SILT's form.
    pub levels: u64,
    /// Size of routing filters or routing tree lists on the device, in bytes.
    pub filter_bytes: u64,
    /// Number of tombstones among all records.
    pub tombstones: u64,
    /// Memory for filters, indexes and leaf checksums, in bytes.
    pub memory_bytes: u64,
    /// Size of the structure on the device, in bytes.
    pub device_bytes: u64,
    /// Number of completed merges, including joins of hash stores.
    pub merges: u64,
    pub merged_records: u64,
    /// Number of entries that merges have written to routing tree lists.
    pub merged_entries: u64,
}

impl Sum for HashedStats {
    /// Adds the statistics of several structures. The number of levels is the largest of them.
    fn sum<I: Iterator<Item = HashedStats>>(all: I) -> HashedStats {
        all.fold(HashedStats::default(), |sum, one| HashedStats {
            hash_stores: sum.hash_stores + one.hash_stores,
            hash_store_records: sum.hash_store_records + one.hash_store_records,
            sorted_records: sum.sorted_records + one.sorted_records,
            runs: sum.runs + one.runs,
            levels: sum.levels.max(one.levels),
            filter_bytes: sum.filter_bytes + one.filter_bytes,
            tombstones: sum.tombstones + one.tombstones,
            memory_bytes: sum.memory_bytes + one.memory_bytes,
            device_bytes: sum.device_bytes + one.device_bytes,
            merges: sum.merges + one.merges,
            merged_records: sum.merged_records + one.merged_records,
            merged_entries: sum.merged_entries + one.merged_entries,
        })
    }
}

impl HashedStructure {
    /// Returns the current statistics.
    ///
    /// ```
    /// # use alluvium_device::memory::MemoryDirectory;
    /// # use alluvium_dictionary::structure_context::StructureContext;
    /// # use alluvium_dictionary::rules::OneKeyspace;
    /// # use alluvium_hashes::hashed::{HashedStructure, HashedOptions, HashedStats};
    /// # use alluvium_storage::store::{Store, StoreOptions};
    /// # use std::sync::Arc;
    /// # let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
    /// # let home = StructureContext {
    /// #     store: Arc::new(store),
    /// #     schema: Arc::new(OneKeyspace::default()),
    /// #     horizon: Arc::default(),
    /// # };
    /// let hashed = HashedStructure::create(home, HashedOptions::default(), 0)?;
    /// assert_eq!(hashed.stats(), HashedStats::default());
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> HashedStats {
        let kept = self.shared.kept.lock();
        let ((merges, merged_records), merged_entries) = (kept.merged, kept.entries);
        drop(kept);
        let version = self.version();
        let young = version.young.iter().map(|young| &young.run);
        let filters = || version.filters();
        let of_runs: u64 = version.runs().map(HashRun::memory_bytes).sum();
        let on_device: u64 = version.runs().map(HashRun::device_bytes).sum();
        let lists = version.lists();
        let of_lists: u64 = lists.iter().map(|list| list.device_bytes()).sum();
        let filter_bytes = filters().map(RoutingFilter::device_bytes).sum::<u64>() + of_lists;
        let of_filters: u64 = filters().map(RoutingFilter::memory_bytes).sum();
        let of_lists: u64 = lists.into_iter().map(RoutingList::memory_bytes).sum();
        let levels = version.parts.iter().map(|part| part.levels.len() as u64);
        HashedStats {
            runs: version.parts.iter().map(|part| part.runs().count() as u64).sum(),
            levels: levels.max().unwrap_or(0),
            filter_bytes,
            hash_stores: version.young.len() as u64,
            hash_store_records: young.map(HashRun::records).sum(),
            sorted_records: self.sorted_records(),
            tombstones: version.runs().map(HashRun::tombstones).sum(),
            memory_bytes: of_runs + of_filters + of_lists,
            device_bytes: on_device + filter_bytes,
            merges,
            merged_records,
            merged_entries,
        }
    }
}
