//! Levels: runs without a trunk, merged by one of several policies.
//!
//! *Knows*: when runs are merged, and into which level.
//!
//! *Does not know*: threads, clocks, transactions; who assigns sequence numbers.
//!
//! *Read in this order*: `options.rs`, `policy.rs`.

pub mod options;
pub mod policy;

pub use options::{Fanout, Policy};
