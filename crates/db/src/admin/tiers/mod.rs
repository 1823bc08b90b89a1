//! Tiers of a store, as its users see them.
//!
//! *Scope*: the directories of the tiers, and how a path is recognised as one of them.
//!
//! *Must not depend on*: which data is on which tier; the storage layer compares the marks of
//! directories.
//!
//! The options of a tier are in `options/tier.rs`; `admin/change_tiers.rs` changes the tiers of an
//! open store.
//!
//! Invariants:
//!
//! - **D1** No directory of a store is inside another one.
//! - **D2** All directories are validated before anything is created or changed in one of them.

mod locations;

pub(crate) use locations::{TierLocations, check, existing, is_store, new, of_copy, overlaid, resolve_path};

use crate::options::{Options, TierOptions};
use alluvium_storage::extents::{ExtentOptions, TierLimits};
use std::path::Path;

impl Options {
    /// Adds a tier: a further directory for data, on a slower and larger device than the previous
    /// ones. The superblock and the log stay in the directory that the store is opened at.
    ///
    /// The store remembers the paths of its tiers, so they need not be passed again. A tier that
    /// has moved is passed with its new path; in this case the order does not matter.
    ///
    /// New data is written to the first tier. Output of compactions is placed by age: on the first
    /// tier whose capacity, together with that of the tiers before it, holds all data of that age
    /// or newer. A tier without space is skipped.
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

    /// Returns these options with the recorded limits of the store's tiers.
    pub(crate) fn limited(&self, places: &TierLocations) -> Options {
        Options {
            tier_limits: places.limits.clone(),
            ..self.clone()
        }
    }

    /// Sets the planned size of the data in the first directory, in bytes, if the store has further
    /// tiers. This is not a limit: new data is written there first, and more stays there while
    /// slower tiers are full. Default: three quarters of its capacity.
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

    /// Sets how many bytes of the first directory may hold copies of pages that are read repeatedly
    /// from slower tiers; at most half of the free space there is used. Copies are discarded as
    /// soon as the space is needed, and when the store is opened. Default: 0, which disables
    /// copies.
    ///
    /// A page is copied as a whole after lookups have missed it twice. This pays off for values of
    /// a kilobyte or more, and if keys that are read often are adjacent; small, scattered records
    /// are held in the record cache instead. A copy needs about 40 bytes of memory in addition to
    /// [`Options::memory`]. [`Stats::copies`](crate::Stats::copies) shows the effect.
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

    /// Sets the limits and the planned sizes of the tiers.
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
