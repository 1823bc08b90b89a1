//! A device that is mounted somewhere, and the file system that answers its requests.

use crate::kernel::KernelSession;
use crate::options::MountOptions;
use crate::serve::MountServer;
use alluvium_files::FileSystem;
use parking_lot::{Mutex, RwLock};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Whether a file system is still mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountState {
    /// It is.
    Mounted,
    /// It was unmounted.
    Ended,
}

/// Serves a mounted `/dev/fuse` device until the kernel ends the mount, or it is dropped.
pub struct ServedDevice {
    server: Arc<MountServer>,
    session: Option<KernelSession>,
}

/// How long the threads may take to end once the kernel has ended the mount.
const LONGEST_END: Duration = Duration::from_secs(10);

impl ServedDevice {
    /// Serves a device whose requests no process has read yet. It may come from another process,
    /// over a socket.
    ///
    /// # Errors
    /// An error of the kernel, for example because the mount has ended already.
    pub fn start(
        files: Arc<dyn FileSystem>,
        device: OwnedFd,
        options: &MountOptions,
    ) -> io::Result<ServedDevice> {
        let server = Arc::new(MountServer::new(files, options.clone()));
        let session = KernelSession::start(&server, device).inspect_err(|_| server.end())?;
        Ok(ServedDevice {
            server,
            session: Some(session),
        })
    }

    /// Waits until the kernel has ended the mount, or the time has passed.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> MountState {
        match &self.session {
            Some(session) if !session.wait(limit) => MountState::Mounted,
            _ => MountState::Ended,
        }
    }

    /// Waits until the kernel has dropped what the file system has reported as changed so far.
    pub fn settle(&self) {
        self.server.notices().settle();
    }

    /// Ends all access to the file system: waits for the requests that are being served, and
    /// answers all others with ENOTCONN. The threads end when the kernel ends the mount.
    pub fn end(&mut self) {
        self.server.end();
        if let Some(session) = self.session.take() {
            if session.has_ended() {
                session.join();
            } else {
                tracing::warn!("a mount is still in use, and answers ENOTCONN to its users");
            }
        }
    }

    /// Waits for the threads of a mount that the kernel is about to end, then ends all access.
    pub(crate) fn join(&mut self) {
        let _ = self.wait(LONGEST_END);
        self.end();
    }
}

impl Drop for ServedDevice {
    fn drop(&mut self) {
        self.end();
    }
}

/// Serves the device of a view, in this process or in another.
pub trait DeviceServer: Send + Sync {
    /// Serves a device, which is mounted already. It is called once, and returns when the kernel's
    /// requests are being answered.
    ///
    /// # Errors
    /// The view does not begin then.
    fn serve(&self, device: OwnedFd, options: &MountOptions) -> io::Result<()>;

    /// Waits until the kernel has ended the mount, or the time has passed.
    fn wait(&self, limit: Duration) -> MountState;

    /// Ends all access to the file system. Calls after the first do nothing.
    fn end(&self);
}

/// Serves the device of a view in this process.
pub(crate) struct LocalServer {
    files: Mutex<Option<Arc<dyn FileSystem>>>,
    served: RwLock<Option<ServedDevice>>,
}

impl LocalServer {
    pub(crate) fn new(files: Arc<dyn FileSystem>) -> LocalServer {
        LocalServer {
            files: Mutex::new(Some(files)),
            served: RwLock::new(None),
        }
    }
}

impl DeviceServer for LocalServer {
    fn serve(&self, device: OwnedFd, options: &MountOptions) -> io::Result<()> {
        let files = self.files.lock().take();
        let files = files.ok_or_else(|| io::Error::other("the view was served already"))?;
        *self.served.write() = Some(ServedDevice::start(files, device, options)?);
        Ok(())
    }

    fn wait(&self, limit: Duration) -> MountState {
        let served = self.served.read();
        served
            .as_ref()
            .map_or(MountState::Ended, |served| served.wait(limit))
    }

    fn end(&self) {
        self.files.lock().take();
        self.served.write().take();
    }
}
