//! Backups of tiered stores into user-chosen directories.

use crate::admin::tiers;
use crate::db::Db;
use crate::engine::progress::Progress;
use crate::error::Result;
use crate::options::TierOptions;
use alluvium_storage::TierDirectories;
use std::path::Path;

impl Db {
    /// Copies the store into another directory while reads and writes continue. Returns the
    /// sequence number of the last commit in the copy.
    ///
    /// The directory must be empty; it is created if it does not exist. The copy contains every
    /// commit that was acknowledged before the call, is durable when the call returns, and can be
    /// opened like any other store. All data that a reader of the copy could reach is read and
    /// verified against its checksums, so that damage does not spread to the backup unnoticed.
    ///
    /// On file systems that can share blocks between files (XFS, Btrfs), only the verification
    /// takes time. On other file systems, the copy reads and writes all used space, but no free
    /// space. Space freed while the copy runs is not reused until the copy ends. An interrupted
    /// copy cannot be opened as a store; a new copy into the same directory starts over.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let (path, backup) = (place.path().join("store"), place.path().join("backup"));
    /// let db = alluvium::Db::open(&path)?;
    /// db.keyspace("rivers")?.put("Elbe", "1094 km")?;
    /// db.checkpoint_to(&backup)?;
    /// let copy = alluvium::Db::open(&backup)?;
    /// assert_eq!(copy.keyspace("rivers")?.get("Elbe")?.unwrap(), b"1094 km");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadCopy`](crate::Error::BadCopy) if the copied data is damaged;
    /// [`Error::Storage`](crate::Error::Storage) if the directory contains files; I/O errors. After
    /// an error, the call tries to remove the files already copied.
    pub fn checkpoint_to(&self, path: impl AsRef<Path>) -> Result<u64> {
        self.checkpoint_to_with(path, |_| ())
    }

    /// Like [`Db::checkpoint_to`], but calls `progress` as the copy advances.
    ///
    /// # Errors
    /// The same errors as [`Db::checkpoint_to`].
    pub fn checkpoint_to_with(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(Progress),
    ) -> Result<u64> {
        let store = &self.engine().store;
        let target = tiers::of_copy(path.as_ref(), &[], store.tiers().count())?;
        let cut = self.back_up(&target.directories, &mut progress)?;
        target.note()?;
        Ok(cut)
    }

    /// Copies the store and verifies the copy: see [`Db::checkpoint_to`].
    pub(crate) fn back_up(
        &self,
        target: &TierDirectories,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<u64> {
        self.shared().healthy()?;
        self.engine().back_up(target, progress)
    }

    /// Copies the store without verifying the copy.
    pub(crate) fn copy_to_in(
        &self,
        target: &TierDirectories,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<u64> {
        self.shared().healthy()?;
        self.engine().copy_to(target, progress)
    }

    /// Like [`Db::checkpoint_to`], for a store with several tiers. `further` lists one directory
    /// per tier after the first, in tier order. The directories may be on different devices,
    /// because no single device may be able to hold the whole copy. The copy records their paths.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let (fast, large) = (place.path().join("fast"), place.path().join("large"));
    /// # let (backup, apart) = (place.path().join("backup"), place.path().join("apart"));
    /// use alluvium::{Options, TierOptions};
    /// let db = Options::new().tier(&large, TierOptions::new()).open(&fast)?;
    /// db.keyspace("rivers")?.put("Elbe", "1094 km")?;
    /// db.checkpoint_to_tiers(&backup, &[&apart], |_| ())?;
    /// let copy = alluvium::Db::open(&backup)?;
    /// assert_eq!(copy.stats().tiers.len(), 2);
    /// assert!(apart.is_dir());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Db::checkpoint_to`]; [`Error::BadOption`](crate::Error::BadOption) if
    /// `further` does not contain exactly one directory per tier after the first, or if one
    /// directory is inside another. After [`Error::BadOption`](crate::Error::BadOption), nothing
    /// has been created.
    pub fn checkpoint_to_tiers<P: AsRef<Path>>(
        &self,
        path: impl AsRef<Path>,
        further: &[P],
        mut progress: impl FnMut(Progress),
    ) -> Result<u64> {
        let store = &self.engine().store;
        let given = further
            .iter()
            .map(|path| (path.as_ref().to_owned(), TierOptions::new()));
        let given: Vec<_> = given.collect();
        let target = tiers::of_copy(path.as_ref(), &given, store.tiers().count())?;
        let cut = self.back_up(&target.directories, &mut progress)?;
        target.note()?;
        Ok(cut)
    }
}
