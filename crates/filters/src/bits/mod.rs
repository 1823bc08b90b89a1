//! Streams of bits in bytes, which tries, block indexes and perfect hashes are packed with.
//!
//! *Knows*: in which order bits lie in bytes; how to append a few bits, and how to load 57 of
//! them.
//!
//! *Does not know*: what any bit means; codes; headers.
//!
//! *Read in this order*: `format`.

mod format;

pub use format::{BitWriter, TAIL_BYTES, peek, take};
