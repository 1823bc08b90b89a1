//! Observations on which predictions and advice are based.
//!
//! *Knows*: the requests to each keyspace.
//!
//! *Does not know*: the engine that is observed.
//!
//! *Read in this order*: `workload/` (statistics of the requests, from a sample).

pub(crate) mod workload;
