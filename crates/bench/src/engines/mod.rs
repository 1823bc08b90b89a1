//! The engines that are at hand without anything foreign.
//!
//! *Knows*: how Alluvium is opened and used as a stranger would, and an engine that does nothing.
//!
//! *Does not know*: workloads.
//!
//! *Read in this order*: `alluvium.rs`, `nothing.rs`.

mod alluvium;
mod nothing;

use crate::engine::Entry;

/// Alluvium, and `none`, which does nothing: what is measured of that is the cost of measuring.
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

/// Returns the engine of a name.
#[must_use]
pub fn find(engines: &[Entry], name: &str) -> Option<Entry> {
    engines.iter().find(|entry| entry.name == name).copied()
}
