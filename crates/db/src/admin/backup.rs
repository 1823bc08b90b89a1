//! Backups of tiered stores into directories that the user chooses.

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
    /// The directory must be empty; it is created if it does not exist. The copy holds every commit
    /// that was acknowledged before the call, is durable when the call returns, and opens like any
    /// other store. Everything that a reader of the copy can reach is read and verified against its
    /// checksums, so damage is not copied.
    ///
    /// On file systems that can share blocks between files (XFS, Btrfs) only the verification takes
    /// time. Elsewhere all space in use is read and written; free space is not. Space that is freed
    /// during the copy is not reused before the copy ends. An interrupted copy does not open as a
    /// store; copying into the same directory again starts over.
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
    /// [`Error::Storage`](crate::Error::Storage) if the directory holds files; I/O errors. After an
    /// error, the files already copied are removed as far as possible.
    pub fn checkpoint_to(&self, path: impl AsRef<Path>) -> Result<u64> {
        self.checkpoint_to_with(path, |_| ())
    }

    /// Like [`Db::checkpoint_to`], and reports progress.
    ///
    /// # Errors
    /// As [`Db::checkpoint_to`].
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

    /// Like [`Db::checkpoint_to`], with a directory for each further tier, in the order of the
    /// tiers. They may be on several devices, as a large store may require. The copy records their
    /// paths.
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
    /// As [`Db::checkpoint_to`]; [`Error::BadOption`](crate::Error::BadOption) if the number of
    /// directories differs from the number of further tiers, or if one directory is inside another.
    /// In that case nothing is created.
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
