//! Batches of writes, and the thread that commits asynchronous ones.
//!
//! *Scope*: atomic batches, and the order in which asynchronous ones are committed.
//!
//! *Must not depend on*: keyspaces and other handles: `keyspace/batch.rs` adds the writes to a
//! batch.
//!
//! Writes that see themselves before they are committed are in `transaction/write_set/`, loads of
//! sorted data in `keyspace/ingest.rs`.

pub(crate) mod async_commit;
pub(crate) mod batch;
