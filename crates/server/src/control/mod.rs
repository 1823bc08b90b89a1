//! Management of an open store: by the process that holds it, or over a Unix socket in its
//! directory.
//!
//! *Knows*: which operations a person or a script asks of a store, how they are asked and answered
//! over a socket, who may connect.
//!
//! *Does not know*: command lines, how answers are shown.
//!
//! *Read in this order*: `request.rs` (what is asked and answered), `session.rs` (how it is
//! done, in any process that has the store open), `transact.rs` (its transaction), `claims.rs`
//! (names, each taken by one connection), `redis.rs` (keys of Redis clients), `report.rs`,
//! `held.rs` and `advised.rs` (JSON), `format.rs` (the bytes), `client.rs`, `socket.rs` (where
//! the socket is, who may connect) and `listen.rs` (its threads).
//!
//! A program that embeds a store offers the same with [`Control::start`]:
//!
//! ```
//! # let place = tempfile::tempdir().unwrap();
//! # let path = place.path().join("store");
//! use alluvium_server::control::{Client, Control, Reply, Request};
//! let db = alluvium::Db::open(&path)?;
//! db.keyspace("rivers")?.put("Elbe", "1094 km")?;
//! let control = Control::start(&db, &path)?;
//! // Another process of the same user:
//! let mut client = Client::connect(&path)?;
//! let request = Request::Get { keyspace: "rivers".to_owned(), keys: vec![b"Elbe".to_vec()] };
//! client.ask(&request, &mut |reply| {
//!     assert_eq!(reply, Reply::Values(vec![Some(b"1094 km".to_vec())]));
//!     Ok(())
//! })?;
//! control.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants:
//!
//! - **S20** An operation is written once: what a socket asks for and what the command line does
//!   with a store of its own run the same code.
//! - **S21** Keyspaces that a server keeps typed keys in are changed only as typed keys, through a
//!   running server's locks, and no transaction from here locks what is in them then.
//! - **S22** Only the user whose process it is, and root, are answered.
//! - **S23** No bytes from the socket take more memory than was received, nor make the process
//!   panic.

mod advised;
mod claims;
mod client;
pub mod format;
pub(crate) mod held;
mod listen;
mod redis;
mod report;
mod request;
mod session;
mod socket;
mod transact;

pub use client::Client;
pub use listen::Control;
pub use request::{
    Acknowledged, Change, Depth, Direction, Error, IsolationLevel, Kind, Mechanism, NewKeyspace,
    NewTransaction, ReadPurpose, Redis, RedisKey, RedisKind, Reply, Request, Result, Scan, Stage, Step,
    TierChange, Unordered, What,
};
pub use session::{Session, is_of_server};
pub use socket::SOCKET;

pub(crate) use listen::About;
