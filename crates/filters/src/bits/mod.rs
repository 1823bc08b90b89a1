//! Bit streams stored in bytes, which tries, block indexes and listed filters use.
//!
//! *Scope*: the order of bits in bytes; how to append a few bits; how to load 57 bits.
//!
//! *Must not depend on*: what the bits mean; codes; headers.

mod format;

pub use format::{BitWriter, TAIL_BYTES, peek, take};
