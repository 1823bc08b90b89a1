//! Opening a store in directories, read-only, or in memory.

use crate::admin::path_checks;
use crate::admin::tiers;
use crate::db::Db;
use crate::error::Result;
use crate::options::store::ExistencePolicy;
use crate::options::{OpenMode, Options};
use alluvium_device::memory::MemoryDirectory;
use alluvium_storage::TierDirectories;
use std::path::Path;
use std::sync::Arc;

impl Options {
    /// Opens the store in a directory.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let path = place.path().join("store");
    /// use alluvium::{ErrorKind, OpenMode, Options};
    /// let existing = Options::new().mode(OpenMode::Existing);
    /// assert_eq!(existing.open(&path).unwrap_err().kind(), ErrorKind::NotFound);
    /// drop(Options::new().mode(OpenMode::New).open(&path)?);
    /// assert!(existing.open(&path).is_ok());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Storage`](crate::Error::Storage) if the directory, the store or the device causes
    /// an error; [`Error::BadOption`](crate::Error::BadOption);
    /// [`Error::NotRegistered`](crate::Error::NotRegistered) if a keyspace uses an unregistered
    /// merge operator or compaction filter.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Db> {
        let path = path.as_ref();
        let places = match self.mode {
            _ if tiers::is_store(path) => tiers::existing(path, &self.tiers)?,
            OpenMode::OpenOrCreate | OpenMode::New => {
                path_checks::nothing_else(path)?;
                tiers::new(path, &self.tiers)?
            }
            OpenMode::Existing | OpenMode::ReadOnly => {
                path_checks::no_file(path)?;
                tiers::existing(path, &self.tiers)?
            }
        };
        let options = self.limited(&places);
        let existing = match self.mode {
            OpenMode::ReadOnly => return options.read_only_in(&places.directories),
            OpenMode::OpenOrCreate => ExistencePolicy::OpenOrCreate,
            OpenMode::New => ExistencePolicy::Create,
            OpenMode::Existing => ExistencePolicy::Open,
        };
        let db = Db::open_in(&places.directories, &options, existing)?;
        places.close_drained(&db.engine().store);
        places.note()?;
        Ok(db)
    }

    /// Creates an empty store in memory, for testing programs that use a store. It has no files and
    /// is discarded when its last handle is dropped. Its data occupies memory on top of
    /// [`Options::memory`]; use [`Options::max_bytes`] to limit the data size.
    ///
    /// ```
    /// let db = alluvium::Options::new().in_memory()?;
    /// let rivers = db.keyspace("rivers")?;
    /// rivers.put("Elbe", "1094 km")?;
    /// assert_eq!(rivers.get("Elbe")?.unwrap(), b"1094 km");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadOption`](crate::Error::BadOption).
    pub fn in_memory(&self) -> Result<Db> {
        Db::open_in(Arc::new(MemoryDirectory::new()), self, ExistencePolicy::Create)
    }

    /// Opens an existing store read-only, in directories provided by the caller.
    pub(crate) fn read_only_in(&self, directories: &TierDirectories) -> Result<Db> {
        let above = tiers::overlaid(directories)?;
        Db::open_in(above, &self.clone().workers(0), ExistencePolicy::ReadOnly)
    }
}
