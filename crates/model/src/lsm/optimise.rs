//! Optimal sizes of LevelDB's levels (Lim §4.6).
//!
//! The log, the tables of level 0 and the number of levels are fixed, because they determine the
//! cost of reads. The search runs twice, over the logarithms of the sizes and over those of the
//! numbers of requests that fill the levels, and the better result wins.

use super::{LevelDb, WriteCosts};
use crate::Popularity;
use crate::minimum::{MinimumPoint, minimum};
use crate::parameter::BadParameter;

pub(super) const MOST_LEVELS: usize = 16;

/// Maximum size of a level other than the last one, as a fraction of all keys.
const MOST_SHARE: f64 = 0.9;

/// Minimum ratio of the size of a level to the size of the level above it.
const LEAST_GROWTH: f64 = 1.001;

/// Whether the model is valid at an optimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptimumTrust {
    /// The optimum is inside the range of sizes for which the model is valid.
    Inside,
    /// At the optimum, a level is as large as the last level, or no larger than the level above it,
    /// where the model is not valid. This happens with large write buffers.
    AtBound,
}

/// The shape that writes the fewest items per inserted item.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelDbOptimum {
    pub shape: LevelDb,
    pub costs: WriteCosts,
    pub evaluations: usize,
    pub trust: OptimumTrust,
}

impl LevelDb {
    /// Returns the shape whose level sizes minimise the write costs, with all other parameters as
    /// in this shape.
    ///
    /// ```
    /// use alluvium_model::Popularity;
    /// use alluvium_model::lsm::LevelDb;
    /// let keys = Popularity::uniform(100_000_000)?;
    /// let best = LevelDb::standard(keys.keys())?.optimise(&keys)?;
    /// assert!((best.costs.total() - 23.67).abs() < 0.01, "{}", best.costs.total());
    /// # Ok::<(), alluvium_model::BadParameter>(())
    /// ```
    ///
    /// # Errors
    /// As [`estimate`](LevelDb::estimate).
    pub fn optimise(&self, popularity: &Popularity) -> Result<LevelDbOptimum, BadParameter> {
        self.checked(popularity)?;
        let keys = popularity.keys();
        if self.sizes.is_empty() {
            return self.optimum(popularity, self.clone(), 1);
        }
        let mut evaluations = 0;
        let mut shape = self.clone();
        let mut total = |sizes: &mut dyn Iterator<Item = f64>| {
            shape.sizes.clear();
            shape.sizes.extend(sizes);
            if !within(&shape, keys) {
                return f64::INFINITY;
            }
            evaluations += 1;
            let writes = shape.stages(popularity).into_iter().map(|(_, writes)| writes);
            writes.sum::<f64>()
        };
        let mut best: Option<MinimumPoint> = None;
        let mut keep = |found: MinimumPoint| {
            if best.as_ref().is_none_or(|best| found.1 < best.1) {
                best = Some(found);
            }
        };
        for start in self.starts(keys) {
            let logarithms: Vec<f64> = start.iter().map(|size| size.ln()).collect();
            let found = minimum(&logarithms, 0.3, &mut |at: &[f64]| {
                total(&mut at.iter().map(|size| size.exp()))
            });
            keep((found.0.into_iter().map(f64::exp).collect(), found.1));
            // Search again, over the numbers of requests that fill the levels.
            let requests: Vec<f64> = start
                .iter()
                .map(|&size| popularity.requests_of(size).ln())
                .collect();
            let size = |at: &f64| popularity.unique_of(at.exp());
            let found = minimum(&requests, 0.3, &mut |at: &[f64]| total(&mut at.iter().map(size)));
            keep((found.0.iter().map(size).collect(), found.1));
        }
        let mut shape = self.clone();
        shape.sizes = best.map_or_else(|| self.sizes.clone(), |best| best.0);
        self.optimum(popularity, shape, evaluations)
    }

    fn optimum(
        &self,
        popularity: &Popularity,
        shape: LevelDb,
        evaluations: usize,
    ) -> Result<LevelDbOptimum, BadParameter> {
        let mut sizes = vec![self.log];
        sizes.extend(&shape.sizes);
        let close = sizes.windows(2).any(|pair| pair[1] < pair[0] * 1.05);
        let full = shape
            .sizes
            .last()
            .is_some_and(|&size| size > 0.95 * MOST_SHARE * popularity.keys());
        Ok(LevelDbOptimum {
            costs: shape.estimate(popularity)?,
            trust: if close || full {
                OptimumTrust::AtBound
            } else {
                OptimumTrust::Inside
            },
            shape,
            evaluations,
        })
    }

    /// Returns the starting points of the search: the sizes of this shape, if they are in the
    /// search space, and two sets of sizes that grow by a constant factor to the number of keys,
    /// one from the size of the log and one from four times that size.
    fn starts(&self, keys: f64) -> Vec<Vec<f64>> {
        let mut starts = Vec::new();
        if within(self, keys) {
            starts.push(self.sizes.clone());
        }
        for first in [1.0, 4.0] {
            let first = (self.log * first).min(keys / 4.0);
            let growth = (keys / first).powf(1.0 / (self.levels() + 1) as f64);
            let size = |level: usize| first * growth.powi(level as i32 + 1);
            let mut shape = self.clone();
            shape.sizes = (0..self.sizes.len()).map(size).collect();
            if within(&shape, keys) {
                starts.push(shape.sizes);
            }
        }
        starts
    }
}

/// Returns whether the level sizes of a shape are in the search space.
fn within(shape: &LevelDb, keys: f64) -> bool {
    let mut above = shape.log;
    let grows = shape.sizes.iter().all(|&size| {
        let grows = size >= above * LEAST_GROWTH;
        above = size;
        grows
    });
    grows && above <= MOST_SHARE * keys
}
