//! What a structure holds and has done, in numbers.

use super::routing::Routing;
use super::run::Run;
use super::structure::Hashed;
use super::trees::List;

/// What a hashed structure holds, and what merges have done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HashedStats {
    /// Hash stores that are not merged into all parts of the sorted store.
    pub hash_stores: u64,
    /// Records in them; a part may have some of these already.
    pub hash_store_records: u64,
    /// Records of the sorted store, or of the levels of a bundle.
    pub sorted_records: u64,
    /// Runs that merges have made: of SILT's parts at most one each.
    pub runs: u64,
    /// Levels of the part that has most. SILT's have one.
    pub levels: u64,
    /// Bytes on the device that routing filters take, or the lists of routing trees.
    pub filter_bytes: u64,
    /// Of all records, those that delete a key.
    pub tombstones: u64,
    /// Bytes of memory for filters, indexes and checksums of leaves.
    pub memory_bytes: u64,
    /// Bytes on the device.
    pub device_bytes: u64,
    /// Merges of a part that have ended.
    pub merges: u64,
    /// Records that they have written.
    pub merged_records: u64,
    /// Entries of lists of routing trees that they have written.
    pub merged_entries: u64,
}

impl Hashed {
    /// Returns what it holds and has done.
    ///
    /// ```
    /// # use alluvium_device::memory::MemoryDirectory;
    /// # use alluvium_dictionary::home::Home;
    /// # use alluvium_dictionary::rules::OneKeyspace;
    /// # use alluvium_hashes::hashed::{Hashed, HashedOptions, HashedStats};
    /// # use alluvium_storage::store::{Store, StoreOptions};
    /// # use std::sync::Arc;
    /// # let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
    /// # let home = Home {
    /// #     store: Arc::new(store),
    /// #     schema: Arc::new(OneKeyspace::default()),
    /// #     horizon: Arc::default(),
    /// # };
    /// let hashed = Hashed::create(home, HashedOptions::default(), 0)?;
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
        let of_runs: u64 = version.runs().map(Run::memory_bytes).sum();
        let on_device: u64 = version.runs().map(Run::device_bytes).sum();
        let lists = version.lists();
        let of_lists: u64 = lists.iter().map(|list| list.device_bytes()).sum();
        let filter_bytes = filters().map(Routing::device_bytes).sum::<u64>() + of_lists;
        let of_filters: u64 = filters().map(Routing::memory_bytes).sum();
        let of_lists: u64 = lists.into_iter().map(List::memory_bytes).sum();
        let levels = version.parts.iter().map(|part| part.levels.len() as u64);
        HashedStats {
            runs: version.parts.iter().map(|part| part.runs().count() as u64).sum(),
            levels: levels.max().unwrap_or(0),
            filter_bytes,
            hash_stores: version.young.len() as u64,
            hash_store_records: young.map(Run::records).sum(),
            sorted_records: self.sorted_records(),
            tombstones: version.runs().map(Run::tombstones).sum(),
            memory_bytes: of_runs + of_filters + of_lists,
            device_bytes: on_device + filter_bytes,
            merges,
            merged_records,
            merged_entries,
        }
    }
}
