//! The tree on disk: checkpoints, opening, checks, and opening for a repair.
//!
//! *Knows*: the encoding and location of trunk nodes; the structures reachable from a root.
//!
//! *Does not know*: when a checkpoint is due, and where the root is stored; how versions change.
//!
//! *Read in this order*: `format.rs` (the encoding), `form.rs` (conversion of nodes),
//! `checkpoint.rs`, `names.rs` (the structures that a trunk refers to), `open.rs`, `check.rs` (with
//! `contents.rs`), `salvage.rs`, `mend.rs` (damaged leaves).

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
