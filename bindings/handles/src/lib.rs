//! Handles to a store whose lifetimes are checked while a program runs, instead of by the compiler.
//!
//! The bindings to other languages are thin layers over these handles. The commonest defect of such
//! bindings is a store that is closed while an iterator or a transaction of it lives. Here, every
//! handle holds the store: handles may be dropped in any order, and a handle that outlives its
//! store answers [`HandleErrorKind::Store`] of [`ErrorKind::Closed`](alluvium::ErrorKind::Closed).
//!
//! ```
//! use alluvium_handles::{ClosePolicy, StoreHandle, WalkRange};
//! let store = StoreHandle::open(None, &"--memory 16M".parse().unwrap())?;
//! let rivers = store.keyspace("rivers", None)?;
//! rivers.inner()?.put("Elbe", "1094 km")?;
//! let walk = rivers.walk(None, &WalkRange::default())?;
//! let error = store.close(ClosePolicy::WhenUnused).unwrap_err();
//! assert_eq!(error.kind().name(), "in_use");
//! assert!(error.to_string().contains("an iterator over \"rivers\""));
//! store.close(ClosePolicy::Force)?;
//! drop(walk);
//! # Ok::<(), alluvium_handles::HandleError>(())
//! ```
//!
//! *Scope*: which handles of a store live; what ends when a store or a transaction ends; pages of
//! records; errors with stable numbers; reports as JSON.
//!
//! *Must not depend on*: any other language.
//!
//! Invariants:
//!
//! - **H1** A handle refers to the store for as long as it lives, so no order in which handles are
//!   dropped is wrong.
//! - **H2** A store that was closed stays closed: each call on it and on its handles returns an
//!   error.
//! - **H3** The iterators of a transaction end before it is committed or rolled back.
//! - **H4** Each record of a range is in exactly one page of an iterator, whatever the sizes of the
//!   buffers.

#![warn(missing_docs)]

mod error;
pub mod page;
mod registry;
mod report;
mod store;
mod transaction;
mod walk;

pub use error::{HandleError, HandleErrorKind, Result};
pub use report::{check_json, keyspaces_json, repair_json, stats_json};
pub use store::{ClosePolicy, IngestHandle, KeyspaceHandle, SnapshotHandle, StoreHandle};
pub use transaction::{TransactionHandle, TransactionRead};
pub use walk::{PageExtent, RecordPair, WalkDirection, WalkHandle, WalkRange};
