//! What samples of requests say of a workload: how skewed they are.

use crate::Popularity;
use crate::parameter::{BadParameter, require};

/// The most skew that is told apart from more.
const MOST_SKEW: f64 = 3.0;
/// Halvings of the interval in which the skew lies.
const STEPS: usize = 30;

/// Returns the exponent of Zipf's law for which as many pairs of requests are expected to be for
/// the same key as were found: `same` of all pairs of `samples` independent requests, over `keys`
/// keys. Zero where they are no more than among uniform requests.
///
/// The chance that two requests are for one key is the sum of the squares of popularity; it grows
/// with skew. A few thousand samples tell 0.7 from 0.9, and nothing from uniform below 0.5.
///
/// ```
/// use alluvium_model::{Popularity, Random, observed};
/// let requests = Popularity::zipf(1_000_000, 0.99)?.requests()?;
/// let mut random = Random::from_seed(1);
/// let hashes: Vec<u64> = (0..4096).map(|_| requests.draw(&mut random) as u64).collect();
/// let found = observed::skew(observed::pairs(&hashes), 4096, 1_000_000)?;
/// assert!((found - 0.99).abs() < 0.05, "{found}");
/// # Ok::<(), alluvium_model::BadParameter>(())
/// ```
///
/// # Errors
/// [`BadParameter`] if there are fewer than two keys or samples, or more pairs than there can be.
pub fn skew(same: u64, samples: u64, keys: u64) -> Result<f64, BadParameter> {
    require("the samples", samples as f64, samples >= 2, "at least 2")?;
    let all = samples as f64 * (samples as f64 - 1.0) / 2.0;
    let found = same as f64;
    require("the pairs", found, found <= all, "at most those of the samples")?;
    let expected = |skew: f64| {
        let popularity = Popularity::zipf(keys, skew);
        popularity.map(|popularity| all * popularity.sum_of_squares())
    };
    if found <= expected(0.0)? {
        return Ok(0.0);
    }
    let (mut low, mut high) = (0.0, MOST_SKEW);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        // Beyond some skew the last keys have no requests at all.
        match expected(middle) {
            Ok(pairs) if pairs <= found => low = middle,
            _ => high = middle,
        }
    }
    Ok(f64::midpoint(low, high))
}

/// Returns how many pairs of requests are for the same key, given a hash of each request's.
#[must_use]
pub fn pairs(hashes: &[u64]) -> u64 {
    let mut sorted = hashes.to_vec();
    sorted.sort_unstable();
    let same = sorted.chunk_by(|one, other| one == other);
    same.map(|run| run.len() as u64 * (run.len() as u64 - 1) / 2)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    fn of(keys: u64, skew_of_all: f64, seed: u64) -> f64 {
        let popularity = Popularity::zipf(keys, skew_of_all).unwrap();
        let requests = popularity.requests().unwrap();
        let mut random = Random::from_seed(seed);
        let hashes: Vec<u64> = (0..4096).map(|_| requests.draw(&mut random) as u64).collect();
        skew(pairs(&hashes), 4096, keys).unwrap()
    }

    #[test]
    fn the_skew_of_samples_is_found_again() {
        for (keys, skew) in [
            (10_000, 0.6),
            (1_000_000, 0.8),
            (100_000_000, 0.99),
            (1_000_000, 1.2),
        ] {
            for seed in 0..3 {
                let found = of(keys, skew, seed);
                assert!((found - skew).abs() < 0.08, "{keys} {skew}: {found}");
            }
        }
        assert!(of(1_000_000, 0.0, 1) < 0.6, "{}", of(1_000_000, 0.0, 1));
    }

    #[test]
    fn samples_that_are_none_are_refused_by_name() {
        assert_eq!(pairs(&[1, 2, 1, 1]), 3);
        assert_eq!(skew(0, 1, 10).unwrap_err().name, "the samples");
        assert_eq!(skew(7, 4, 10).unwrap_err().name, "the pairs");
        assert_eq!(skew(1, 4, 0).unwrap_err().name, "the number of keys");
        assert!(skew(6, 4, 10).unwrap() > 2.9, "all for one key");
    }
}
