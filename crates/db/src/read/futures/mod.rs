//! Read and write futures that work in any executor.
//!
//! *Scope*: which references to the store a future keeps, when the task of a future is woken, and
//! what happens to the work of a future that is dropped.
//!
//! *Must not depend on*: how a key is found (`engine/lookup/`), and which thread commits
//! (`write/async_commit.rs`).
//!
//! `background/reactor.rs` waits for the device while tasks sleep.
//!
//! A read whose data is all in memory is ready at its first poll and never uses its waker. A read
//! that must wait for the device registers its waker with the page cache's pending read, which in
//! turn is registered once with a thread that waits for the device. Each io_uring with pending
//! reads has one such thread, started on demand. The thread sleeps in the kernel until reads
//! complete, then verifies the pages and publishes them in the cache, which wakes the waiting
//! tasks.

mod read;
mod write;

pub use read::{GetFuture, MultiGetFuture};
pub use write::WriteFuture;
