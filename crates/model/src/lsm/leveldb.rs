//! Write costs of LevelDB's levels (Lim §4.3, Algorithm 3).
//!
//! ```text
//!   memory ──▶ log                    1
//!      └─────▶ level 0  ▤ ▤ ▤ ▤       tables that overlap; all of them are merged at once
//!                 └───▶ level 1  ▥▥▥▥▥▥▥▥▥▥      disjoint tables: a cursor takes one after the
//!                          └───▶ level 2  ▥▥▥▥…  other and merges it into the next level
//! ```

use super::{ItemStage, WriteCosts, bounds};
use crate::Popularity;
use crate::parameter::{BadParameter, at_least, positive, require};

/// The shape of a LevelDB store. All sizes are numbers of items.
///
/// ```
/// use alluvium_model::Popularity;
/// use alluvium_model::lsm::{LevelDb, ItemStage};
/// let keys = Popularity::uniform(100_000_000)?;
/// let costs = LevelDb::standard(keys.keys())?.estimate(&keys)?;
/// assert!((costs.total() - 25.83).abs() < 0.01, "{}", costs.total());
/// assert!(costs.worst_case > 1.8 * costs.total());
/// assert!(costs.stage(ItemStage::Level(2)) < 5.0, "not 11, as without redundancy");
/// # Ok::<(), alluvium_model::BadParameter>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LevelDb {
    /// Number of requests after which the memtable and its log are full.
    pub log: f64,
    /// Number of tables of level 0 that are merged together.
    pub tables: f64,
    /// Sizes of the levels from level 1 on, without the last level, which contains every key.
    pub sizes: Vec<f64>,
}

/// Number of items per MiB. The source's items have 1000 bytes.
const MIB: f64 = 1_048_576.0 / 1000.0;

/// Ratio of the size of a level to the size of the level above it.
const GROWTH: f64 = 10.0;

impl LevelDb {
    /// Returns LevelDB's default shape for items of 1000 bytes: a log of 4 MiB, 4 tables in level
    /// 0, and levels of 10 MiB, 100 MiB and so on, until all keys fit.
    ///
    /// # Errors
    /// [`BadParameter`] unless the number of keys is positive.
    pub fn standard(keys: f64) -> Result<LevelDb, BadParameter> {
        positive("the number of keys", keys)?;
        let mut sizes = Vec::new();
        let mut size = GROWTH * MIB;
        while size < keys {
            sizes.push(size);
            size *= GROWTH;
        }
        Ok(LevelDb {
            log: 4.0 * MIB,
            tables: 4.0,
            sizes,
        })
    }

    /// Returns a shape with `levels` levels besides level 0, whose sizes grow by a constant factor
    /// from 10 MiB to the number of keys (Lim, Fig. 4.15).
    ///
    /// # Errors
    /// [`BadParameter`] if `levels` is zero, or if there are several levels and the first one could
    /// contain all keys.
    pub fn with_levels(keys: f64, levels: usize) -> Result<LevelDb, BadParameter> {
        positive("the number of keys", keys)?;
        let some = (1..=super::optimise::MOST_LEVELS).contains(&levels);
        require("the number of levels", levels as f64, some, "from 1 to 16")?;
        let first = GROWTH * MIB;
        let grows = levels == 1 || keys > first;
        require(
            "the number of keys",
            keys,
            grows,
            "more than the first level holds",
        )?;
        let growth = (keys / first).powf(1.0 / (levels.max(2) - 1) as f64);
        let mut shape = LevelDb::standard(keys)?;
        shape.sizes = (0..levels - 1)
            .map(|level| first * growth.powi(level as i32))
            .collect();
        Ok(shape)
    }

    /// Returns the number of levels, not counting level 0.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.sizes.len() + 1
    }

    /// Estimates how many items each stage writes per inserted item.
    ///
    /// # Errors
    /// [`BadParameter`] unless log and tables are positive, each level is larger than the one above
    /// it, and no level is larger than the number of keys.
    pub fn estimate(&self, popularity: &Popularity) -> Result<WriteCosts, BadParameter> {
        self.checked(popularity)?;
        let keys = popularity.keys();
        Ok(WriteCosts {
            stages: self.stages(popularity),
            worst_case: self.worst_case(keys),
            // The bound assumes levels that grow by a constant factor, so use this shape's mean
            // growth factor.
            textbook: bounds::lsm(keys, self.log * self.tables, self.mean_growth(keys))?,
        })
    }

    /// Returns the write costs of each stage of a validated shape.
    pub(super) fn stages(&self, popularity: &Popularity) -> Vec<(ItemStage, f64)> {
        let keys = popularity.keys();
        let mut stages = vec![
            (ItemStage::Log, 1.0),
            (ItemStage::Flush, popularity.unique_of(self.log) / self.log),
        ];
        let next = |level: usize| self.sizes.get(level).copied().unwrap_or(keys);
        let mut interval = self.log * self.tables;
        // In the source's terms, Merge(Unique(I), S) is Unique(I + Unique⁻¹(S)).
        let merged = |interval: f64, size: f64| popularity.unique_of(interval + popularity.requests_of(size));
        stages.push((ItemStage::Level(1), merged(interval, next(0)) / interval));
        for (above, &size) in self.sizes.iter().enumerate() {
            // Merges into the upper levels take precedence, so this level fills up in the meantime.
            interval += popularity.interval_of(size);
            // The boundaries of compacted tables do not coincide with those of tables in the next
            // level, so a compaction of n items rewrites about n extra items of that level.
            let overlap = popularity.unique_of(interval);
            let writes = merged(interval, next(above + 1)) + overlap;
            stages.push((ItemStage::Level(above + 2), writes / interval));
        }
        stages
    }

    fn worst_case(&self, keys: f64) -> f64 {
        let first = self.log * self.tables;
        let mut sizes = self.sizes.clone();
        sizes.push(keys);
        let levels = sizes.windows(2).map(|pair| (pair[0] + pair[1]) / pair[0]);
        // An item is written once to the log, and once to a table of level 0.
        2.0 + (first + sizes[0]) / first + levels.sum::<f64>()
    }

    fn mean_growth(&self, keys: f64) -> f64 {
        let first = self.log * self.tables;
        let growth = (keys / first).powf(1.0 / self.levels() as f64);
        growth.max(2.0)
    }

    pub(super) fn checked(&self, popularity: &Popularity) -> Result<(), BadParameter> {
        positive("the log", self.log)?;
        at_least(
            "the tables of level 0",
            self.tables,
            1.0,
            "at least 1, and finite",
        )?;
        let most = super::optimise::MOST_LEVELS;
        require(
            "the number of levels",
            self.levels() as f64,
            self.levels() <= most,
            "from 1 to 16",
        )?;
        let mut above = 0.0;
        for &size in &self.sizes {
            positive("the size of a level", size)?;
            let grows = size > above && size < popularity.keys();
            require(
                "the size of a level",
                size,
                grows,
                "more than that of the level above, and less than the number of keys",
            )?;
            above = size;
        }
        Ok(())
    }
}
