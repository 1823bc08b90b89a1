//! MICA's protocol over UDP (Lim 2015, §5.3.1): each request is a datagram, which its reply
//! overwrites.
//!
//! *Scope*: the format of datagrams, ports and their threads, retransmission and the detection of
//! duplicates.
//!
//! *Must not depend on*: streams, sessions; the layout of items in memory (`crate::cache`).
//!
//! A client requests the directory once, and then sends each request to the port that owns the key.
//! The kernel thereby delivers it to the thread of that port, as the network card does in the
//! thesis. All protocols access the same items.
//!
//! Invariants:
//!
//! - **S27** A port executes a modifying request at most once. Duplicates of it get the same reply,
//!   or none.
//! - **S28** A reply is not longer than the buffer of its request, and only requests are answered.
//! - **S29** The port that owns a key executes its requests, whichever port has received them.

mod client;
mod deduplication;
pub mod format;
mod frames;
mod port;
mod rings;
mod routing;
mod server;

pub use client::{DatagramAnswer, DatagramClient, DatagramRequest};
pub(crate) use rings::RingServer;
pub use rings::{RingClient, RingOptions};
pub use routing::PortRouting;
pub(crate) use server::DatagramServer;
pub use server::{DatagramOptions, MOST_DATAGRAM, PortFigures};
