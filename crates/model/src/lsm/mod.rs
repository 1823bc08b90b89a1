//! Write amplification of structures that merge tables: LSM-trees, LevelDB, COLA, SAMT (Lim §4.3,
//! §4.4).
//!
//! *Scope*: the writes of each merge per inserted item, after removing redundant keys; textbook
//! bounds; LevelDB's optimal level sizes.
//!
//! *Must not depend on*: files, bytes, time. Sizes are in items, and all items have equal size.
//!
//! Source: *Lim* §4.3 to §4.6, Algorithms 3 and 4; Conway, "Understanding Dictionaries at the
//! Intersection of Theory and Practice", 2020, §2.2 and §3.1, cited below as *Conway*.
//!
//! Invariants:
//!
//! - **A1** Without redundant keys a merge writes the sum of its inputs, so no estimate exceeds its
//!   worst case.
//! - **A2** The last level holds every key.

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

/// A stage in the life of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemStage {
    /// From memory to the log.
    Log,
    /// From memory to a table that waits for its first merge.
    Flush,
    /// Into a level, from the level above it.
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

/// The writes of a structure per inserted item.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteCosts {
    /// Number of items written by each stage.
    pub stages: Vec<(ItemStage, f64)>,
    /// Number of items written if no keys were redundant and all keys were as dense as their level.
    pub worst_case: f64,
    /// Textbook bound with a constant of 1, without the log.
    pub textbook: f64,
}

impl WriteCosts {
    /// Returns the write amplification: items written per item inserted.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.stages.iter().map(|(_, writes)| writes).sum()
    }

    /// Returns the writes of one stage; 0 if the stage does not exist.
    #[must_use]
    pub fn stage(&self, stage: ItemStage) -> f64 {
        let found = self.stages.iter().find(|(at, _)| *at == stage);
        found.map_or(0.0, |(_, writes)| *writes)
    }
}
