//! Reading a keyspace: iterators, values and futures.
//!
//! *Scope*: pinned sequence numbers, iteration over keys in either direction or without order, and
//! non-blocking reads.
//!
//! *Must not depend on*: the handles from which a read is started.
//!
//! Snapshots and sets of concurrent reads are in `keyspace/`, because they use keyspace handles.

pub(crate) mod futures;
pub(crate) mod iter;
pub(crate) mod pin;
pub(crate) mod unordered;
pub(crate) mod value;
