//! Bit streams in bytes, as used by tries, block indexes and listed filters.
//!
//! *Knows*: the order of bits in bytes; how to append a few bits, and how to load 57 of them.
//!
//! *Does not know*: the meaning of the bits; codes; headers.
//!
//! *Read in this order*: `format`.

mod format;

pub use format::{BitWriter, TAIL_BYTES, peek, take};
