//! Backups of tiered stores into directories that the user chooses.

use crate::{Db, Progress, Result, TierOptions, tiers};
use std::path::Path;

impl Db {
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
