//! Simulates several directories within one, so that they all crash together.

use alluvium_device::forward::ForwardDirectory;
use alluvium_device::{Device, Directory, DirectoryLock, FileOptions, Result};
use std::sync::Arc;

/// A directory that contains those files of another directory whose names share a prefix. A sync
/// makes all file names in the whole directory durable. Counters and free space are those of the
/// whole directory too.
///
/// ```
/// use alluvium_device::{Directory, FileOptions, memory::MemoryDirectory};
/// use alluvium_sim::PrefixDirectory;
/// use std::sync::Arc;
/// let whole: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
/// let (one, other) = (PrefixDirectory::of(&whole, "one."), PrefixDirectory::of(&whole, "other."));
/// one.create("a", FileOptions::DIRECT)?;
/// assert_eq!(one.list()?, ["a"]);
/// assert!(other.list()?.is_empty());
/// # Ok::<(), alluvium_device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PrefixDirectory {
    whole: Arc<dyn Directory>,
    prefix: &'static str,
}

impl PrefixDirectory {
    /// Returns a directory with the files of `whole` whose names begin with `prefix`.
    ///
    /// # Panics
    /// If the prefix is empty.
    #[must_use]
    pub fn of(whole: &Arc<dyn Directory>, prefix: &'static str) -> PrefixDirectory {
        assert!(!prefix.is_empty(), "a part has names of its own");
        let whole = Arc::clone(whole);
        PrefixDirectory { whole, prefix }
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

impl ForwardDirectory for PrefixDirectory {
    fn inner(&self) -> &dyn Directory {
        &*self.whole
    }

    fn create(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>> {
        self.whole.create(&self.name(name), options)
    }

    fn open(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>> {
        self.whole.open(&self.name(name), options)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.whole.rename(&self.name(from), &self.name(to))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.whole.remove(&self.name(name))
    }

    fn list(&self) -> Result<Vec<String>> {
        let names = self.whole.list()?.into_iter();
        Ok(names
            .filter_map(|name| name.strip_prefix(self.prefix).map(str::to_owned))
            .collect())
    }

    fn lock(&self, name: &str) -> Result<DirectoryLock> {
        self.whole.lock(&self.name(name))
    }

    fn lock_shared(&self, name: &str) -> Result<DirectoryLock> {
        self.whole.lock_shared(&self.name(name))
    }

    fn describe(&self) -> String {
        format!("{} ({}*)", self.whole.describe(), self.prefix)
    }
}
