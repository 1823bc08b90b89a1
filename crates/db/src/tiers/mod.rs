//! The tiers of a store, as its users see them.
//!
//! *Knows*: where the directories of tiers are, and how a path is found to be
//! one of them.
//!
//! *Does not know*: what lies on which tier; marks are compared by the storage layer.
//!
//! *Read in this order*: `tier_options.rs` beside this folder, this file, `places.rs`;
//! `change_tiers.rs` beside this folder changes those of an open store.
//!
//! Invariants:
//!
//! - **D1** No directory of a store lies inside of another one.
//! - **D2** Nothing is created or changed in a directory before all of them are known to be right.

mod places;

pub(crate) use places::{Places, check, existing, is_store, new, of_copy, overlaid, settled};

use crate::Options;
use crate::tier_options::TierOptions;
use alluvium_storage::extents::{ExtentOptions, TierLimits};
use std::path::Path;

impl Options {
    /// Adds a tier: a further directory for data, on a slower and larger device than those before.
    /// Superblock and log stay in the directory that the store is opened at.
    ///
    /// The store remembers where its tiers are, so that they need not be given again. One that has
    /// moved is given with its new path; the order does not matter then.
    ///
    /// New data goes to the first tier. What compactions write lies on the first tier on which,
    /// with those before, all that is as new fits. A tier without space is passed over.
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

    /// These options with the limits of a store's tiers.
    pub(crate) fn limited(&self, places: &Places) -> Options {
        Options {
            tier_limits: places.limits.clone(),
            ..self.clone()
        }
    }

    /// Sets how many bytes of data are planned to lie in the first directory of a store that has
    /// further tiers, while those take the rest. It is no limit: what is written first goes there,
    /// and where slower tiers are full so does more. Default: three quarters of what it can hold.
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

    /// Sets how many bytes of the first directory copies may take of what is read again and again
    /// from slower ones, at most half of what is free there. They make way as soon as something
    /// else needs the space, and an opening begins without any. Default: 0, which copies nothing.
    ///
    /// A page is copied whole, once a lookup has missed it twice. That pays where values have a
    /// kilobyte or more, or where keys that are read often lie together; what is small and lies
    /// apart is kept as records in memory instead. A copy takes some 40 bytes of memory beside
    /// [`Options::memory`]. [`Stats::copies`](crate::Stats::copies) shows what it comes to.
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

    /// Says what the tiers of a store may take, and what is planned to lie on them.
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
