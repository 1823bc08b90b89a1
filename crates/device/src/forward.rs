//! Directories and files that forward their calls to others, so that a wrapper implements only the
//! methods that it changes.
//!
//! A type that implements [`ForwardDirectory`] is a [`Directory`], and a type that implements
//! [`ForwardDevice`] is a [`Device`]. If one of these contracts gets another method without a
//! default, the code does not compile until this module forwards the method for all wrappers.
//! Methods that a device composes from batches (`sync`, `read_at`, `copy_from`) use the wrapper's
//! batches, so that no request bypasses the wrapper.

use crate::{
    BootId, Device, DeviceCounters, Directory, DirectoryLock, FileMapping, FileOptions, FileSystemSpace,
    IoBatch, MemoryRegion, Result, Ticket,
};
use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// A directory that forwards to an inner directory every method that it does not override.
///
/// ```
/// use alluvium_device::forward::ForwardDirectory;
/// use alluvium_device::{
///     Device, DeviceOperation, Directory, Error, FileOptions, Result,
///     memory::MemoryDirectory,
/// };
/// use std::sync::Arc;
/// /// A directory in which nothing can be removed.
/// #[derive(Debug)]
/// struct Keeping(MemoryDirectory);
/// impl ForwardDirectory for Keeping {
///     fn inner(&self) -> &dyn Directory {
///         &self.0
///     }
///     fn remove(&self, name: &str) -> Result<()> {
///         let (operation, file) = (DeviceOperation::Remove, name.to_owned());
///         Err(Error::ReadOnly { operation, file })
///     }
/// }
/// let directory: Arc<dyn Directory> = Arc::new(Keeping(MemoryDirectory::new()));
/// directory.create("a", FileOptions::DIRECT)?;
/// assert!(directory.remove("a").is_err());
/// assert_eq!(directory.list()?, ["a"]);
/// # Ok::<(), alluvium_device::Error>(())
/// ```
#[allow(missing_docs, clippy::missing_errors_doc)] // As in `Directory`.
pub trait ForwardDirectory: Send + Sync + Debug {
    fn inner(&self) -> &dyn Directory;

    /// Wraps a file that the inner directory has created or opened. By default, returns the file
    /// unchanged.
    fn wrap(&self, file: Arc<dyn Device>, _options: FileOptions) -> Arc<dyn Device> {
        file
    }

    fn create(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>> {
        Ok(self.wrap(self.inner().create(name, options)?, options))
    }

    fn open(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>> {
        Ok(self.wrap(self.inner().open(name, options)?, options))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner().rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner().remove(name)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner().list()
    }

    fn sync(&self) -> Result<()> {
        self.inner().sync()
    }

    fn lock(&self, name: &str) -> Result<DirectoryLock> {
        self.inner().lock(name)
    }

    fn lock_shared(&self, name: &str) -> Result<DirectoryLock> {
        self.inner().lock_shared(name)
    }

    fn notes(&self) -> Vec<String> {
        self.inner().notes()
    }

    fn describe(&self) -> String {
        self.inner().describe()
    }
}

impl<T: ForwardDirectory> Directory for T {
    fn create(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>> {
        ForwardDirectory::create(self, name, options)
    }

    fn open(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>> {
        ForwardDirectory::open(self, name, options)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        ForwardDirectory::rename(self, from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        ForwardDirectory::remove(self, name)
    }

    fn list(&self) -> Result<Vec<String>> {
        ForwardDirectory::list(self)
    }

    fn sync(&self) -> Result<()> {
        ForwardDirectory::sync(self)
    }

    fn lock(&self, name: &str) -> Result<DirectoryLock> {
        ForwardDirectory::lock(self, name)
    }

    fn lock_shared(&self, name: &str) -> Result<DirectoryLock> {
        ForwardDirectory::lock_shared(self, name)
    }

    fn space(&self) -> Result<FileSystemSpace> {
        self.inner().space()
    }

    fn boot_id(&self) -> BootId {
        self.inner().boot_id()
    }

    fn is_removed(&self) -> bool {
        self.inner().is_removed()
    }

    fn counters(&self) -> &DeviceCounters {
        self.inner().counters()
    }

    fn notes(&self) -> Vec<String> {
        ForwardDirectory::notes(self)
    }

    fn register_memory(&self, region: MemoryRegion) {
        self.inner().register_memory(region);
    }

    fn describe(&self) -> String {
        ForwardDirectory::describe(self)
    }
}

/// A file that forwards to an inner file every method that it does not override.
///
/// A wrapper that creates its own tickets must implement `submit`, `poll` and `wait`, all three. By
/// default, tickets belong to the inner file.
#[allow(missing_docs, clippy::missing_errors_doc)] // As in `Device`.
pub trait ForwardDevice: Any + Send + Sync + Debug {
    /// Returns the inner file.
    fn inner(&self) -> &dyn Device;

    fn submit(&self, batch: IoBatch) -> Ticket {
        self.inner().submit(batch)
    }

    fn poll(&self, ticket: &Ticket) -> bool {
        self.inner().poll(ticket)
    }

    fn wait(&self, ticket: &Ticket) {
        self.inner().wait(ticket);
    }

    fn grow(&self, len: u64) -> Result<()> {
        self.inner().grow(len)
    }

    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.inner().allocate(range)
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.inner().truncate(len)
    }

    fn punch_hole(&self, range: Range<u64>) -> Result<()> {
        self.inner().punch_hole(range)
    }

    fn map(&self, range: Range<u64>) -> Result<FileMapping> {
        self.inner().map(range)
    }
}

impl<T: ForwardDevice> Device for T {
    fn submit(&self, batch: IoBatch) -> Ticket {
        ForwardDevice::submit(self, batch)
    }

    fn poll(&self, ticket: &Ticket) -> bool {
        ForwardDevice::poll(self, ticket)
    }

    fn wait(&self, ticket: &Ticket) {
        ForwardDevice::wait(self, ticket);
    }

    fn len(&self) -> u64 {
        self.inner().len()
    }

    fn is_removed(&self) -> bool {
        self.inner().is_removed()
    }

    fn grow(&self, len: u64) -> Result<()> {
        ForwardDevice::grow(self, len)
    }

    fn allocate(&self, range: Range<u64>) -> Result<()> {
        ForwardDevice::allocate(self, range)
    }

    fn renew(&self, range: Range<u64>) -> Result<()> {
        self.inner().renew(range)
    }

    fn truncate(&self, len: u64) -> Result<()> {
        ForwardDevice::truncate(self, len)
    }

    fn punch_hole(&self, range: Range<u64>) -> Result<()> {
        ForwardDevice::punch_hole(self, range)
    }

    fn map(&self, range: Range<u64>) -> Result<FileMapping> {
        ForwardDevice::map(self, range)
    }

    fn name(&self) -> &str {
        self.inner().name()
    }
}
