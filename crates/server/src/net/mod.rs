//! Sockets, loops and threads.
//!
//! *Knows*: how bytes arrive and leave, who is served by which thread, what happens when one is held up, how all of it stops.
//!
//! *Does not know*: what the bytes mean; that is a `Protocol`'s.
//!
//! *Read in this order*: `connection.rs` (receive, serve, send), `event_loop.rs` (who is ready), `pool.rs` (which thread), `syncer.rs` (replies that wait for
//! the disk), `acceptor.rs`, `transport.rs` (TLS), `socket.rs` (both kinds of sockets), `input.rs`.
//!
//! Invariants:
//!
//! - **S1** A connection is in one place: in its slot, with the thread that serves it, or with the syncer. So its requests are served one after the other.
//! - **S2** A loop is driven by one thread at a time. While one serves a connection, the loop is parked, and whoever takes it, drives it.
//! - **S3** Replies to what the store's durability wants on the disk are not sent before it is there.

mod acceptor;
mod address;
mod connection;
mod event_loop;
mod input;
mod pool;
mod socket;
mod syncer;
mod transport;

pub(crate) use acceptor::{Acceptor, Control, Language, Listener};
pub(crate) use address::Address;
pub(crate) use connection::{Protocol, Served};
pub(crate) use event_loop::Driver;
pub(crate) use input::Input;
pub(crate) use pool::{Pool, Seat};
pub(crate) use socket::Listening;
pub(crate) use syncer::{Syncer, start as start_syncer};
