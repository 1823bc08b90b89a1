//! Builds popularity distributions: uniform, Zipf, or from measured request counts.

use super::{KeyGroup, Popularity};
use crate::parameter::{BadParameter, at_least, positive, require};
use std::collections::HashMap;
use std::hash::Hash;

/// Number of most popular Zipf ranks that form groups of one key.
const APART: u64 = 50;

/// Maximum ratio within a group: for measured counts, of the first key's popularity to the last
/// key's, and for Zipf, of the last rank to the first. Smaller groups would not change the first
/// four digits of any write amplification.
const RATIO: f64 = 1.02;

/// Maximum number of terms of a sum that are added one by one. A longer sum is approximated.
const TERMS: u64 = 16;

impl Popularity {
    /// Returns a distribution of equally popular keys.
    ///
    /// # Errors
    /// [`BadParameter`] if there are fewer than two keys.
    pub fn uniform(keys: u64) -> Result<Popularity, BadParameter> {
        let keys = number_of(keys)?;
        Ok(Popularity {
            groups: vec![KeyGroup::new(keys, 1.0 / keys)],
            keys,
        })
    }

    /// Returns a Zipf distribution: the probability of the key of rank i is proportional to
    /// i^(−`skew`). A skew of 0 results in a uniform distribution. Publications that state no skew
    /// for "Zipf" use 0.99.
    ///
    /// # Errors
    /// [`BadParameter`] if there are fewer than two keys, if the skew is negative or not finite, or
    /// if it is so large that the first key receives all requests.
    pub fn zipf(keys: u64, skew: f64) -> Result<Popularity, BadParameter> {
        Popularity::zipf_in_groups(keys, skew, RATIO)
    }

    /// Returns a Zipf distribution like [`zipf`](Popularity::zipf), in groups whose last rank is at
    /// most `ratio` times the first.
    pub(super) fn zipf_in_groups(keys: u64, skew: f64, ratio: f64) -> Result<Popularity, BadParameter> {
        number_of(keys)?;
        at_least("the skew", skew, 0.0, "finite, and not negative")?;
        if skew == 0.0 {
            return Popularity::uniform(keys);
        }
        let mut ranges = Vec::new();
        let mut start = 1;
        while start <= keys {
            let end = if start <= APART {
                start + 1
            } else {
                ((start as f64 * ratio) as u64).max(start + 1)
            };
            let end = end.min(keys + 1);
            ranges.push((end - start, sum_of_powers(start, end, skew)));
            start = end;
        }
        let all: f64 = ranges.iter().map(|&(_, weight)| weight).sum();
        let last = ranges
            .last()
            .map_or(0.0, |&(keys, weight)| weight / all / keys as f64);
        let first = ranges[0].1 / all;
        let spread = first < 1.0 && last > 0.0;
        require(
            "the skew",
            skew,
            spread,
            "small enough that every key has requests",
        )?;
        Ok(Popularity::from_groups(
            ranges
                .into_iter()
                .map(|(keys, weight)| KeyGroup::new(keys as f64, weight / all / keys as f64))
                .collect(),
        ))
    }

    /// Returns the popularity distribution that results from measured request counts, one per key.
    ///
    /// # Errors
    /// [`BadParameter`] if there are fewer than two keys, or if a count is zero. Omit keys without
    /// requests, because their popularity is unknown.
    pub fn measured(counts: impl IntoIterator<Item = u64>) -> Result<Popularity, BadParameter> {
        let mut counts: Vec<u64> = counts.into_iter().collect();
        number_of(counts.len() as u64)?;
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let all: f64 = counts.iter().map(|&count| count as f64).sum();
        let mut groups = Vec::new();
        let mut start = 0;
        while let Some(&most) = counts.get(start) {
            require("the requests of a key", most as f64, most > 0, "at least 1")?;
            let least = most as f64 / RATIO;
            let keys = counts[start..].partition_point(|&count| count as f64 >= least);
            let requests: f64 = counts[start..start + keys]
                .iter()
                .map(|&count| count as f64)
                .sum();
            groups.push(KeyGroup::new(keys as f64, requests / all / keys as f64));
            start += keys;
        }
        Ok(Popularity::from_groups(groups))
    }

    /// Returns a distribution in which the popularity of each key is proportional to its weight.
    /// Only keys with equal weights form groups.
    ///
    /// # Errors
    /// [`BadParameter`] if there are fewer than two weights, or if one is not positive and finite.
    pub fn weighted(weights: &[f64]) -> Result<Popularity, BadParameter> {
        number_of(weights.len() as u64)?;
        for &weight in weights {
            positive("a weight", weight)?;
        }
        let mut sorted = weights.to_vec();
        sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        let sum: f64 = sorted.iter().sum();
        require("the sum of the weights", sum, sum.is_finite(), "finite")?;
        let spread = sorted[0] / sum < 1.0;
        require(
            "the largest weight",
            sorted[0],
            spread,
            "less than the sum of the weights",
        )?;
        let groups = sorted.chunk_by(|a, b| a == b);
        Ok(Popularity::from_groups(
            groups
                .map(|group| KeyGroup::new(group.len() as f64, group[0] / sum))
                .collect(),
        ))
    }

    /// Returns the popularity distribution of the keys in a trace of requests.
    ///
    /// # Errors
    /// [`BadParameter`] if the trace has fewer than two distinct keys.
    ///
    /// ```
    /// use alluvium_model::Popularity;
    /// let seen = Popularity::of_requests(["a", "b", "a", "c"])?;
    /// assert_eq!(seen.keys(), 3.0);
    /// assert_eq!(seen.groups()[0].probability, 0.5);
    /// # Ok::<(), alluvium_model::BadParameter>(())
    /// ```
    pub fn of_requests<K: Hash + Eq>(
        requests: impl IntoIterator<Item = K>,
    ) -> Result<Popularity, BadParameter> {
        let mut counts: HashMap<K, u64> = HashMap::new();
        for key in requests {
            *counts.entry(key).or_default() += 1;
        }
        Popularity::measured(counts.into_values())
    }

    fn from_groups(groups: Vec<KeyGroup>) -> Popularity {
        let sum: f64 = groups.iter().map(|group| group.keys * group.probability).sum();
        assert!((sum - 1.0).abs() < 1e-9, "U1: probabilities add up to {sum}");
        let keys = groups.iter().map(|group| group.keys).sum();
        Popularity { groups, keys }
    }
}

fn number_of(keys: u64) -> Result<f64, BadParameter> {
    require("the number of keys", keys as f64, keys >= 2, "at least 2")
}

/// Returns the sum of i^(−skew) for i from `start` (inclusive) to `end` (exclusive). A long sum is
/// approximated by an integral with the first Euler–Maclaurin corrections.
fn sum_of_powers(start: u64, end: u64, skew: f64) -> f64 {
    if end - start <= TERMS {
        return (start..end).map(|rank| (rank as f64).powf(-skew)).sum();
    }
    let (low, high) = (start as f64, end as f64);
    let power = |rank: f64| rank.powf(-skew);
    let slope = |rank: f64| -skew * rank.powf(-skew - 1.0);
    // The integral of x^(−s) from `low` to `high`, in a form that stays precise when s is close to
    // 1.
    let grown = (high / low).ln();
    let integral = if (skew - 1.0).abs() < 1e-12 {
        grown
    } else {
        low.powf(1.0 - skew) * ((1.0 - skew) * grown).exp_m1() / (1.0 - skew)
    };
    integral + (power(low) - power(high)) / 2.0 + (slope(high) - slope(low)) / 12.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sums_are_those_of_single_terms() {
        for skew in [0.3, 0.99, 1.0, 1.4, 3.0] {
            for (start, end) in [(51, 68), (1000, 1020), (60, 9000)] {
                let plain: f64 = (start..end).map(|rank| (rank as f64).powf(-skew)).sum();
                let found = sum_of_powers(start, end, skew);
                assert!(
                    (found / plain - 1.0).abs() < 1e-7,
                    "{skew} {start}: {found} {plain}"
                );
            }
        }
    }
}
