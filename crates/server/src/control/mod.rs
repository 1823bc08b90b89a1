//! Management of an open store, either by the process that has it open or through a Unix socket in
//! the store's directory.
//!
//! *Scope*: the operations by which people and scripts manage a store, how they are encoded on a
//! socket, and who may connect.
//!
//! *Must not depend on*: command lines, how answers are displayed.
//!
//! A program that embeds a store can serve the same operations with [`ManagementServer::start`]:
//!
//! ```
//! # let place = tempfile::tempdir().unwrap();
//! # let path = place.path().join("store");
//! use alluvium_server::control::{ManagementClient, ManagementServer, ManagementReply, ManagementRequest};
//! let db = alluvium::Db::open(&path)?;
//! db.keyspace("rivers")?.put("Elbe", "1094 km")?;
//! let control = ManagementServer::start(&db, &path)?;
//! // Another process of the same user:
//! let mut client = ManagementClient::connect(&path)?;
//! let request = ManagementRequest::Get { keyspace: "rivers".to_owned(), keys: vec![b"Elbe".to_vec()] };
//! client.ask(&request, &mut |reply| {
//!     assert_eq!(reply, ManagementReply::Values(vec![Some(b"1094 km".to_vec())]));
//!     Ok(())
//! })?;
//! control.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants:
//!
//! - **S20** Each operation is implemented once. Requests from the socket run the same code as
//!   command lines that open the store themselves.
//! - **S21** Keyspaces in which a server stores typed keys are changed only through operations on
//!   typed keys. These use the locks of a running server, and no management transaction locks the
//!   content of such keyspaces while a server runs.
//! - **S22** Only root and the process's own user can connect.
//! - **S23** No bytes received from the socket can make the process panic, or make it use more
//!   memory than the bytes received.

mod advised;
mod claims;
mod client;
pub mod format;
mod listen;
pub(crate) mod open_transactions;
mod pairs;
mod redis;
mod report;
mod request;
mod session;
mod socket;
mod transact;

pub use client::ManagementClient;
pub use listen::{ConnectionService, ConnectionServices, ManagementServer};
pub use request::{
    CheckExtent, CommitDurability, Error, FailureKind, IsolationLevel, JobStage, KeyChange, ManagementReply,
    ManagementRequest, NewKeyspace, NewTransaction, ReadPurpose, RedisKey, RedisKind, RedisRequest, Result,
    ScanContent, ScanOrder, ScanRequest, TierChange, TransactionConcurrency, TransactionStep,
    UnorderedScanRequest,
};
pub use session::{ManagementSession, is_of_server};
pub use socket::SOCKET;

pub(crate) use session::ServerInfo;
