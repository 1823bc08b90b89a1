//! Kinds of values on the command line and in the output: byte strings, sizes, key ranges and
//! tiers.
//!
//! *Scope*: how people write and read each of these kinds of values.
//!
//! *Must not depend on*: stores, verbs.

pub(crate) mod bytes;
pub(crate) mod range;
pub(crate) mod sizes;
pub(crate) mod tier;
