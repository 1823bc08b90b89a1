//! Write amplification of structures that merge tables: LSM-trees, LevelDB, COLA and SAMT (Lim
//! §4.3, §4.4).
//!
//! *Scope*: the number of items that each merge writes per inserted item, without obsolete versions
//! of keys; textbook bounds; the optimal sizes of LevelDB's levels.
//!
//! *Must not depend on*: files, bytes, time. Sizes are in items, and all items have equal size.
//!
//! Source: *Lim* §4.3 to §4.6, Algorithms 3 and 4; Conway, "Understanding Dictionaries at the
//! Intersection of Theory and Practice", 2020, §2.2 and §3.1, cited below as *Conway*.
//!
//! Invariants:
//!
//! - **A1** An estimate never exceeds the worst case, in which no key is redundant and every merge
//!   writes the sum of its inputs.
//! - **A2** The last level contains every key.

pub mod bounds;
mod geometric;
mod leveldb;
mod optimise;

#[cfg(test)]
mod tests;

pub use geometric::GeometricLevels;
pub use leveldb::LevelDb;
pub use optimise::{LevelDbOptimum, OptimumTrust};

use std::fmt;

/// A stage that writes an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemStage {
    /// The item is written from memory to the log.
    Log,
    /// The item is written from memory to a table that has not been merged yet.
    Flush,
    /// The item is merged into a level, from the level above it.
    Level(usize),
}

impl fmt::Display for ItemStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ItemStage::Log => write!(f, "log"),
            ItemStage::Flush => write!(f, "flush"),
            ItemStage::Level(level) => write!(f, "level {level}"),
        }
    }
}

/// The number of items that a structure writes per inserted item.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteCosts {
    /// Number of items that each stage writes per inserted item.
    pub stages: Vec<(ItemStage, f64)>,
    /// Number of items written per inserted item in the worst case, in which no keys are redundant
    /// and all parts of a level are equally dense.
    pub worst_case: f64,
    /// Textbook bound of the number of items written per inserted item, with a constant factor of 1
    /// and without the log.
    pub textbook: f64,
}

impl WriteCosts {
    /// Returns the write amplification: the number of items that all stages together write per
    /// inserted item.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.stages.iter().map(|(_, writes)| writes).sum()
    }

    /// Returns how many items a stage writes per inserted item, or 0 if the structure does not have
    /// this stage.
    #[must_use]
    pub fn stage(&self, stage: ItemStage) -> f64 {
        let found = self.stages.iter().find(|(at, _)| *at == stage);
        found.map_or(0.0, |(_, writes)| *writes)
    }
}
