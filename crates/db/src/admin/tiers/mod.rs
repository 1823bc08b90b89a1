//! The tiers of a store as users configure and see them.
//!
//! *Scope*: which directories are the tiers of a store, and how a path is identified as one of
//! them.
//!
//! *Must not depend on*: which data is on which tier; the storage layer compares the marks of
//! directories.
//!
//! The options of a tier are in `options/tier.rs`; `admin/change_tiers.rs` changes the tiers of an
//! open store.
//!
//! Invariants:
//!
//! - **D1** No directory of a store is inside another directory of the store.
//! - **D2** All directories are validated before anything is created or changed in any of them.

mod locations;

pub(crate) use locations::{TierLocations, check, existing, is_store, new, of_copy, overlaid, resolve_path};

use crate::options::{Options, TierOptions};
use alluvium_storage::extents::{ExtentOptions, TierLimits};
use std::path::Path;

impl Options {
    /// Adds a tier, which is another data directory on a slower and larger device than those of the
    /// tiers before it. The superblock and the log stay in the first directory, whose path opens
    /// the store.
    ///
    /// The store records the paths of its tiers, so they need not be passed again. If a tier has
    /// moved, pass its new path. Existing tiers may be passed in any order.
    ///
    /// New data is written to the first tier. Compactions place their output by age, on the first
    /// tier that, combined with the tiers before it, has the capacity for all data of that age or
    /// newer. Full tiers are skipped.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let (fast, large) = (place.path().join("fast"), place.path().join("large"));
    /// use alluvium::{Db, Options, TierOptions};
    /// let options = Options::new().tier(&large, TierOptions::new().max_bytes(1 << 40));
    /// drop(options.open(&fast)?);
    /// let db = Db::open(&fast)?;
    /// assert_eq!(db.stats().tiers.len(), 2);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn tier(mut self, path: impl AsRef<Path>, options: TierOptions) -> Options {
        self.tiers.push((path.as_ref().to_owned(), options));
        self
    }

    /// Returns these options, with the size limits that the store has recorded for its tiers.
    pub(crate) fn limited(&self, places: &TierLocations) -> Options {
        Options {
            tier_limits: places.limits.clone(),
            ..self.clone()
        }
    }

    /// Sets how many bytes of data are planned for the first directory of a store with several
    /// tiers. The planned size is not a limit: new data is written to the first directory, and more
    /// data than planned stays there while slower tiers are full. Default: three quarters of the
    /// first directory's capacity.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let (fast, large) = (place.path().join("fast"), place.path().join("large"));
    /// use alluvium::{Options, TierOptions};
    /// let options = Options::new().fast_bytes(0).tier(&large, TierOptions::new());
    /// let db = options.open(&fast)?;
    /// db.keyspace("rivers")?.put("Elbe", "1094 km")?;
    /// db.compact()?;
    /// assert!(db.stats().tiers[1].space.live_bytes > 0);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn fast_bytes(mut self, bytes: u64) -> Options {
        self.fast_bytes = Some(bytes);
        self
    }

    /// Sets the maximum number of bytes in the first directory for copies of pages that are read
    /// repeatedly from slower tiers. Copies use at most half of the free space there. They are
    /// discarded as soon as the space is needed, and whenever the store is opened. Default: 0,
    /// which disables copies.
    ///
    /// A page is copied as a whole after lookups have missed it in the cache twice. Copies pay off
    /// for values of a kilobyte or more, and for frequently read keys that are adjacent. Small,
    /// scattered records are better served by the record cache. Each copy takes about 40 bytes of
    /// memory on top of [`Options::memory`]. [`Stats::copies`](crate::Stats::copies) shows how
    /// often copies are used.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let (fast, large) = (place.path().join("fast"), place.path().join("large"));
    /// use alluvium::{Options, TierOptions};
    /// let db = Options::new().copy_hot(1 << 30).tier(&large, TierOptions::new()).open(&fast)?;
    /// assert_eq!(db.stats().copies.bytes, 0);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn copy_hot(mut self, bytes: u64) -> Options {
        self.copy_hot = bytes;
        self
    }

    /// Passes the size limits and planned sizes of the tiers to the extent allocator.
    pub(crate) fn plan_tiers(&self, extents: &mut ExtentOptions) {
        if self.fast_bytes.is_some() {
            extents.planned_bytes = self.fast_bytes;
        }
        for (tier, &max_bytes) in (1..).zip(&self.tier_limits) {
            let limits = TierLimits {
                max_bytes,
                ..TierLimits::default()
            };
            *extents = extents.with_tier(tier, limits);
        }
    }
}
