//! A simulation of LevelDB's compactions, with keys only and in memory (Lim §4.3.5).
//!
//! *Knows*: memtables, tables, levels and cursors; which level and which table is compacted
//! next.
//!
//! *Does not know*: values, files, readers. A compaction is complete before the next insert,
//! unless its pace is limited.
//!
//! *Read in this order*: this file (rules and one run), `policy.rs`, `levels.rs`, `table.rs`.
//!
//! As in the source, it leaves out what LevelDB does to save work: more tables of the upper
//! level in one compaction, memtables placed below level 0, and tables moved without a merge.
//!
//! Invariants:
//!
//! - **LC1** Tables of a level from 1 on are sorted and disjoint, and none is empty.
//! - **LC2** Every key that was inserted is in a level or in the memtable.

mod levels;
mod policy;
mod table;
#[cfg(test)]
mod tests;

pub use policy::{LevelChoice, TableChoice};

use alluvium_model::lsm::{LevelDb, Stage};
use alluvium_model::parameter::{BadParameter, positive, require};
use alluvium_model::{Popularity, Random};
use levels::Levels;

/// Items in a MiB: the source's items have 1000 bytes.
const MIB: f64 = 1_048_576.0 / 1000.0;

/// When compactions run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As many as are due, before the next insert.
    AtOnce,
    /// As many as the device writes meanwhile.
    Limited {
        /// Items that compactions write while one item is inserted.
        writes: f64,
        /// The tables in level 0 with which inserts wait.
        stop: usize,
    },
}

/// The rules of a simulation. Sizes are in items.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// The sizes of log and levels.
    pub shape: LevelDb,
    /// The largest table.
    pub table: f64,
    /// A table ends before it overlaps more than this of the level after the next.
    pub overlap: f64,
    /// Which table of a level is compacted.
    pub tables: TableChoice,
    /// Which level is compacted.
    pub levels: LevelChoice,
    /// When compactions run.
    pub pace: Pace,
    /// How many requests are counted for each key, after each key was inserted once.
    pub rounds: f64,
}

/// What a simulation has measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Items written by each stage for each item inserted.
    pub stages: Vec<(Stage, f64)>,
    /// How many inserts were counted.
    pub inserts: u64,
}

impl Measured {
    /// Returns the write amplification.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.stages.iter().map(|(_, writes)| writes).sum()
    }
}

/// The most keys of a simulation: keys are 32 bits.
const MOST_KEYS: f64 = 4_294_967_296.0;

impl Rules {
    /// Returns LevelDB's rules for a shape: tables of 2 MiB that overlap at most 20 MiB,
    /// cursors, the fullest level first, compactions at once, and three requests for each key.
    #[must_use]
    pub fn new(shape: LevelDb) -> Rules {
        Rules {
            shape,
            table: 2.0 * MIB,
            overlap: 20.0 * MIB,
            tables: TableChoice::Cursor,
            levels: LevelChoice::Fullest,
            pace: Pace::AtOnce,
            rounds: 3.0,
        }
    }

    /// Inserts each key once, then counts what requests write. `seed` decides the requests and
    /// where popular keys are.
    ///
    /// ```
    /// use alluvium_model::Popularity;
    /// use alluvium_model::lsm::LevelDb;
    /// use research_models::leveldb::Rules;
    /// let keys = Popularity::uniform(50_000)?;
    /// let shape = LevelDb::standard(keys.keys())?;
    /// let model = shape.estimate(&keys)?.total();
    /// let measured = Rules::new(shape).run(&keys, 1)?.total();
    /// assert!((measured / model - 1.0).abs() < 0.1, "{measured} {model}");
    /// # Ok::<(), alluvium_model::BadParameter>(())
    /// ```
    ///
    /// # Errors
    /// [`BadParameter`] as [`LevelDb::estimate`], or if there are more than 2^32 keys, tables
    /// without items, or no requests.
    pub fn run(&self, popularity: &Popularity, seed: u64) -> Result<Measured, BadParameter> {
        self.checked(popularity)?;
        let keys = popularity.keys() as u32;
        let mut random = Random::from_seed(seed);
        let requests = popularity.requests()?;
        let mut key_of_rank: Vec<u32> = (0..keys).collect();
        random.shuffle(&mut key_of_rank);
        let mut levels = Levels::new(self);
        for &key in &key_of_rank {
            levels.insert(key);
        }
        levels.count_from_here();
        let inserts = (popularity.keys() * self.rounds) as u64;
        for _ in 0..inserts {
            levels.insert(key_of_rank[requests.draw(&mut random)]);
        }
        Ok(Measured {
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
        if let Pace::Limited { writes, stop } = self.pace {
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
