//! SILT's stores as layouts and indexes: the log store, the hash store and the sorted store,
//! without their files.
//!
//! *Knows*: how a key is hashed; the bytes of log records and of slots; which record or slot
//! holds a key; how a log becomes a hash store, and hash stores become part of a sorted store.
//!
//! *Does not know*: files, threads, clocks; when to freeze, to convert or to merge. The owner
//! reads and writes what it is told to.
//!
//! *Read in this order*: `key`, `log`, `slots`, `convert`, `merge`.
//!
//! Lim, Fan, Andersen and Kaminsky, "SILT: A Memory-Efficient, High-Performance Key-Value
//! Store" (SOSP 2011); Lim's thesis (2015), chapter 2.
//!
//! ```text
//! PUT, DELETE → log store ──── convert ────→ hash store ─────── merge ─────→ sorted store
//!   order        of arrival                   of the cuckoo table's slots     of hashed keys
//!   in memory    cuckoo table, 6.5 B a key    its tags, 2 B a key             tries, 0.4 B a key
//!   a GET reads  a record                     a slot where a tag matches      a slot
//! ```
//!
//! # Invariants
//!
//! - **S1** A younger store hides an older one: a key's entry or deletion in it is the answer.
//! - **S2** The log index has one entry for a key, that of its newest record.
//! - **S3** A slot of a hash store has the number of the table's slot it was made of.
//! - **S4** A sorted store has every key once, in the order of hashed keys, and no deletion.

mod convert;
mod error;
mod key;
pub mod log;
mod merge;
pub mod slots;

pub use convert::convert;
pub use error::{Error, Result};
pub use key::HashedKey;
pub use merge::{Keyed, SortedBuilder, Young, merge};
