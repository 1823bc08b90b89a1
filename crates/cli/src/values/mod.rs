//! Values on the command line and in output: bytes, sizes, ranges of keys, tiers.
//!
//! *Knows*: how a person writes and reads each of them.
//!
//! *Does not know*: stores, verbs.
//!
//! *Read in this order*: `bytes.rs`, `sizes.rs`, then `range.rs` and `tier.rs`, which use them.

pub(crate) mod bytes;
pub(crate) mod range;
pub(crate) mod sizes;
pub(crate) mod tier;
