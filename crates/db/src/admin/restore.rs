//! Restoring a store from a backup.

use crate::admin::tiers::{self, overlaid};
use crate::db::Db;
use crate::engine::progress::Progress;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::options::store::ExistencePolicy;
use alluvium_storage::{TierDirectories, superblock};
use std::path::Path;

/// Restores a store from a backup by copying the backup into a directory and verifying the copy.
/// The directory must not contain files; it is created if it does not exist. Any store that is not
/// open can serve as a backup. The backup is only read, so it may be on a read-only medium.
///
/// Use [`Options::restore`] for stores whose keyspaces use merge operators or compaction filters
/// defined by the program.
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let (path, backup, restored) = (place.path().join("store"), place.path().join("backup"), place.path().join("restored"));
/// # let db = alluvium::Db::open(&path)?;
/// # db.keyspace("rivers")?.put("Elbe", "1094 km")?;
/// db.checkpoint_to(&backup)?;
/// alluvium::restore(&backup, &restored)?;
/// let db = alluvium::Db::open(&restored)?;
/// assert_eq!(db.keyspace("rivers")?.get("Elbe")?.unwrap(), b"1094 km");
/// # Ok::<(), alluvium::Error>(())
/// ```
///
/// # Errors
/// The same errors as [`Options::restore`].
pub fn restore(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
    Options::new().restore(from, to, |_| ())
}

impl Options {
    /// Like [`restore()`], with these options, and calls `progress` as the restore advances.
    ///
    /// # Errors
    /// [`Error::BadBackup`] if the copied data is damaged; [`Error::Storage`] if `from` contains no
    /// store, if the store in `from` is open, or if `to` contains files; I/O errors. After an
    /// error, the call tries to remove the files already copied.
    pub fn restore(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        mut progress: impl FnMut(Progress),
    ) -> Result<()> {
        let from = tiers::existing(from.as_ref(), &[])?;
        superblock::require(&**from.directories.first())?;
        let to = tiers::of_copy(to.as_ref(), &self.tiers, from.directories.count())?;
        self.limited(&to)
            .restore_on(&from.directories, &to.directories, &mut progress)?;
        to.note()
    }

    /// Like [`Options::restore`], with directories provided by the caller.
    pub(crate) fn restore_on(
        &self,
        from: &TierDirectories,
        to: &TierDirectories,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        let options = self.clone().workers(0);
        superblock::require(&**from.first())?;
        let backup = Db::open_in(overlaid(from)?, &options, ExistencePolicy::Open)?;
        backup.copy_to_in(to, progress)?;
        drop(backup);
        let findings = options.findings(to, progress);
        match findings {
            Ok(findings) if findings.is_empty() => Ok(()),
            other => {
                to.undo_creation();
                Err(Error::BadBackup {
                    from: from.first().describe(),
                    findings: other?,
                })
            }
        }
    }

    /// Checks a copy of a store and returns one sentence per defect.
    fn findings(&self, copy: &TierDirectories, progress: &mut dyn FnMut(Progress)) -> Result<Vec<String>> {
        let copy = Db::open_in(copy, self, ExistencePolicy::Open)?;
        let findings = copy.check_report(progress)?.into_sentences();
        copy.close()?;
        Ok(findings)
    }
}
