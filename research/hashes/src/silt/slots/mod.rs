//! Slots of one size, of which hash stores and sorted stores consist.
//!
//! *Knows*: the bytes of a slot; at which byte of its store a slot is.
//!
//! *Does not know*: files; in what order slots are, which is the matter of their makers.
//!
//! *Read in this order*: `format`.

pub mod format;

pub use format::{Layout, Slot, State};
