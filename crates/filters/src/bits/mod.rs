//! Bit streams in bytes, as used by tries, block indexes and listed filters.
//!
//! *Scope*: the order of bits in bytes; how to append a few bits, and how to load 57 of them.
//!
//! *Must not depend on*: the meaning of the bits; codes; headers.

mod format;

pub use format::{BitWriter, TAIL_BYTES, peek, take};
