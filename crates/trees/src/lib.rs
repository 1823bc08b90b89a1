//! Ordered dictionaries.
//!
//! *Knows*: keys in order, the messages about them, how both are kept in memory and on a device, and which runs may hold a key.
//!
//! *Does not know*: transactions, threads, clocks; who assigned a sequence number.
//!
//! *Read in this order*: [`range`], [`deletes`], [`memtable`], [`merge`], `fetch.rs` (where a lookup's nodes come from), `found.rs` (what it finds), [`run`], [`maplet`], [`tiered`].
//!
//! Invariants:
//!
//! - **K1** Keys compare as bytes. Messages of one key are ordered newest first.
//! - **K2** Nothing here spawns a thread or reads a clock.

pub mod checked;
pub mod deletes;
mod fetch;
mod found;
pub mod maplet;
pub mod memtable;
pub mod merge;
pub mod range;
pub mod run;
mod sync;
pub mod tiered;
