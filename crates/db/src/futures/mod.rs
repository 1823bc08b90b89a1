//! Futures of reads and writes, for any executor.
//!
//! *Knows*: what a future holds of its store, when its task is woken, what becomes of work whose
//! future was dropped.
//!
//! *Does not know*: how a key is found (`engine/lookup/`), and which thread commits
//! (`committer.rs`).
//!
//! *Read in this order*: `read.rs` ([`Get`] and [`MultiGet`]), `write.rs` ([`Write`]); then
//! `reactor.rs` beside this folder, which waits for the device while tasks sleep.
//!
//! A read that finds everything in memory is ready at its first poll, and no waker fires. A read
//! that must wait leaves its waker at the read of the cache and hands the latter, once, to the
//! thread of the part of the device that carries it: a thread for every io_uring that has waiting
//! reads, started when it is first needed. This thread sleeps in the kernel, verifies and publishes
//! what has come, and so wakes the waiting tasks.

mod read;
mod write;

pub use read::{Get, MultiGet};
pub use write::Write;
