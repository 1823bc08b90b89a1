//! Fixed-size slots, the elements of hash stores and sorted stores.
//!
//! *Scope*: the encoding of a slot; the offset of a slot in its store.
//!
//! *Must not depend on*: files; the order of slots, which the builders of stores determine.

pub mod format;

pub use format::{SiltSlot, SiltSlotLayout, SiltSlotState};
