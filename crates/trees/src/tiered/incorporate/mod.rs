//! New data: writes a sealed memtable, or records that arrive in key order, as runs with maplets,
//! and adds the runs as the newest bundles of the root.
//!
//! *Scope*: how messages are merged into a run; the point after which a change must not fail.
//!
//! *Must not depend on*: when a memtable is sealed, and the order of memtables; the further fate of
//! a bundle.

mod ingest;
mod memtable;

pub(crate) use ingest::{attach_layers, layer_writer, rehearse_attach};
pub use memtable::TreeIncorporation;
