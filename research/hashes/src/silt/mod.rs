//! SILT's stores as layouts and indexes: the log store, the hash store and the sorted store,
//! without their files.
//!
//! *Scope*: how a key is hashed; the bytes of log records and of slots; the mapping from keys to
//! records and slots; how a log is converted to a hash store, and hash stores are merged into a
//! sorted store.
//!
//! *Must not depend on*: files, threads, clocks; when to freeze, to convert or to merge. The owner
//! performs all reads and writes.
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
//! - **S1** A younger store shadows older ones: its entry or deletion for a key is the result.
//! - **S2** The log index has one entry per key, for its newest record.
//! - **S3** A slot of a hash store has the same number as the table slot it was made from.
//! - **S4** A sorted store contains every key once, in the order of hashed keys, and no
//!   deletions.

mod convert;
mod error;
mod key;
pub mod log;
mod merge;
pub mod slots;

pub use convert::convert;
pub use error::{Error, Result};
pub use key::HashedKey;
pub use merge::{HashStoreEntry, KeyedItem, SortedBuilder, merge};
