//! Locks and access sets, with which writers and transactions exclude each other.
//!
//! *Scope*: locks of keys and of ranges, who waits for whom, and which keys a transaction has read
//! and written.
//!
//! *Must not depend on*: commits, transactions and their handles.

pub(crate) mod access_set;
pub(crate) mod fault;
pub(crate) mod lock_manager;
pub(crate) mod locks;
pub(crate) mod ranges;
