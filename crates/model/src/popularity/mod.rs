//! The popularity of keys, and the number of distinct keys among requests (Lim §4.2).
//!
//! *Scope*: uniform, Zipf and measured popularity distributions, compressed to groups of keys with
//! nearly equal popularity; the source's function `Unique`, its inverse, its function `Merge`, and
//! the interval of a cursor.
//!
//! *Must not depend on*: structures that store keys, and their writes.
//!
//! Source: Lim, "Resource-Efficient Data-Intensive System Designs for High Performance and
//! Capacity", 2015, §4.2; cited below as *Lim*.
//!
//! Invariants:
//!
//! - **U1** Each key's probability is above 0 and below 1, and all probabilities add up to 1.
//! - **U2** `unique` and `unique_inverse` are inverses of each other, and both are strictly
//!   increasing.

mod build;
mod solve;
#[cfg(test)]
mod tests;
mod unique;

use crate::SplitMix64;
use crate::{AliasTable, BadParameter};

/// The popularity distribution of a store's keys. The key of each request is sampled from it
/// independently.
///
/// ```
/// use alluvium_model::Popularity;
/// let skewed = Popularity::zipf(100_000_000, 0.99)?;
/// // A table of 10 million keys merged into one of 90 million: most keys are in both.
/// let merged = skewed.merge(1e7, 9e7)?;
/// assert!((merged / 9.034e7 - 1.0).abs() < 1e-3);
/// # Ok::<(), alluvium_model::BadParameter>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Popularity {
    /// Groups of keys, in descending order of popularity.
    groups: Vec<KeyGroup>,
    keys: f64,
}

/// A group of keys with the same request probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyGroup {
    pub keys: f64,
    /// Probability that a request is for a given key of the group.
    pub probability: f64,
    /// −ln(1 − probability). A given key is absent from p requests with the probability e^(−rate ·
    /// p).
    rate: f64,
}

impl KeyGroup {
    fn new(keys: f64, probability: f64) -> KeyGroup {
        KeyGroup {
            keys,
            probability,
            rate: -(-probability).ln_1p(),
        }
    }
}

impl Popularity {
    /// Returns the number of keys.
    #[must_use]
    pub fn keys(&self) -> f64 {
        self.keys
    }

    /// Returns the groups, most popular first.
    #[must_use]
    pub fn groups(&self) -> &[KeyGroup] {
        &self.groups
    }

    /// Returns the probability that two requests are for the same key.
    #[must_use]
    pub fn sum_of_squares(&self) -> f64 {
        let squares = self
            .groups
            .iter()
            .map(|group| group.keys * group.probability.powi(2));
        squares.sum()
    }

    /// Returns (Σ √p)² over the probabilities p of all keys. This is the number of keys if
    /// popularity is uniform, and less with skew.
    #[must_use]
    pub fn half_norm(&self) -> f64 {
        let roots = self
            .groups
            .iter()
            .map(|group| group.keys * group.probability.sqrt());
        roots.sum::<f64>().powi(2)
    }

    /// Returns a generator of random requests, each represented by the rank of its key. Rank 0 is
    /// the most popular key.
    ///
    /// # Errors
    /// [`BadParameter`] if there are more groups than a table of weights supports.
    pub fn requests(&self) -> Result<RequestGenerator, BadParameter> {
        let weights: Vec<f64> = self
            .groups
            .iter()
            .map(|group| group.keys * group.probability)
            .collect();
        let mut start = 0;
        let mut ranges = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            let keys = group.keys as usize;
            ranges.push((start, keys));
            start += keys;
        }
        Ok(RequestGenerator {
            group: AliasTable::new(&weights)?,
            ranges,
        })
    }
}

/// Generates random requests with a given popularity distribution.
#[derive(Clone, Debug)]
pub struct RequestGenerator {
    group: AliasTable,
    /// The first rank of each group, and the number of ranks in it.
    ranges: Vec<(usize, usize)>,
}

impl RequestGenerator {
    /// Returns the rank of the key of a random request.
    pub fn draw(&self, random: &mut SplitMix64) -> usize {
        let (start, keys) = self.ranges[self.group.draw(random)];
        if keys == 1 {
            start
        } else {
            start + random.below(keys)
        }
    }
}
