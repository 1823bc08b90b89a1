//! Write batches, and the thread that commits asynchronous writes.
//!
//! *Scope*: atomic batches, and the order in which asynchronous writes commit.
//!
//! *Must not depend on*: keyspaces and other handles: `keyspace/batch.rs` adds the writes to a
//! batch.
//!
//! `transaction/write_set/` contains the writes that a transaction sees before they are committed.
//! `keyspace/ingest.rs` ingests sorted data.

pub(crate) mod async_commit;
pub(crate) mod batch;
