//! Futures of reads and writes, for any executor.
//!
//! *Scope*: what a future holds of its store, when its task is woken, and what happens to the work
//! of dropped futures.
//!
//! *Must not depend on*: how a key is found (`engine/lookup/`), and which thread commits
//! (`write/async_commit.rs`).
//!
//! `background/reactor.rs` waits for the device while tasks sleep.
//!
//! A read that finds everything in memory is ready at its first poll and never uses its waker. A
//! read that must wait registers its waker with the read of the cache, and registers that cache
//! read once with the thread that waits for its part of the device. There is one such thread for
//! each io_uring with pending reads, started on demand. The thread sleeps in the kernel, verifies
//! and publishes the pages that have arrived, and thereby wakes the waiting tasks.

mod read;
mod write;

pub use read::{GetFuture, MultiGetFuture};
pub use write::WriteFuture;
