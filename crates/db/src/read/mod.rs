//! Reads of a keyspace: iterators, values and futures.
//!
//! *Scope*: pinned sequence numbers, walks over keys in either direction or without order, reads
//! that do not block.
//!
//! *Must not depend on*: the handles from which a read is started.
//!
//! Snapshots and sets of concurrent reads are in `keyspace/`, because they read through its
//! handles.

pub(crate) mod futures;
pub(crate) mod iter;
pub(crate) mod pin;
pub(crate) mod unordered;
pub(crate) mod value;
