//! Reads that many of are under way on one thread: futures for any executor, and a window for whoever has none.
//!
//! *Knows*: who waits for the device on behalf of whom, who is woken, what becomes of a read that nobody wants any more.
//!
//! *Does not know*: how a key is found; that is the engine's (`engine/polled.rs`).
//!
//! *Read in this order*: `future.rs` ([`Get`] and [`MultiGet`]), `reactor.rs` (who waits for the device while tasks sleep), `window.rs` ([`Reads`]).
//!
//! A read that finds everything in memory is ready at its first poll, and nobody is woken. One that must wait leaves its waker at the read of the
//! cache and hands that, once, to the thread of the part of the device that carries it: a thread for every io_uring on which somebody waits, started
//! when it is first needed. This thread sleeps in the kernel, verifies and publishes what has come, and so wakes those who wait. A window needs no
//! thread, for whoever has it waits himself.

mod future;
mod reactor;
mod window;

pub use future::{Get, MultiGet};
pub(crate) use reactor::Reactor;
pub use window::Reads;
