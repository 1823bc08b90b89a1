//! New data: writes sealed memtables and sorted ingests as runs with maplets, and adds the runs to
//! the root as its newest bundles.
//!
//! *Scope*: how messages are merged into a run; the point after which a change must not fail.
//!
//! *Must not depend on*: when a memtable is sealed, and the order of memtables; what later happens
//! to a bundle.

mod ingest;
mod memtable;

pub(crate) use ingest::{attach_layers, layer_writer, rehearse_attach};
pub use memtable::TreeIncorporation;
