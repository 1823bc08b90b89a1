//! Compares structures: predicts each structure's costs for a workload and a machine, as 80 %
//! intervals, and compares them with a textbook bound.
//!
//! *Scope*: the model of each structure, the division of memory that it assumes, and the conversion
//! of its results to device and CPU time.
//!
//! *Must not depend on*: stores, measurements, the structure of a particular store.
//!
//! Invariants:
//!
//! - **W1** An interval contains the prediction for the workload itself.
//! - **W2** For each valid workload, every structure returns a prediction or an error with the
//!   reason.

mod bundle;
mod cost;
mod hashed;
mod lsm;
mod memory_division;
mod runs;
#[cfg(test)]
mod tests;
mod textbook;
mod trees;
mod workload;

pub use cost::{CostBand, CostTerm, StructureCost};
pub use hashed::HashIndex;
pub use memory_division::MemoryDivision;
pub use runs::TieredSettings;
pub use workload::{MachineProfile, OperationRates, WorkloadProfile};

use crate::parameter::BadParameter;
use crate::tiered::MergeRule;
use cost::CostPrediction;
use runs::RunLayout;

/// A structure and its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StructureModel {
    /// The tiered tree of this store: a size-tiered Bε-tree of runs and maplets.
    Tiered(TieredSettings),
    /// Levels of runs, of which every `k` in a level are merged into one run of the next level
    /// (SAMT).
    Samt {
        /// Number of runs that are merged.
        k: u32,
    },
    /// One run per level, which absorbs `ratio` − 1 merges before it moves to the next level
    /// (COLA).
    Cola {
        /// Ratio of the size of a level to the size of the level above it; at least 2.
        ratio: u32,
    },
    /// One run per level, which is merged into the next level when it is full.
    Levelled {
        /// Ratio of the size of a level to the size of the level above it; at least 2.
        ratio: u32,
    },
    /// LevelDB: a cursor compacts one table at a time.
    LevelDb,
    /// A B-tree whose node size is optimal for the workload.
    BTree,
    /// A Bε-tree that always reads and writes whole nodes.
    NaiveBuffered,
    /// A Bε-tree that reads only the part of a node that a query needs.
    Buffered,
    /// SILT: a log store, hash stores and a sorted store. Unordered.
    Silt,
    /// This store's hashed structure: SILT's stores on extents. Unordered.
    Hashed {
        /// The index that locates the leaf of a key.
        index: HashIndex,
    },
    /// This store's bundle of arrays, on extents. Unordered.
    Boa {
        /// λ: the number of a level's runs that are merged into one run of the next level.
        lambda: u32,
        /// Whether filters store check digits.
        refined: bool,
    },
    /// This store's bundle of trees, on extents. Unordered.
    Bot {
        /// λ: the number of children of a node of the trees.
        lambda: u32,
    },
}

impl StructureModel {
    /// All structures. The first is this store's tiered tree with its usual settings.
    pub const ALL: [StructureModel; 12] = [
        StructureModel::Tiered(TieredSettings::USUAL),
        StructureModel::Samt { k: 4 },
        StructureModel::Cola { ratio: 4 },
        StructureModel::Levelled { ratio: 10 },
        StructureModel::LevelDb,
        StructureModel::BTree,
        StructureModel::NaiveBuffered,
        StructureModel::Buffered,
        StructureModel::Silt,
        StructureModel::Hashed {
            index: HashIndex::PaCHash,
        },
        StructureModel::Boa {
            lambda: 16,
            refined: true,
        },
        StructureModel::Bot { lambda: 16 },
    ];

    /// The structures and settings that a store's keyspaces can be configured with.
    pub const CHOICES: [StructureModel; 14] = [
        StructureModel::Tiered(TieredSettings::USUAL),
        StructureModel::Tiered(TieredSettings {
            records_share: 0.0,
            ..TieredSettings::USUAL
        }),
        StructureModel::Tiered(TieredSettings {
            records_share: 0.5,
            ..TieredSettings::USUAL
        }),
        StructureModel::Samt { k: 4 },
        StructureModel::Samt { k: 8 },
        StructureModel::Cola { ratio: 4 },
        StructureModel::Levelled { ratio: 4 },
        StructureModel::Levelled { ratio: 8 },
        StructureModel::Levelled { ratio: 10 },
        StructureModel::Hashed {
            index: HashIndex::PaCHash,
        },
        StructureModel::Boa {
            lambda: 4,
            refined: true,
        },
        StructureModel::Boa {
            lambda: 16,
            refined: true,
        },
        StructureModel::Bot { lambda: 4 },
        StructureModel::Bot { lambda: 16 },
    ];

    /// Returns whether the structure can iterate over keys in order. If not, its cost omits scans.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        !matches!(
            self,
            StructureModel::Hashed { .. } | StructureModel::Boa { .. } | StructureModel::Bot { .. }
        )
    }

    /// Returns the name of the structure, including its settings.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            StructureModel::Tiered(setting) if setting.fanout == TieredSettings::USUAL.fanout => {
                format!("tiered, records {:.0} %", 100.0 * setting.records_share)
            }
            StructureModel::Tiered(setting) => {
                let records = 100.0 * setting.records_share;
                format!("tiered, F={}, records {records:.0} %", setting.fanout)
            }
            StructureModel::Samt { k } => format!("samt, k={k}"),
            StructureModel::Cola { ratio } => format!("cola, r={ratio}"),
            StructureModel::Levelled { ratio } => format!("leveled, r={ratio}"),
            StructureModel::LevelDb => "LevelDB".to_owned(),
            StructureModel::BTree => "B-tree".to_owned(),
            StructureModel::NaiveBuffered => "Bε-tree, naive".to_owned(),
            StructureModel::Buffered => "Bε-tree".to_owned(),
            StructureModel::Silt => "SILT".to_owned(),
            StructureModel::Hashed { index } => match index {
                HashIndex::PaCHash => "hashed, index=pachash".to_owned(),
                HashIndex::Trie => "hashed, index=trie".to_owned(),
            },
            StructureModel::Boa { lambda, refined } => {
                let refined = if *refined { "yes" } else { "no" };
                format!("hashed, form=boa, lambda={lambda}, refined={refined}")
            }
            StructureModel::Bot { lambda } => format!("hashed, form=bot, lambda={lambda}"),
        }
    }

    /// Returns the assumed relative error of the model. For this store's tree, it comes from tests
    /// of the tree, and for LevelDB, from Lim. Structures that were not measured get a larger
    /// error.
    fn error(&self) -> f64 {
        match self {
            StructureModel::Tiered(_) => 0.1,
            StructureModel::LevelDb => 0.05,
            StructureModel::Samt { .. }
            | StructureModel::Cola { .. }
            | StructureModel::Levelled { .. }
            | StructureModel::Hashed { .. } => 0.15,
            _ => 0.25,
        }
    }

    /// Predicts the costs of the structure for a workload on a machine.
    ///
    /// ```
    /// use alluvium_model::structures::{MachineProfile, TieredSettings, StructureModel, WorkloadProfile};
    /// let ours = StructureModel::Tiered(TieredSettings::USUAL);
    /// let cost = ours.cost(&WorkloadProfile::default(), &MachineProfile::default())?;
    /// let tree = StructureModel::BTree.cost(&WorkloadProfile::default(), &MachineProfile::default())?;
    /// assert!(10.0 * cost.write_amplification.middle < tree.write_amplification.middle);
    /// # Ok::<(), alluvium_model::BadParameter>(())
    /// ```
    ///
    /// # Errors
    /// [`BadParameter`] if the workload or the machine is invalid, or if there is too little
    /// memory.
    pub fn cost(
        &self,
        workload: &WorkloadProfile,
        machine: &MachineProfile,
    ) -> Result<StructureCost, BadParameter> {
        let (workload, machine) = (workload.checked()?, machine.checked()?);
        let middle = self.point(&workload, &machine)?;
        let mut points = vec![middle.clone()];
        for near in neighbours(&workload) {
            // A neighbouring workload without a prediction does not widen the intervals.
            points.extend(self.point(&near, &machine).ok());
        }
        Ok(cost::of(self.name(), &points, self.error(), &workload, &machine))
    }

    /// Predicts the costs without those of neighbouring workloads, in a seventh of the time. The
    /// predictions equal those of [`StructureModel::cost`], but the intervals reflect only the
    /// model's error.
    ///
    /// ```
    /// use alluvium_model::structures::{MachineProfile, TieredSettings, StructureModel, WorkloadProfile};
    /// let ours = StructureModel::Tiered(TieredSettings::USUAL);
    /// let whole = ours.cost(&WorkloadProfile::default(), &MachineProfile::default())?;
    /// let alone = ours.cost_alone(&WorkloadProfile::default(), &MachineProfile::default())?;
    /// assert_eq!(alone.total_ns.middle, whole.total_ns.middle);
    /// # Ok::<(), alluvium_model::BadParameter>(())
    /// ```
    ///
    /// # Errors
    /// As [`StructureModel::cost`].
    pub fn cost_alone(
        &self,
        workload: &WorkloadProfile,
        machine: &MachineProfile,
    ) -> Result<StructureCost, BadParameter> {
        let (workload, machine) = (workload.checked()?, machine.checked()?);
        let point = self.point(&workload, &machine)?;
        Ok(cost::of(self.name(), &[point], self.error(), &workload, &machine))
    }

    fn point(
        &self,
        workload: &WorkloadProfile,
        machine: &MachineProfile,
    ) -> Result<CostPrediction, BadParameter> {
        let on_levels = |rule| {
            let share = machine.records_share;
            runs::arranged(RunLayout::Levels(rule), share, workload, machine)
        };
        match *self {
            StructureModel::Tiered(setting) => runs::point(setting, workload, machine),
            StructureModel::Samt { k } => on_levels(MergeRule::Samt { runs: k }),
            StructureModel::Cola { ratio } => on_levels(MergeRule::Cola { ratio }),
            StructureModel::Levelled { ratio } => on_levels(MergeRule::Levelled { ratio }),
            StructureModel::LevelDb => lsm::point(workload, machine),
            StructureModel::BTree => textbook::b_tree(workload, machine),
            StructureModel::NaiveBuffered => {
                textbook::buffered(textbook::NodeReadMode::Whole, workload, machine)
            }
            StructureModel::Buffered => textbook::buffered(textbook::NodeReadMode::InPart, workload, machine),
            StructureModel::Silt => textbook::silt(workload, machine),
            StructureModel::Hashed { index } => hashed::point(index, workload, machine),
            StructureModel::Boa { lambda, refined } => bundle::point(lambda, refined, workload, machine),
            StructureModel::Bot { lambda } => trees::point(lambda, workload, machine),
        }
    }
}

/// Returns neighbouring workloads, whose costs determine the width of the intervals. They account
/// for data size and skew, which are known only approximately, and for the store's position in its
/// compaction cycle, which is unknown.
fn neighbours(workload: &WorkloadProfile) -> [WorkloadProfile; 6] {
    let data = |factor: f64| WorkloadProfile {
        keys: (workload.keys * factor).max(2.0),
        ..*workload
    };
    let skew = |more: f64| WorkloadProfile {
        skew: (workload.skew + more).max(0.0),
        ..*workload
    };
    let moment = |factor: f64| WorkloadProfile {
        rewrites: workload.rewrites * factor,
        ..*workload
    };
    [
        data(0.8),
        data(1.25),
        skew(-0.05),
        skew(0.05),
        moment(0.85),
        moment(1.15),
    ]
}
