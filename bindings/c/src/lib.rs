//! The C interface of Alluvium.
//!
//! Each function is a thin layer over a handle of `alluvium-handles`. `include/alluvium.h` is
//! generated from this crate; `docs/c.md` describes its use.
//!
//! *Scope*: pointers, lengths and ownership at the boundary.
//!
//! *Must not depend on*: the contents of stores; global state.
//!
//! Invariants:
//!
//! - **B1** The caller passes handles that a function of this library has returned and that were
//!   not freed, pointers to as many bytes as the length says, and texts that end with a zero byte.
//!   Where `NULL` is not allowed, it is an error and nothing else happens.
//! - **B2** No panic leaves a function: it becomes an error of kind `panicked`.
//! - **B3** A handle that a function returns is owned by the caller, who frees it in any order.

#![warn(missing_docs)]

mod batch;
mod boundary;
mod callbacks;
mod error;
mod iterator;
mod keyspace;
mod options;
mod snapshot;
mod store;
mod transaction;
mod value;

pub use batch::*;
pub use callbacks::*;
pub use error::*;
pub use iterator::*;
pub use keyspace::*;
pub use options::*;
pub use snapshot::*;
pub use store::*;
pub use transaction::*;
pub use value::*;
