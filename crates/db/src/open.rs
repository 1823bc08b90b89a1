//! Opening a store: in a directory, for reading only, or in memory.

use crate::options::{Existing, OpenMode};
use crate::{Db, Options, Result, place};
use alluvium_device::file::FileDirectory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{Directory, OverlayDirectory};
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
    /// [`Error::Storage`](crate::Error::Storage) with what is wrong with the directory, the store,
    /// or the device; [`Error::BadOption`](crate::Error::BadOption);
    /// [`Error::NotRegistered`](crate::Error::NotRegistered).
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Db> {
        let path = path.as_ref();
        match self.mode {
            OpenMode::OpenOrCreate | OpenMode::New => {
                place::nothing_else(path)?;
                let directory = Arc::new(FileDirectory::create(path)?);
                match self.mode {
                    OpenMode::New => Db::open_in(directory, self, Existing::Create),
                    _ => Db::open_in(directory, self, Existing::OpenOrCreate),
                }
            }
            OpenMode::Existing | OpenMode::ReadOnly => {
                place::no_file(path)?;
                let directory = Arc::new(FileDirectory::open(path)?);
                match self.mode {
                    OpenMode::ReadOnly => self.read_only_in(directory),
                    _ => Db::open_in(directory, self, Existing::Open),
                }
            }
        }
    }

    /// Creates an empty store that lives in memory, for tests of programs that use a store. It has
    /// no files and is gone when its last handle is dropped. What it stores takes memory beside
    /// [`Options::memory`]; [`Options::max_bytes`] bounds it.
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
        Db::open_in(Arc::new(MemoryDirectory::new()), self, Existing::Create)
    }

    /// Opens an existing store for reading only, in a directory of the caller's.
    pub(crate) fn read_only_in(&self, directory: Arc<dyn Directory>) -> Result<Db> {
        let overlay = Arc::new(OverlayDirectory::new(directory)?);
        Db::open_in(overlay, &self.clone().workers(0), Existing::ReadOnly)
    }
}
