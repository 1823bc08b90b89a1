//! Streams of bits that are stored in bytes. Tries, block indexes and listed filters use them.
//!
//! *Scope*: the order of bits in bytes; how to append a few bits; how to load 57 bits.
//!
//! *Must not depend on*: the meaning of the bits; codes; headers.

mod format;

pub use format::{BitWriter, TAIL_BYTES, peek, take};
