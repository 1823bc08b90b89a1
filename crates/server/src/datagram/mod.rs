//! MICA's protocol over UDP (Lim 2015, §5.3.1): a request a datagram, which becomes its reply.
//!
//! *Knows*: the bytes of datagrams, ports and their threads, what is sent again and what is not
//! executed again.
//!
//! *Does not know*: streams, sessions; how items lie in memory (`crate::cached`).
//!
//! *Read in this order*: `format.rs`, `port.rs` (what becomes of a datagram), `repeats.rs`,
//! `server.rs` (sockets and threads), `client.rs`.
//!
//! A client asks for the directory once, and then sends each request to the port that has the key:
//! so the system hands it to the thread of that port, as the thesis has the network card do. All
//! protocols see the same items.
//!
//! Invariants:
//!
//! - **S27** A port executes a request that changes something once, or never; copies of it get the
//!   same reply, or none.
//! - **S28** A reply is not longer than the memory of its request, and nothing but a request is
//!   answered.

mod client;
pub mod format;
mod port;
mod repeats;
mod server;

pub use client::{DatagramAnswer, DatagramClient, DatagramRequest};
pub(crate) use server::Datagrams;
pub use server::{DatagramOptions, MOST_DATAGRAM};
