//! Comparison of structures: the cost of each for a workload on a machine, as a band, together with
//! its textbook bound.
//!
//! *Knows*: the model of each structure, the division of memory for each, and how results translate
//! into device and CPU time.
//!
//! *Does not know*: stores, measurements, the structure of a particular store.
//!
//! *Read in this order*: `workload.rs` (input), `cost.rs` (output), `cut.rs` (memory), `ours.rs`
//! (the tiered tree and levels), `hashed.rs`, `bundle.rs` and `trees.rs` (our unordered
//! structures), `lsm.rs` (LevelDB), `others.rs` (B-trees, Bε-trees, SILT).
//!
//! Invariants:
//!
//! - **W1** A band contains its middle, which is the prediction for the workload itself.
//! - **W2** Every structure returns a prediction for each valid workload, or an error with the
//!   reason.

mod bundle;
mod cost;
mod cut;
mod hashed;
mod lsm;
mod others;
mod ours;
#[cfg(test)]
mod tests;
mod trees;
mod workload;

pub use cost::{Band, Cost, Term};
pub use cut::MemoryCut;
pub use hashed::HashIndex;
pub use ours::Setting;
pub use workload::{Machine, Operations, Workload};

use crate::parameter::BadParameter;
use crate::tiered::Rule;
use cost::Point;
use ours::Layout;

/// A structure with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Structure {
    /// A size-tiered Bε-tree of runs and maplets: our own.
    Tiered(Setting),
    /// Levels of runs; `k` runs of a level are merged into one of the next (SAMT).
    Samt {
        /// Number of runs per level.
        k: u32,
    },
    /// One run per level, which accepts `ratio` − 1 merges (COLA).
    Cola {
        /// Growth factor of levels.
        ratio: u32,
    },
    /// One run per level, merged into the next when it is full.
    Levelled {
        /// Growth factor of levels.
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
        /// How leaves are located.
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

impl Structure {
    /// All structures; ours with its usual setting is first.
    pub const ALL: [Structure; 12] = [
        Structure::Tiered(Setting::USUAL),
        Structure::Samt { k: 4 },
        Structure::Cola { ratio: 4 },
        Structure::Levelled { ratio: 10 },
        Structure::LevelDb,
        Structure::BTree,
        Structure::NaiveBuffered,
        Structure::Buffered,
        Structure::Silt,
        Structure::Hashed {
            index: HashIndex::PaCHash,
        },
        Structure::Boa {
            lambda: 16,
            refined: true,
        },
        Structure::Bot { lambda: 16 },
    ];

    /// The structures and settings that a store can be configured with.
    pub const CHOICES: [Structure; 14] = [
        Structure::Tiered(Setting::USUAL),
        Structure::Tiered(Setting {
            records_share: 0.0,
            ..Setting::USUAL
        }),
        Structure::Tiered(Setting {
            records_share: 0.5,
            ..Setting::USUAL
        }),
        Structure::Samt { k: 4 },
        Structure::Samt { k: 8 },
        Structure::Cola { ratio: 4 },
        Structure::Levelled { ratio: 4 },
        Structure::Levelled { ratio: 8 },
        Structure::Levelled { ratio: 10 },
        Structure::Hashed {
            index: HashIndex::PaCHash,
        },
        Structure::Boa {
            lambda: 4,
            refined: true,
        },
        Structure::Boa {
            lambda: 16,
            refined: true,
        },
        Structure::Bot { lambda: 4 },
        Structure::Bot { lambda: 16 },
    ];

    /// Returns whether keys can be iterated in order. Without order, scans have no cost.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        !matches!(
            self,
            Structure::Hashed { .. } | Structure::Boa { .. } | Structure::Bot { .. }
        )
    }

    /// Returns the name with settings.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Structure::Tiered(setting) if setting.fanout == Setting::USUAL.fanout => {
                format!("tiered, records {:.0} %", 100.0 * setting.records_share)
            }
            Structure::Tiered(setting) => {
                let records = 100.0 * setting.records_share;
                format!("tiered, F={}, records {records:.0} %", setting.fanout)
            }
            Structure::Samt { k } => format!("samt, k={k}"),
            Structure::Cola { ratio } => format!("cola, r={ratio}"),
            Structure::Levelled { ratio } => format!("leveled, r={ratio}"),
            Structure::LevelDb => "LevelDB".to_owned(),
            Structure::BTree => "B-tree".to_owned(),
            Structure::NaiveBuffered => "Bε-tree, naive".to_owned(),
            Structure::Buffered => "Bε-tree".to_owned(),
            Structure::Silt => "SILT".to_owned(),
            Structure::Hashed { index } => match index {
                HashIndex::PaCHash => "hashed, index=pachash".to_owned(),
                HashIndex::Trie => "hashed, index=trie".to_owned(),
            },
            Structure::Boa { lambda, refined } => {
                let refined = if *refined { "yes" } else { "no" };
                format!("hashed, form=boa, lambda={lambda}, refined={refined}")
            }
            Structure::Bot { lambda } => format!("hashed, form=bot, lambda={lambda}"),
        }
    }

    /// Returns the relative error of the model: ours from the tests of the tree, LevelDB's from
    /// Lim. Structures without measurements have a wider estimate.
    fn error(&self) -> f64 {
        match self {
            Structure::Tiered(_) => 0.1,
            Structure::LevelDb => 0.05,
            Structure::Samt { .. }
            | Structure::Cola { .. }
            | Structure::Levelled { .. }
            | Structure::Hashed { .. } => 0.15,
            _ => 0.25,
        }
    }

    /// Predicts the costs of the structure.
    ///
    /// ```
    /// use alluvium_model::structures::{Machine, Setting, Structure, Workload};
    /// let ours = Structure::Tiered(Setting::USUAL);
    /// let cost = ours.cost(&Workload::default(), &Machine::default())?;
    /// let tree = Structure::BTree.cost(&Workload::default(), &Machine::default())?;
    /// assert!(10.0 * cost.write_amplification.middle < tree.write_amplification.middle);
    /// # Ok::<(), alluvium_model::BadParameter>(())
    /// ```
    ///
    /// # Errors
    /// [`BadParameter`] if the workload or the machine is invalid, or if there is too little
    /// memory.
    pub fn cost(&self, workload: &Workload, machine: &Machine) -> Result<Cost, BadParameter> {
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
    /// [`Structure::cost`], and the bands contain only the model's own error. It needs a seventh of
    /// the time.
    ///
    /// ```
    /// use alluvium_model::structures::{Machine, Setting, Structure, Workload};
    /// let ours = Structure::Tiered(Setting::USUAL);
    /// let whole = ours.cost(&Workload::default(), &Machine::default())?;
    /// let alone = ours.cost_alone(&Workload::default(), &Machine::default())?;
    /// assert_eq!(alone.total_ns.middle, whole.total_ns.middle);
    /// # Ok::<(), alluvium_model::BadParameter>(())
    /// ```
    ///
    /// # Errors
    /// As [`Structure::cost`].
    pub fn cost_alone(&self, workload: &Workload, machine: &Machine) -> Result<Cost, BadParameter> {
        let (workload, machine) = (workload.checked()?, machine.checked()?);
        let point = self.point(&workload, &machine)?;
        Ok(cost::of(self.name(), &[point], self.error(), &workload, &machine))
    }

    fn point(&self, workload: &Workload, machine: &Machine) -> Result<Point, BadParameter> {
        let on_levels = |rule| {
            let share = machine.records_share;
            ours::arranged(Layout::Levels(rule), share, workload, machine)
        };
        match *self {
            Structure::Tiered(setting) => ours::point(setting, workload, machine),
            Structure::Samt { k } => on_levels(Rule::Samt { runs: k }),
            Structure::Cola { ratio } => on_levels(Rule::Cola { ratio }),
            Structure::Levelled { ratio } => on_levels(Rule::Levelled { ratio }),
            Structure::LevelDb => lsm::point(workload, machine),
            Structure::BTree => others::b_tree(workload, machine),
            Structure::NaiveBuffered => others::buffered(others::Reading::Whole, workload, machine),
            Structure::Buffered => others::buffered(others::Reading::InPart, workload, machine),
            Structure::Silt => others::silt(workload, machine),
            Structure::Hashed { index } => hashed::point(index, workload, machine),
            Structure::Boa { lambda, refined } => bundle::point(lambda, refined, workload, machine),
            Structure::Bot { lambda } => trees::point(lambda, workload, machine),
        }
    }
}

/// Returns neighbouring workloads, because data size and skew are known only approximately, and the
/// store's position in its compaction cycle is unknown.
fn neighbours(workload: &Workload) -> [Workload; 6] {
    let data = |factor: f64| Workload {
        keys: (workload.keys * factor).max(2.0),
        ..*workload
    };
    let skew = |more: f64| Workload {
        skew: (workload.skew + more).max(0.0),
        ..*workload
    };
    let moment = |factor: f64| Workload {
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
