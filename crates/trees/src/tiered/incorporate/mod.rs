//! New data: writes a sealed memtable, or records that arrive in order, as runs with their maplets,
//! and adds them as the newest bundles of the root.
//!
//! *Scope*: how messages are folded into a run; the point after which a change must not fail.
//!
//! *Must not depend on*: when a memtable is sealed, and the order of memtables; the further fate of
//! a bundle.

mod ingest;
mod memtable;

pub(crate) use ingest::{attach_layers, layer_writer};
pub use memtable::TreeIncorporation;
