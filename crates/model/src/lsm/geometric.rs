//! Write costs of structures whose levels grow by a constant factor: LSM-trees, COLA and SAMT (Lim
//! §4.4 and Algorithm 4; Conway §2.2).
//!
//! ```text
//!              what is merged                        a level writes, for each item, at most
//!   LSM-tree   a cursor rolls through a level        r + 1
//!   levelled   a full level, whole, into its next    (r + 1)/2
//!   COLA       the same; the r-th goes on at once    (r − 1)/2
//!   SAMT       r tables of a level at once           1
//! ```

use super::{ItemStage, WriteCosts, bounds};
use crate::Popularity;
use crate::parameter::{BadParameter, positive, require};

/// The shape of a structure whose levels grow by a constant factor. All sizes are numbers of items.
///
/// ```
/// use alluvium_model::Popularity;
/// use alluvium_model::lsm::GeometricLevels;
/// let keys = Popularity::uniform(100_000_000)?;
/// let shape = GeometricLevels::holding(keys.keys(), 4194.304, 4)?;
/// assert_eq!(shape.levels, 8);
/// let (cola, samt) = (shape.cola(&keys)?, shape.samt(&keys)?);
/// assert!(samt.total() < cola.total(), "{} {}", samt.total(), cola.total());
/// # Ok::<(), alluvium_model::BadParameter>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeometricLevels {
    /// Number of requests after which the memory and one log file are full.
    pub log: f64,
    /// Ratio of the size of a level to the size of the level above it.
    pub growth: u32,
    /// Number of levels on the device.
    pub levels: u32,
}

/// Maximum number of levels. With a growth factor of 2, these levels hold 2^64 keys.
const MOST_LEVELS: u32 = 64;

/// Maximum growth factor, which bounds the number of loop iterations per level.
const MOST_GROWTH: u32 = 1 << 16;

impl GeometricLevels {
    /// Returns the shape with the fewest levels for `keys` keys: ⌈log_r(N/M)⌉, but at least 1.
    ///
    /// # Errors
    /// [`BadParameter`] unless keys and log are positive, and the growth factor is at least 2.
    pub fn holding(keys: f64, log: f64, growth: u32) -> Result<GeometricLevels, BadParameter> {
        let levels = bounds::levels(keys, log, f64::from(growth))?.ceil().max(1.0);
        let shape = GeometricLevels {
            log,
            growth,
            levels: levels as u32,
        };
        shape.checked()?;
        Ok(shape)
    }

    /// Estimates the write costs of O'Neil's LSM-tree, in which a cursor moves through each level,
    /// including the one in memory, and merges the items that it passes into the next level.
    ///
    /// # Errors
    /// [`BadParameter`] if the shape has no levels, or if the log is not positive.
    pub fn lsm(&self, popularity: &Popularity) -> Result<WriteCosts, BadParameter> {
        let growth = self.checked()?;
        let keys = popularity.keys();
        let mut stages = vec![(ItemStage::Log, 1.0)];
        let mut worst_case = 1.0;
        let mut interval = 0.0;
        let mut size = self.log.min(keys);
        for level in 1..=self.levels {
            let next = if level == self.levels {
                keys
            } else {
                (size * growth).min(keys)
            };
            interval += popularity.interval_of(size);
            // A level that contains all keys is never merged into another level.
            if interval.is_finite() {
                let requests = interval + popularity.requests_of(next);
                stages.push((
                    ItemStage::Level(level as usize),
                    popularity.unique_of(requests) / interval,
                ));
                worst_case += (size + next) / size;
            }
            size = next;
        }
        Ok(WriteCosts {
            stages,
            worst_case,
            textbook: bounds::lsm(keys, self.log, growth)?,
        })
    }

    /// Estimates the write costs of a levelled LSM-tree. Each level is one table, which is full
    /// after r merges from the level above and is then merged into the next level as a whole.
    ///
    /// # Errors
    /// As [`lsm`](GeometricLevels::lsm).
    pub fn levelled(&self, popularity: &Popularity) -> Result<WriteCosts, BadParameter> {
        let growth = self.checked()?;
        let mut costs = self.merged(popularity, self.levels, |interval| {
            let merges = (0..self.growth).map(|before| {
                let requests = interval * (1.0 + f64::from(before));
                (popularity.unique_of(requests), requests)
            });
            sum(merges, interval * growth)
        });
        costs.textbook = bounds::levelled(popularity.keys(), self.log, growth)?;
        Ok(costs)
    }

    /// Estimates the write costs of a size-tiered LSM-tree. Every r tables of a level are merged
    /// into one table of the next level, and r tables of the last level into a table of all keys.
    /// This is a SAMT with one more level.
    ///
    /// # Errors
    /// As [`lsm`](GeometricLevels::lsm).
    pub fn tiered(&self, popularity: &Popularity) -> Result<WriteCosts, BadParameter> {
        self.in_tiers(popularity, self.levels + 1)
    }

    /// Estimates the write costs of COLA. A level accepts r − 1 merges from the level above, and
    /// the r-th merge continues into the next level.
    ///
    /// # Errors
    /// As [`lsm`](GeometricLevels::lsm).
    pub fn cola(&self, popularity: &Popularity) -> Result<WriteCosts, BadParameter> {
        let growth = self.checked()?;
        let mut costs = self.merged(popularity, self.levels, |interval| {
            let merges = (0..self.growth - 1).map(|before| {
                let requests = interval * (1.0 + f64::from(before));
                (popularity.unique_of(requests), requests)
            });
            sum(merges, interval * growth)
        });
        costs.textbook = bounds::cola(popularity.keys(), self.log, growth)?;
        Ok(costs)
    }

    /// Estimates the write costs of SAMT. Every r tables of a level are merged into one table of
    /// the next level. The last level is a single table of all keys.
    ///
    /// # Errors
    /// As [`lsm`](GeometricLevels::lsm).
    pub fn samt(&self, popularity: &Popularity) -> Result<WriteCosts, BadParameter> {
        self.in_tiers(popularity, self.levels)
    }

    fn in_tiers(&self, popularity: &Popularity, levels: u32) -> Result<WriteCosts, BadParameter> {
        let growth = self.checked()?;
        let mut costs = self.merged(popularity, levels, |interval| {
            (popularity.unique_of(interval) / interval, 1.0)
        });
        costs.textbook = bounds::tiered(popularity.keys(), self.log, growth)?;
        Ok(costs)
    }

    /// Estimates the write costs of levels that accept whole tables. For each level except the
    /// last, `writes` computes how many items the level writes per request, as an estimate and in
    /// the worst case, from the number of requests that fill one table. Each merge into the last
    /// level rewrites it.
    fn merged(&self, popularity: &Popularity, levels: u32, writes: impl Fn(f64) -> (f64, f64)) -> WriteCosts {
        let mut stages = vec![(ItemStage::Log, 1.0)];
        let mut worst_case = 1.0;
        let mut interval = self.log;
        for level in 1..levels {
            let (estimate, worst) = writes(interval);
            stages.push((ItemStage::Level(level as usize), estimate));
            worst_case += worst;
            interval *= f64::from(self.growth);
        }
        let last = popularity.keys() / interval;
        stages.push((ItemStage::Level(levels as usize), last));
        WriteCosts {
            stages,
            worst_case: worst_case + last,
            textbook: 0.0,
        }
    }

    /// Returns the growth factor, or an error if the shape is invalid.
    fn checked(&self) -> Result<f64, BadParameter> {
        positive("the log", self.log)?;
        let growth = f64::from(self.growth);
        let grows = (2..=MOST_GROWTH).contains(&self.growth);
        require("the growth factor", growth, grows, "from 2 to 65536")?;
        let levels = f64::from(self.levels);
        let some = (1..=MOST_LEVELS).contains(&self.levels);
        require("the number of levels", levels, some, "from 1 to 64")?;
        Ok(growth)
    }
}

/// Adds up the items that merges write, per request. Each pair is an estimate and the worst case.
fn sum(merges: impl Iterator<Item = (f64, f64)>, requests: f64) -> (f64, f64) {
    let (estimate, worst) = merges.fold((0.0, 0.0), |sum, merge| (sum.0 + merge.0, sum.1 + merge.1));
    (estimate / requests, worst / requests)
}
