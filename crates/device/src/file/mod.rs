//! Files of a real file system, as [`Directory`](crate::Directory) and [`Device`](crate::Device).
//!
//! *Scope*: direct and buffered descriptors, allocation and holes, mappings, file locks, and the
//! fallbacks for operations that a file system refuses.
//!
//! *Must not depend on*: how requests are submitted to the kernel together, which is the task of
//! `uring` or the thread pool.
//!
//! Invariants:
//!
//! - **F1** At most one sync of a file is in the kernel at a time, so the thread that receives a
//!   write-back failure poisons the file before another sync of it can succeed.
//! - **F2** All handles of one file from this directory share its length and its poison.
//! - **F3** A thread that changes a file's length holds `resizing`. A failed growth restores the
//!   old length.
//! - **F4** An operation that the file system refuses leads to a note in
//!   [`Directory::notes`](crate::Directory::notes) or to an error; it is never silent.
//! - **F5** A store into a mapping never kills the process: files are mapped only where allocated
//!   space is overwritten in place (`placement`), and a store that still fails marks the mapping as
//!   broken (`guard`), which poisons the file at its next sync.

mod allocation;
mod copy;
mod device;
mod directory;
mod guard;
mod lock;
mod mapping;
mod names;
mod open_file;
mod placement;
mod replace;
mod state;
mod sys;
mod threads;

pub(crate) use directory::DirectoryNotes;
pub use directory::FileDirectory;
pub(crate) use open_file::{MAX_TRANSFER, OpenFile};
pub use replace::{remove_directory, replace_directory};
pub(crate) use threads::WorkerPool;

/// The engine that submits requests to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoEngine {
    /// io_uring; or threads, with a note, if the kernel refuses it.
    Auto,
    /// io_uring; or an error if the kernel refuses it.
    Uring,
    /// A pool of threads that make blocking calls.
    Threads,
}

/// Options of a directory of real files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileDirectoryOptions {
    /// Engine that submits requests to the kernel.
    pub engine: IoEngine,
    /// Maximum number of threads that make blocking calls. With io_uring they mainly execute syncs;
    /// without it this is the queue depth of the device.
    pub threads: usize,
}

impl Default for FileDirectoryOptions {
    fn default() -> FileDirectoryOptions {
        FileDirectoryOptions {
            engine: IoEngine::Auto,
            threads: 32,
        }
    }
}
