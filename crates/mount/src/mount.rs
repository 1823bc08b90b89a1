//! A mount, from its beginning to its end.

use crate::attach::{self, DetachMode, system_error};
use crate::error::MountError;
use crate::options::MountOptions;
use crate::served::{MountState, ServedDevice};
use alluvium_files::FileSystem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A file system that is mounted on a directory. Dropping it unmounts it even while it is in use: a
/// program that ends on a signal drops its mounts.
///
/// If the process is killed, the directory answers `ENOTCONN`; the next [`Mount::new`] there
/// removes such a mount.
pub struct Mount {
    directory: PathBuf,
    served: ServedDevice,
    is_attached: bool,
}

impl Mount {
    /// Mounts a file system.
    ///
    /// # Errors
    /// [`MountError`], each of which says what to do.
    pub fn new(
        files: Arc<dyn FileSystem>,
        directory: &Path,
        options: &MountOptions,
    ) -> Result<Mount, MountError> {
        let (device, directory) = attach::attach(directory, options)?;
        let served = ServedDevice::start(files, device, options).inspect_err(|_| {
            // The device is closed, so this waits for nothing.
            let _ = attach::detach(&directory, DetachMode::Forced);
        });
        let served = served.map_err(|error| system_error(&directory, "talking to the kernel", error))?;
        attach::widen_read_ahead("self", &directory);
        Ok(Mount {
            directory,
            served,
            is_attached: true,
        })
    }

    /// Returns the directory, as an absolute path without symbolic links.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Unmounts. All requests are answered, and the file system is no longer used, when this
    /// returns.
    ///
    /// # Errors
    /// [`MountError::Busy`] while processes use the mount: it then stays as it is.
    pub fn unmount(&mut self) -> Result<(), MountError> {
        self.end(DetachMode::UnlessBusy)
    }

    /// Waits until a program unmounts the directory, as `umount` does, or the
    /// time has passed. Returns whether it is still mounted.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> MountState {
        self.served.wait(limit)
    }

    /// Waits until the kernel has dropped what the file system has reported as changed so far: what
    /// others have committed before this call is visible in the mount after it.
    ///
    /// Not for handlers of the file system itself, which the kernel may wait for.
    pub fn settle(&self) {
        self.served.settle();
    }

    fn end(&mut self, detachment: DetachMode) -> Result<(), MountError> {
        if !self.is_attached {
            return Ok(());
        }
        if self.wait(Duration::ZERO) == MountState::Mounted {
            attach::detach(&self.directory, detachment)?;
        }
        self.is_attached = false;
        self.served.join();
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.end(DetachMode::Forced) {
            tracing::error!("{error}");
        }
    }
}
