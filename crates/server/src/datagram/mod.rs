//! MICA's protocol over UDP (Lim 2015, §5.3.1): a request a datagram, which becomes its reply.
//!
//! *Knows*: the bytes of datagrams, ports and their threads, what is sent again and what is not
//! executed again.
//!
//! *Does not know*: streams, sessions; how items lie in memory (`crate::cached`).
//!
//! *Read in this order*: `format.rs`, `frames.rs`, `port.rs` (what becomes of a datagram),
//! `repeats.rs`, `direct.rs` (how a request reaches its port), `server.rs` (sockets and threads),
//! `client.rs`, `rings.rs` (the same without a network).
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
//! - **S29** The port that has a key executes its requests, whichever port has received them.

mod client;
mod direct;
pub mod format;
mod frames;
mod port;
mod repeats;
mod rings;
mod server;

pub use client::{DatagramAnswer, DatagramClient, DatagramRequest};
pub use direct::Direction;
pub(crate) use rings::Rings;
pub use rings::{RingClient, RingOptions};
pub(crate) use server::Datagrams;
pub use server::{DatagramOptions, MOST_DATAGRAM, PortFigures};
