//! Network I/O: sockets, event loops and the threads that drive them.
//!
//! *Scope*: how bytes are received and sent, which thread serves a connection, how an event loop
//! continues when its thread blocks, and how the server stops.
//!
//! *Must not depend on*: what the bytes mean, which is left to the `ProtocolSession`.
//!
//! Invariants:
//!
//! - **S1** A connection is in exactly one place: in its slot, with the thread that serves it, or
//!   with the syncer. Its requests are therefore served one after the other.
//! - **S2** One thread at a time drives a loop. While that thread serves a connection, the loop is
//!   parked. A thread that takes a parked loop becomes its driver.
//! - **S3** If writes must be durable, their replies are sent only after the writes are on the
//!   device.
//! - **S18** The memory of connections is charged to one shared budget. A request that does not fit
//!   in the budget is rejected before its bytes arrive. A reply that does not fit waits or is
//!   rejected. Slow readers are disconnected before other clients. All connections together
//!   therefore use at most the budget plus one reply per thread.

mod acceptor;
mod address;
mod admission;
mod budget;
mod connection;
mod connection_reaper;
mod event_loop;
mod input;
mod pool;
mod socket;
mod syncer;
mod tls;
mod transport;
pub(crate) mod wait_hooks;

pub(crate) use acceptor::{
    Acceptor, AcceptorHandle, ProtocolListener, SessionFactory, WireProtocol, keep_alive,
};
pub(crate) use address::EndpointAddress;
pub(crate) use budget::{
    ConnectionBudget, ConnectionMemory, LEAST as LEAST_BUDGET, LogRateLimiter, SMALL as SMALL_HOLDER,
    share_of,
};
pub(crate) use connection::{HIGH_WATER, ProtocolSession, ServeOutcome};
pub(crate) use connection_reaper::{ConnectionReaper, MemoryPressureListener};
pub(crate) use event_loop::EventLoop;
pub(crate) use input::ReceiveBuffer;
pub(crate) use pool::{LoopPool, LoopSlot};
pub(crate) use socket::ListeningSocket;
pub(crate) use syncer::{GroupSyncer, start as start_syncer};
pub(crate) use tls::TlsSettings;
