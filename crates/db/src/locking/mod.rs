//! Locks, and the access sets of transactions, which writers and transactions use to exclude
//! conflicting accesses.
//!
//! *Scope*: locks on keys and ranges, which thread waits for which, and which keys a transaction
//! has read and written.
//!
//! *Must not depend on*: commits, transactions and their handles.

pub(crate) mod access_set;
pub(crate) mod fault;
pub(crate) mod joining;
pub(crate) mod lock_manager;
pub(crate) mod locks;
pub(crate) mod ranges;
