//! Locks and access sets, with which writers and transactions exclude each other.
//!
//! *Knows*: locks of keys and of ranges, who waits for whom, and which keys a transaction has read
//! and written.
//!
//! *Does not know*: commits, transactions and their handles.
//!
//! *Read in this order*: `locks/` (locks of keys, also for users), `ranges.rs` (sets of key
//! ranges), `lock_manager/` (locks of transactions, deadlocks), `access_set.rs`, `fault.rs` (faults
//! of isolation that tests inject).

pub(crate) mod access_set;
pub(crate) mod fault;
pub(crate) mod lock_manager;
pub(crate) mod locks;
pub(crate) mod ranges;
