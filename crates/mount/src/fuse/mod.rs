//! The one folder that knows `fuser`, whose interface changes between versions: requests of the
//! kernel become calls of [`crate::serve`], and answers become replies.
//!
//! *Scope*: sessions of `fuser`, its types.
//!
//! *Must not depend on*: how a mount is attached; what an operation does.
//!
//! Invariants: M2 of the crate.

mod bridge;
mod convert;

use crate::notices::KernelNotice;
use crate::serve::MountServer;
use bridge::KernelBridge;
use fuser::{BackgroundSession, Config, INodeNo, Session, SessionACL};
use parking_lot::{Condvar, Mutex};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The threads that serve a mount.
pub(crate) struct FuseSession {
    background: BackgroundSession,
    notifying: JoinHandle<()>,
    ending: Arc<SessionEnd>,
}

/// Whether the kernel has ended the mount.
#[derive(Default)]
struct SessionEnd {
    has_ended: Mutex<bool>,
    changed: Condvar,
}

impl SessionEnd {
    fn announce(&self) {
        *self.has_ended.lock() = true;
        self.changed.notify_all();
    }
}

impl FuseSession {
    /// Serves a mounted device.
    pub(crate) fn start(server: &Arc<MountServer>, device: OwnedFd) -> io::Result<FuseSession> {
        let ending = Arc::new(SessionEnd::default());
        let bridge = KernelBridge {
            server: server.clone(),
            ending: ending.clone(),
        };
        let mut config = Config::default();
        config.n_threads = Some(server.options().threads.max(1));
        config.clone_fd = true;
        // The kernel itself restricts who may use the mount.
        let background = Session::from_fd(bridge, device, SessionACL::All, config)?.spawn()?;
        let (notifier, notices) = (background.notifier(), server.notices().clone());
        let notifying = std::thread::Builder::new()
            .name("notices".to_owned())
            .spawn(move || {
                notices.deliver(|notice| {
                    let sent = match notice {
                        KernelNotice::Entry { parent, name } => {
                            notifier.inval_entry(INodeNo(parent.0), OsStr::from_bytes(name))
                        }
                        KernelNotice::Contents(inode) => notifier.inval_inode(INodeNo(inode.0), 0, 0),
                    };
                    if let Err(error) = sent {
                        tracing::debug!("the kernel did not take {notice:?}: {error}");
                    }
                });
            })?;
        Ok(FuseSession {
            background,
            notifying,
            ending,
        })
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.ending.has_ended.lock()
    }

    /// Waits until the kernel has ended the mount, and returns whether it has.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut has_ended = self.ending.has_ended.lock();
        while !*has_ended {
            if self.ending.changed.wait_until(&mut has_ended, until).timed_out() {
                return *has_ended;
            }
        }
        true
    }

    /// Waits for the threads. The mount has ended, and so have the server's notices.
    pub(crate) fn join(self) {
        if let Err(error) = self.background.join() {
            tracing::warn!("a mount ended with an error: {error}");
        }
        if self.notifying.join().is_err() {
            tracing::error!("the thread for notices panicked");
        }
    }
}
