//! Comparison of structures: the cost of each for a workload on a machine, as a band, together with
//! its textbook bound.
//!
//! *Scope*: the model of each structure, the division of memory for each, and how results translate
//! into device and CPU time.
//!
//! *Must not depend on*: stores, measurements, the structure of a particular store.
//!
//! Invariants:
//!
//! - **W1** A band contains its middle, which is the prediction for the workload itself.
//! - **W2** Every structure returns a prediction for each valid workload, or an error with the
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

/// A structure with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StructureModel {
    /// A size-tiered Bε-tree of runs and maplets: our own.
    Tiered(TieredSettings),
    /// Levels of runs; `k` runs of a level are merged into one of the next (SAMT).
    Samt {
        /// Number of runs per level.
        k: u32,
    },
    /// One run per level, which accepts `ratio` − 1 merges (COLA).
    Cola {
        /// Size of a level relative to the previous one; at least 2.
        ratio: u32,
    },
    /// One run per level, merged into the next when it is full.
    Levelled {
        /// Size of a level relative to the previous one; at least 2.
        ratio: u32,
    },
    /// LevelDB: a cursor compacts one table at a time.
    LevelDb,
    /// A B-tree with optimal nodes.
    BTree,
    /// A Bε-tree whose nodes are read and written as a whole.
    NaiveBuffered,
    /// A Bε-tree whose nodes are read in part.
    Buffered,
    /// SILT: a log, hash stores and a sorted store; unordered.
    Silt,
    /// SILT's stores on extents, unordered: our own.
    Hashed {
        /// How a lookup finds the leaf of a key.
        index: HashIndex,
    },
    /// A bundle of arrays on extents, unordered: our own.
    Boa {
        /// λ: number of runs of a level that become one of the next.
        lambda: u32,
        /// Whether filters have check characters.
        refined: bool,
    },
    /// A bundle of trees on extents, unordered: our own.
    Bot {
        /// λ: number of children of a node.
        lambda: u32,
    },
}

impl StructureModel {
    /// All structures; ours with its usual setting is first.
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

    /// The structures and settings that a store can be configured with.
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

    /// Returns whether keys can be iterated in order. Without order, scans have no cost.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        !matches!(
            self,
            StructureModel::Hashed { .. } | StructureModel::Boa { .. } | StructureModel::Bot { .. }
        )
    }

    /// Returns the name with settings.
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

    /// Returns the relative error of the model: ours from the tests of the tree, LevelDB's from
    /// Lim. Structures without measurements have a wider estimate.
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

    /// Predicts the costs of the structure.
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
            // Neighbours without a prediction do not widen the band.
            points.extend(self.point(&near, &machine).ok());
        }
        Ok(cost::of(self.name(), &points, self.error(), &workload, &machine))
    }

    /// Predicts the costs without evaluating neighbouring workloads: the middles equal those of
    /// [`StructureModel::cost`], and the bands contain only the model's own error. It needs a
    /// seventh of the time.
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

/// Returns neighbouring workloads, because data size and skew are known only approximately, and the
/// store's position in its compaction cycle is unknown.
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
