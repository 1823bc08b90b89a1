//! Files of a real file system, as [`Directory`](crate::Directory) and [`Device`](crate::Device).
//!
//! *Scope*: direct and buffered descriptors; allocation and holes; mappings; file locks;
//! alternatives to operations that a file system refuses.
//!
//! *Must not depend on*: how requests reach the kernel together, which is up to `uring` or the
//! thread pool.
//!
//! Invariants:
//!
//! - **F1** The kernel executes at most one sync of a file at a time. The thread that receives a
//!   write-back failure can therefore poison the file before another sync of it succeeds.
//! - **F2** All handles of a file in this directory share its length and whether it is poisoned.
//! - **F3** A thread that changes the length of a file holds the mutex `resizing`. If an extension
//!   fails, the old length is restored.
//! - **F4** If the file system refuses an operation, the result is an error or a note in
//!   [`Directory::notes`](crate::Directory::notes).
//! - **F5** A store into a mapping never kills the process. Files are mapped only if allocated
//!   space is overwritten in place (`placement`). Should a store fail all the same, it marks the
//!   mapping as broken (`guard`), and the next sync then poisons the file.

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
    /// Use io_uring. If the kernel refuses it, use threads and add a note.
    Auto,
    /// Use io_uring. If the kernel refuses it, fail with an error.
    Uring,
    /// Use a pool of threads that make blocking calls.
    Threads,
}

/// Options for a directory of real files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileDirectoryOptions {
    /// The engine that submits requests to the kernel.
    pub engine: IoEngine,
    /// Maximum number of threads that make blocking calls. With io_uring, these mainly execute
    /// syncs. Without it, this is the queue depth of the device.
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
