//! Reads of which many are under way on one thread: futures for any executor, and a window for
//! threads without one.
//!
//! *Knows*: which thread waits for the device on behalf of which reads, which tasks are woken, what
//! becomes of a read whose future was dropped.
//!
//! *Does not know*: how a key is found; that is the engine's (`engine/polled.rs`).
//!
//! *Read in this order*: `future.rs` ([`Get`] and [`MultiGet`]), `reactor.rs` (who waits for the
//! device while tasks sleep), `window.rs` ([`Reads`]).
//!
//! A read that finds everything in memory is ready at its first poll, and no waker fires. A read
//! that must wait leaves its waker at the read of the cache and hands the latter, once, to the
//! thread of the part of the device that carries it: a thread for every io_uring that has waiting
//! reads, started when it is first needed. This thread sleeps in the kernel, verifies and publishes
//! what has come, and so wakes the waiting tasks. A window needs no thread, for its owner waits
//! itself.

mod future;
mod reactor;
mod window;

pub use future::{Get, MultiGet};
pub(crate) use reactor::Reactor;
pub use window::Reads;
