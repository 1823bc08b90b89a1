//! An in-memory simulation of LevelDB's compactions that tracks keys only (Lim §4.3.5).
//!
//! *Scope*: memtables, tables, levels and cursors; how the next level and table to compact are
//! chosen.
//!
//! *Must not depend on*: values, files, readers. A compaction completes before the next insert,
//! unless its pace is limited.
//!
//! Like the simulation of the source, it omits LevelDB's optimisations: several upper-level
//! tables in one compaction, memtables flushed below level 0, and tables moved without a merge.
//!
//! Invariants:
//!
//! - **LC1** Tables of a level from 1 on are sorted and disjoint, and none is empty.
//! - **LC2** Every inserted key is in a level or in the memtable.

mod levels;
mod policy;
mod table;
#[cfg(test)]
mod tests;

pub use policy::{LevelChoice, TableChoice};

use alluvium_model::lsm::{ItemStage, LevelDb};
use alluvium_model::parameter::{BadParameter, positive, require};
use alluvium_model::{Popularity, SplitMix64};
use levels::LevelSimulation;

/// Items per MiB: items have 1000 bytes in the source.
const MIB: f64 = 1_048_576.0 / 1000.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CompactionPace {
    /// All due compactions run before the next insert.
    AtOnce,
    /// Compactions run at the device's write rate, concurrently with inserts.
    Limited {
        /// Items that compactions write per inserted item.
        writes: f64,
        /// The number of level-0 tables at which inserts stall.
        stop: usize,
    },
}

/// The rules of a simulation. Sizes are in items.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionRules {
    /// The sizes of the log and the levels.
    pub shape: LevelDb,
    /// The maximum size of a table.
    pub table: f64,
    /// The maximum overlap of a table with the level after the next; an output table ends before
    /// it.
    pub overlap: f64,
    /// How the table to compact is chosen within a level.
    pub tables: TableChoice,
    /// How the level to compact is chosen.
    pub levels: LevelChoice,
    pub pace: CompactionPace,
    /// The number of counted requests per key, after each key was inserted once.
    pub rounds: f64,
}

/// The measurements of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedWrites {
    /// Items written by each stage per inserted item.
    pub stages: Vec<(ItemStage, f64)>,
    /// The number of counted inserts.
    pub inserts: u64,
}

impl SimulatedWrites {
    /// Returns the write amplification: items written per inserted item.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.stages.iter().map(|(_, writes)| writes).sum()
    }
}

/// The maximum number of keys: keys are 32-bit integers.
const MOST_KEYS: f64 = 4_294_967_296.0;

impl CompactionRules {
    /// Returns LevelDB's rules for a shape: tables of 2 MiB that overlap at most 20 MiB, cursors,
    /// the fullest level first, compactions before the next insert, and three requests per key.
    #[must_use]
    pub fn new(shape: LevelDb) -> CompactionRules {
        CompactionRules {
            shape,
            table: 2.0 * MIB,
            overlap: 20.0 * MIB,
            tables: TableChoice::Cursor,
            levels: LevelChoice::Fullest,
            pace: CompactionPace::AtOnce,
            rounds: 3.0,
        }
    }

    /// Inserts each key once, then measures the writes caused by requests. `seed` determines the
    /// requests and the positions of popular keys.
    ///
    /// ```
    /// use alluvium_model::Popularity;
    /// use alluvium_model::lsm::LevelDb;
    /// use research_models::leveldb::CompactionRules;
    /// let keys = Popularity::uniform(50_000)?;
    /// let shape = LevelDb::standard(keys.keys())?;
    /// let model = shape.estimate(&keys)?.total();
    /// let measured = CompactionRules::new(shape).run(&keys, 1)?.total();
    /// assert!((measured / model - 1.0).abs() < 0.1, "{measured} {model}");
    /// # Ok::<(), alluvium_model::BadParameter>(())
    /// ```
    ///
    /// # Errors
    /// [`BadParameter`] in the cases of [`LevelDb::estimate`], or if there are more than 2^32
    /// keys, tables without items, or no requests.
    pub fn run(&self, popularity: &Popularity, seed: u64) -> Result<SimulatedWrites, BadParameter> {
        self.checked(popularity)?;
        let keys = popularity.keys() as u32;
        let mut random = SplitMix64::from_seed(seed);
        let requests = popularity.requests()?;
        let mut key_of_rank: Vec<u32> = (0..keys).collect();
        random.shuffle(&mut key_of_rank);
        let mut levels = LevelSimulation::new(self);
        for &key in &key_of_rank {
            levels.insert(key);
        }
        levels.count_from_here();
        let inserts = (popularity.keys() * self.rounds) as u64;
        for _ in 0..inserts {
            levels.insert(key_of_rank[requests.draw(&mut random)]);
        }
        Ok(SimulatedWrites {
            stages: levels.stages(inserts),
            inserts,
        })
    }

    fn checked(&self, popularity: &Popularity) -> Result<(), BadParameter> {
        self.shape.estimate(popularity)?;
        let keys = popularity.keys();
        require("the number of keys", keys, keys < MOST_KEYS, "below 2^32")?;
        let log = self.shape.log;
        require(
            "the log",
            log,
            (1.0..MOST_KEYS).contains(&log),
            "at least 1, and below 2^32",
        )?;
        let table = self.table;
        let holds = (1.0..MOST_KEYS).contains(&table);
        require("the table", table, holds, "at least 1, and below 2^32")?;
        positive("the overlap", self.overlap)?;
        positive("the requests for each key", self.rounds)?;
        require(
            "the requests for each key",
            self.rounds,
            keys * self.rounds >= 1.0,
            "enough for one request",
        )?;
        if let CompactionPace::Limited { writes, stop } = self.pace {
            positive("the pace of compactions", writes)?;
            let above = stop as f64 > self.shape.tables;
            require(
                "the tables that stop inserts",
                stop as f64,
                above,
                "more than are merged at once",
            )?;
        }
        Ok(())
    }
}
