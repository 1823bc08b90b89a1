//! MICA's protocol over UDP (Lim 2015, §5.3.1). Each request is a datagram, which the server
//! overwrites with the reply.
//!
//! *Scope*: the format of datagrams, ports and their threads, the retransmission of requests, and
//! the detection of duplicates.
//!
//! *Must not depend on*: streams, sessions; the layout of items in memory (`crate::cache`).
//!
//! A client requests the port directory once, and then sends each request directly to the port that
//! owns the key. The kernel thereby delivers the request to that port's thread; in the thesis, the
//! network card does. All protocols access the same items.
//!
//! Invariants:
//!
//! - **S27** A port executes a modifying request at most once. A duplicate gets the same reply or
//!   none.
//! - **S28** A reply is never longer than its request's buffer, and only requests are answered.
//! - **S29** The port that owns a request's key executes the request, whichever port received it.

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
