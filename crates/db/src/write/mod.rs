//! Write batches, and the thread that commits asynchronous writes.
//!
//! *Scope*: atomic batches, and the order in which asynchronous writes are committed.
//!
//! *Must not depend on*: keyspaces and other handles: `keyspace/batch.rs` adds the writes to a
//! batch.
//!
//! Writes that a transaction sees before they are committed are in `transaction/write_set/`.
//! Ingestion of sorted data is in `keyspace/ingest.rs`.

pub(crate) mod async_commit;
pub(crate) mod batch;
