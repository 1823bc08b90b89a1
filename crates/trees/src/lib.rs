//! Ordered dictionaries.
//!
//! *Knows*: keys in order, the messages about them, how both are kept in memory, and which runs may hold a key.
//!
//! *Does not know*: transactions, threads, clocks; who assigned a sequence number.
//!
//! *Read in this order*: [`memtable`], [`merge`], [`maplet`].
//!
//! Invariants:
//!
//! - **K1** Keys compare as bytes. Messages of one key are ordered newest first.
//! - **K2** Nothing here spawns a thread or reads a clock.

pub mod maplet;
pub mod memtable;
pub mod merge;
mod sync;
