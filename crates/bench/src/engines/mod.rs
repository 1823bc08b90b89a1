//! The built-in engines, which need no foreign code.
//!
//! *Scope*: how an outside program opens and uses Alluvium, and an engine that does nothing.
//!
//! *Must not depend on*: workloads.

mod alluvium;
mod null_engine;

use crate::engine::EngineEntry;

/// Alluvium, and `none`, which does nothing and so measures the overhead of measuring.
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

/// Returns the engine with this name.
#[must_use]
pub fn find(engines: &[EngineEntry], name: &str) -> Option<EngineEntry> {
    engines.iter().find(|entry| entry.name == name).copied()
}
