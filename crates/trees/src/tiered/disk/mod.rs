//! The tree on disk: written at a checkpoint, read at an opening, checked, and opened for a repair.
//!
//! *Knows*: how trunk nodes are encoded and where they are; what a root leads to.
//!
//! *Does not know*: when a checkpoint is due, and who keeps the root; how versions change.
//!
//! *Read in this order*: `format.rs` (the bytes), `form.rs` (nodes to their forms and back),
//! `checkpoint.rs`, `names.rs` (what a trunk names), `open.rs`, `check.rs` (with `contents.rs`),
//! `salvage.rs`, `mend.rs` (damaged leaves).

mod check;
mod checkpoint;
mod contents;
mod form;
pub mod format;
mod mend;
mod names;
mod open;
mod salvage;

pub(super) use check::{count_records, examine};
pub(super) use checkpoint::Checkpointer;
pub use contents::check_files;
pub(super) use mend::mend;
pub use names::reached;
pub(super) use open::open;
pub use salvage::{Lost, Salvage};
