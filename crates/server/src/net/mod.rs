//! Sockets, loops and threads.
//!
//! *Knows*: how bytes arrive and leave, who is served by which thread, what happens when one is
//! held up, how all of it stops.
//!
//! *Does not know*: what the bytes mean; that is a `Protocol`'s.
//!
//! *Read in this order*: `connection.rs` (receive, serve, send), `event_loop.rs` (who is ready),
//! `pool.rs` (which thread), `syncer.rs` (replies that wait for the disk), `budget.rs` and
//! `keeper.rs` (the memory of all connections, and who is closed for it), `turns.rs` (long writes),
//! `acceptor.rs`,
//! `transport.rs` (TLS), `socket.rs` (both kinds of sockets), `input.rs`.
//!
//! Invariants:
//!
//! - **S1** A connection is in one place: in its slot, with the thread that serves it, or with the
//!   syncer. So its requests are served one after the other.
//! - **S2** A loop is driven by one thread at a time. While one serves a connection, the loop is
//!   parked, and the thread that takes it, drives it.
//! - **S3** Replies to what the store's durability wants on the disk are not sent before it is
//!   there.
//! - **S18** What connections hold is charged to one budget. A request is refused before its bytes
//!   come if they do not fit; a reply that does not fit waits, or is refused; slow readers are
//!   closed before others. So all connections together hold no more than the budget, and a reply
//!   for each thread.

mod acceptor;
mod address;
mod budget;
mod connection;
mod event_loop;
mod input;
mod keeper;
mod pool;
mod socket;
mod syncer;
mod transport;
mod turns;

pub(crate) use acceptor::{Acceptor, Control, Language, Listener, Sessions, keep_alive};
pub(crate) use address::Address;
pub(crate) use budget::{Budget, LEAST as LEAST_BUDGET, Load, SMALL as SMALL_HOLDER, Seldom, share_of};
pub(crate) use connection::{HIGH_WATER, Protocol, Served};
pub(crate) use event_loop::Driver;
pub(crate) use input::Input;
pub(crate) use keeper::{Beside, Keeper};
pub(crate) use pool::{Pool, Seat};
pub(crate) use socket::Listening;
pub(crate) use syncer::{Syncer, start as start_syncer};
