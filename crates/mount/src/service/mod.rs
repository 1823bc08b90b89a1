//! Files of a store for other processes.
//!
//! One process has a store open. It serves the store's files on streams that other processes of the
//! same user have opened: single operations, transactions, and views that the kernel mounts.
//!
//! *Scope*: the messages of a stream, the sessions that answer them, and their clients.
//!
//! *Must not depend on*: how a stream begins, and who may open one.
//!
//! Invariants:
//!
//! - **V1** A transaction ends with its stream. Unless its commit has been requested, it is rolled
//!   back, so a client that is killed changes nothing.
//! - **V2** No bytes of a client can make the process panic, or make it use more memory than the
//!   bytes received and one answer of at most [`format::MOST_BODY`] bytes.

mod client;
mod decode;
mod descriptor;
pub mod format;
mod message;
mod operations;
mod session;

pub use client::{FilesClient, RemoteFiles};
pub use decode::{decode_messages, message_examples};
pub use message::FilesView;
pub use session::FilesService;

/// The name of the service.
pub const SERVICE: &str = "files";
