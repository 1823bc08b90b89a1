//! The built-in engines, which need no foreign code.
//!
//! *Knows*: how an outside program opens and uses Alluvium, and an engine that does nothing.
//!
//! *Does not know*: workloads.
//!
//! *Read in this order*: `alluvium.rs`, `nothing.rs`.

mod alluvium;
mod nothing;

use crate::engine::Entry;

/// Alluvium, and `none`, which does nothing and so measures the overhead of measuring.
pub const OWN: [Entry; 2] = [
    Entry {
        name: "alluvium",
        options: &["structure"],
        open: alluvium::open,
    },
    Entry {
        name: "none",
        options: &[],
        open: nothing::open,
    },
];

/// Returns the engine with this name.
#[must_use]
pub fn find(engines: &[Entry], name: &str) -> Option<Entry> {
    engines.iter().find(|entry| entry.name == name).copied()
}
