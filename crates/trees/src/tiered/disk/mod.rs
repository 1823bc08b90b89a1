//! The tree on disk: checkpoints, opening, checks, and repairs.
//!
//! *Scope*: the encoding and location of trunk nodes; the structures reachable from a root.
//!
//! *Must not depend on*: when a checkpoint is due, and where the root is stored; how versions
//! change.

mod check;
mod checkpoint;
mod contents;
pub mod format;
mod open;
mod reachable;
mod repair;
mod salvage;
mod stored_node;

pub(super) use check::{count_records, examine};
pub(super) use checkpoint::Checkpointer;
pub use contents::check_files;
pub(super) use open::open;
pub use reachable::reached;
pub(super) use repair::repair;
pub use salvage::{LostRange, TreeSalvage};
