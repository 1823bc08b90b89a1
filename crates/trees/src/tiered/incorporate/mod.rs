//! What comes into the tree: a sealed memtable, or records that come in order, becomes runs with
//! their maplets, and the newest bundle of the root.
//!
//! *Knows*: how messages are folded on their way into a run; when a change may not fail any more.
//!
//! *Does not know*: when a memtable is sealed, and which follows which; what becomes of a bundle.
//!
//! *Read in this order*: `memtable.rs`, `ingest.rs`.

mod ingest;
mod memtable;

pub(crate) use ingest::{attach_layers, layer_writer};
pub use memtable::Incorporation;
