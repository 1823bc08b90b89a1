//! Mounts of file systems through FUSE.
//!
//! *Scope*: the translation between FUSE and [`alluvium_files::FileSystem`]; what the kernel may
//! cache; views of a file system that only one command and its descendants see.
//!
//! *Must not depend on*: how a file system keeps its files.
//!
//! Invariants:
//!
//! - **M1** The kernel caches nothing that another view of the files may change without a notice,
//!   except for as long as the timeouts of [`MountOptions`].
//! - **M2** No handler of a request waits for a notice to the kernel: one thread delivers all of
//!   them.
//! - **M3** The file system holds an inode once for each open file, and once for each directory,
//!   special file or replaced file that the kernel refers to. The end of a mount releases all of
//!   them.
//! - **M4** After [`Mount::unmount`] and [`CommandView::wait`], nothing reaches the file system any
//!   more.
//! - **M5** A panic in a handler answers EIO to that request, and the mount continues.

#![warn(missing_docs)]
#![cfg(target_os = "linux")]

mod acl;
mod attach;
mod error;
mod kernel;
mod mount;
mod nodes;
mod notices;
mod options;
mod serve;
mod served;
pub mod service;
mod view;

pub use error::MountError;
pub use kernel::{decode_kernel_bytes, kernel_examples};
pub use mount::Mount;
pub use options::{DeviceFiles, MountAccess, MountOptions, MountWritability, PageRetention, WriteCaching};
pub use served::{DeviceServer, MountState, ServedDevice};
pub use view::{
    CommandView, DescendantPolicy, SignalForwarding, ViewOptions, ViewOutcome, run_in_served_view,
    run_in_view,
};
