//! A mount, from its beginning to its end.

use crate::attach::{self, Detachment, system_error};
use crate::error::MountError;
use crate::fuse::FuseSession;
use crate::options::MountOptions;
use crate::serve::Server;
use alluvium_files::FileSystem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long the threads may take to end once the directory is unmounted.
const LONGEST_END: Duration = Duration::from_secs(10);

/// A file system that is mounted on a directory. Dropping it unmounts it, whoever uses it: a
/// program that ends on a signal drops its mounts.
///
/// If the process is killed, the directory answers `ENOTCONN`; the next [`Mount::new`] there removes
/// such a mount.
pub struct Mount {
    directory: PathBuf,
    session: Option<FuseSession>,
    server: Arc<Server>,
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
        let server = Arc::new(Server::new(files, options.clone()));
        let session = FuseSession::start(&server, device).inspect_err(|_| {
            // The device is closed, so this waits for nothing.
            let _ = attach::detach(&directory, Detachment::Forced);
        });
        let session = session.map_err(|error| system_error(&directory, "talking to the kernel", error))?;
        Ok(Mount {
            directory,
            session: Some(session),
            server,
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
        self.end(Detachment::UnlessBusy)
    }

    /// Waits until somebody unmounts the directory (`umount`, or another thread's shutdown), or the
    /// time has passed. Returns whether it is still mounted.
    pub fn wait(&self, limit: Duration) -> MountState {
        match &self.session {
            Some(session) if !session.wait(limit) => MountState::Mounted,
            _ => MountState::Ended,
        }
    }

    /// Waits until the kernel has dropped what the file system has reported as changed so far: what
    /// others have committed before this call is visible in the mount after it.
    ///
    /// Not for handlers of the file system itself, which the kernel may wait for.
    pub fn settle(&self) {
        self.server.notices().settle();
    }

    fn end(&mut self, detachment: Detachment) -> Result<(), MountError> {
        let Some(session) = &self.session else {
            return Ok(());
        };
        if !session.has_ended() {
            attach::detach(&self.directory, detachment)?;
        }
        if let Some(session) = self.session.take() {
            // A mount that `fusermount3` has detached goes on while processes use it.
            if session.wait(LONGEST_END) {
                session.join();
            }
        }
        self.server.end();
        Ok(())
    }
}

/// Whether a file system is still mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountState {
    /// It is.
    Mounted,
    /// It was unmounted.
    Ended,
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.end(Detachment::Forced) {
            tracing::error!("{error}");
        }
        self.server.end();
    }
}
