//! Ordered dictionaries.
//!
//! *Knows*: keys in order, the messages about them, and how both are kept in memory.
//!
//! *Does not know*: transactions, threads, clocks; who assigned a sequence number.
//!
//! *Read in this order*: [`memtable`], [`merge`].
//!
//! Invariants:
//!
//! - **K1** Keys compare as bytes. Messages of one key are ordered newest first.
//! - **K2** Nothing here spawns a thread or reads a clock.

pub mod memtable;
pub mod merge;
mod sync;
