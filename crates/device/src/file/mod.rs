//! Real files.
//!
//! *Knows*: direct and buffered descriptors, allocation and holes, real mappings, file locks, what
//! the file system at hand refuses and what is done instead.
//!
//! *Does not know*: how requests reach the kernel together; that is `uring`'s, or the thread
//! pool's.
//!
//! *Read in this order*: `directory` and `names`, `device` (how a batch is sorted), `open_file`
//! (blocking transfers), `state` (length, poison, the turn to sync), `copy`, `mapping`, `lock`,
//! `replace` (whole directories), `threads`, `sys` (all of the crate's `unsafe` but the rings').
//!
//! Invariants:
//!
//! - **F1** At most one sync of a file is in the kernel at a time, so the thread that learns of a
//!   failed write-back has poisoned the file before another sync of it can succeed.
//! - **F2** All handles of one file that this directory gave out share its length and its poison.
//! - **F3** A thread that changes a file's length holds `resizing`; a growth that fails puts the
//!   old length back.
//! - **F4** What the file system refuses is a note in
//!   [`Directory::notes`](crate::Directory::notes), or an error; it is never silent.
//! - **F5** A store into a mapping never ends the process: files are mapped only where allocated
//!   space is the space that is written to (`placement`), and a store that fails all the same marks
//!   the mapping as broken (`guard`), which poisons the file at its next sync.

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

pub use directory::FileDirectory;
pub(crate) use directory::Notes;
pub(crate) use open_file::{MAX_TRANSFER, OpenFile};
pub use replace::{remove_directory, replace_directory};
pub(crate) use threads::Workers;

/// How requests reach the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// io_uring, or threads where the kernel refuses it, with a note.
    Auto,
    /// io_uring, or an error where the kernel refuses it.
    Uring,
    /// A pool of threads that make blocking calls.
    Threads,
}

/// How a directory of real files works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How requests reach the kernel.
    pub engine: Engine,
    /// The most threads that make blocking calls at once. With io_uring they serve syncs and little
    /// else; without it they are the depth at which the device is used.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            engine: Engine::Auto,
            threads: 32,
        }
    }
}
