//! Values on the command line and in output: bytes, sizes, ranges of keys, tiers.
//!
//! *Scope*: how a person writes and reads each of them.
//!
//! *Must not depend on*: stores, verbs.

pub(crate) mod bytes;
pub(crate) mod range;
pub(crate) mod sizes;
pub(crate) mod tier;
