//! Fixed-size slots, the elements of hash stores and sorted stores.
//!
//! *Knows*: the encoding of a slot; the offset of a slot in its store.
//!
//! *Does not know*: files; the order of slots, which the builders of stores determine.
//!
//! *Read in this order*: `format`.

pub mod format;

pub use format::{SiltSlot, SiltSlotLayout, SiltSlotState};
