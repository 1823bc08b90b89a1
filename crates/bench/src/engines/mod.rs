//! The engines that are built into this program, because they need no foreign code.
//!
//! *Scope*: how an external program opens and uses Alluvium, and an engine that does nothing.
//!
//! *Must not depend on*: workloads.

mod alluvium;
mod null_engine;

use crate::engine::EngineEntry;

/// The built-in engines: Alluvium, and `none`, which does nothing and so shows the overhead of
/// measuring.
pub const OWN: [EngineEntry; 2] = [
    EngineEntry {
        name: "alluvium",
        options: &["structure"],
        open: alluvium::open,
    },
    EngineEntry {
        name: "none",
        options: &[],
        open: null_engine::open,
    },
];

/// Returns the engine with the given name, if there is one.
#[must_use]
pub fn find(engines: &[EngineEntry], name: &str) -> Option<EngineEntry> {
    engines.iter().find(|entry| entry.name == name).copied()
}
