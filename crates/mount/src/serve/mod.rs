//! Answers to the requests of a mount, without the interface of FUSE.
//!
//! *Scope*: what a request does to the file system; what the mount must remember between requests.
//!
//! *Must not depend on*: messages of the kernel, how a mount is attached.
//!
//! Invariants: M3, M4 and M5 of the crate.

mod attributes;
mod contents;
mod directories;
mod extended;
mod names;

pub(crate) use contents::{CopyRange, WritePrivileges};
pub(crate) use directories::{ListedEntry, ListingDetail, ListingSpace};
pub(crate) use names::FileCreation;

use crate::nodes::KernelReferences;
use crate::notices::NoticeQueue;
use crate::options::MountOptions;
use alluvium_files::{Attributes, ErrorKind, FileSystem, Inode};
use directories::OpenDirectories;
use parking_lot::RwLock;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The number of an error, as `errno` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ErrorNumber(pub(crate) i32);

pub(crate) type Answer<T> = Result<T, ErrorNumber>;

impl From<alluvium_files::Error> for ErrorNumber {
    fn from(error: alluvium_files::Error) -> ErrorNumber {
        if matches!(
            error.kind(),
            ErrorKind::Io | ErrorKind::Damaged | ErrorKind::NewerVersion
        ) {
            tracing::warn!("a request to a mount failed: {error}");
        }
        ErrorNumber(error.errno())
    }
}

/// Who makes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestCaller {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl RequestCaller {
    /// Returns whether set-user-ID bits survive this caller's changes of contents. The kernel asks
    /// for the capability `CAP_FSETID`, which it does not pass on; root usually has it.
    fn keeps_privileges(self) -> bool {
        self.user == 0
    }
}

/// Attributes and how long the kernel may remember them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeReply {
    pub(crate) attributes: Attributes,
    pub(crate) attribute_timeout: Duration,
    pub(crate) entry_timeout: Duration,
}

/// The answer to a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LookupReply {
    Found(NodeReply),
    /// The name does not exist, and the kernel may remember that.
    Absent(Duration),
}

/// The state of a mount.
pub(crate) struct MountServer {
    /// `None` once the mount has ended.
    files: RwLock<Option<Arc<dyn FileSystem>>>,
    options: MountOptions,
    nodes: Arc<KernelReferences>,
    directories: OpenDirectories,
    notices: Arc<NoticeQueue>,
}

/// A server that has not ended, for the time of one request.
pub(crate) struct MountRequest<'a> {
    files: &'a dyn FileSystem,
    server: &'a MountServer,
}

impl MountServer {
    /// Creates the state of a mount, and listens to the changes of others.
    pub(crate) fn new(files: Arc<dyn FileSystem>, options: MountOptions) -> MountServer {
        let nodes = Arc::new(KernelReferences::new());
        let notices = Arc::new(NoticeQueue::new(nodes.clone()));
        files.listen(notices.clone());
        MountServer {
            files: RwLock::new(Some(files)),
            options,
            nodes,
            directories: OpenDirectories::new(),
            notices,
        }
    }

    pub(crate) fn options(&self) -> &MountOptions {
        &self.options
    }

    pub(crate) fn notices(&self) -> &Arc<NoticeQueue> {
        &self.notices
    }

    /// Does the work of one request. A panic in it is an EIO.
    pub(crate) fn answer<T>(&self, work: impl FnOnce(&MountRequest<'_>) -> Answer<T>) -> Answer<T> {
        let files = self.files.read();
        let Some(files) = files.as_deref() else {
            return Err(ErrorNumber(libc::ENOTCONN));
        };
        let serving = MountRequest { files, server: self };
        catch_unwind(AssertUnwindSafe(|| work(&serving))).unwrap_or_else(|panic| {
            let text = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned());
            let text = text.unwrap_or_else(|| "no message".to_owned());
            tracing::error!("a request to a mount panicked and is answered with EIO: {text}");
            Err(ErrorNumber(libc::EIO))
        })
    }

    /// Ends the mount: waits for the requests that are being served, takes back all holds, and lets
    /// go of the file system.
    pub(crate) fn end(&self) {
        let files = self.files.write().take();
        if let Some(files) = files {
            self.nodes.release_all(&*files);
            self.directories.clear();
        }
        self.notices.end();
    }
}

impl MountRequest<'_> {
    pub(crate) fn options(&self) -> &MountOptions {
        &self.server.options
    }

    fn nodes(&self) -> &KernelReferences {
        &self.server.nodes
    }

    /// Returns the number of changes by others so far. It is read before the file system is asked,
    /// so that an answer that such a change has overtaken is not remembered.
    fn epoch(&self) -> u64 {
        self.server.notices.epoch()
    }

    /// Returns a timeout, or zero if others have changed something since `epoch`.
    fn timeout_since(&self, epoch: u64, timeout: Duration) -> Duration {
        if self.epoch() == epoch {
            timeout
        } else {
            Duration::ZERO
        }
    }

    fn reply(&self, epoch: u64, attributes: Attributes) -> NodeReply {
        NodeReply {
            attribute_timeout: self.timeout_since(epoch, self.options().attribute_timeout),
            entry_timeout: self.timeout_since(epoch, self.options().entry_timeout),
            attributes,
        }
    }

    /// Counts a reference of the kernel to an inode, and answers with it.
    fn remembered(&self, epoch: u64, attributes: Attributes) -> Answer<NodeReply> {
        self.nodes()
            .remember(self.files, attributes.inode, attributes.kind)?;
        Ok(self.reply(epoch, attributes))
    }

    /// Takes back references of the kernel to an inode.
    pub(crate) fn forget(&self, inode: Inode, count: u64) {
        self.nodes().forget(self.files, inode, count);
    }

    pub(crate) fn sync(&self) -> Answer<()> {
        Ok(self.files.sync()?)
    }

    pub(crate) fn space(&self) -> Answer<alluvium_files::SpaceStatistics> {
        Ok(self.files.space()?)
    }
}
