//! Estimates a workload's properties, such as its skew, from a sample of its requests.

use crate::Popularity;
use crate::parameter::{BadParameter, require};

/// Maximum skew that the estimate can return.
const MOST_SKEW: f64 = 3.0;
/// Number of bisection steps of the search for the skew.
const STEPS: usize = 30;

/// Estimates the skew of requests: the exponent of a Zipf distribution. `same` is how many of all
/// pairs of `samples` independent requests to `keys` keys are for the same key. The result is the
/// exponent for which that is the expected number of pairs. It is zero if uniform requests would
/// have at least as many.
///
/// The probability that two requests are for the same key is the sum of the squared popularities,
/// which increases with the skew. A few thousand samples are enough to tell a skew of 0.7 from one
/// of 0.9, but not to tell skews below 0.5 from uniform requests.
///
/// ```
/// use alluvium_model::{Popularity, SplitMix64, observed};
/// let requests = Popularity::zipf(1_000_000, 0.99)?.requests()?;
/// let mut random = SplitMix64::from_seed(1);
/// let hashes: Vec<u64> = (0..4096).map(|_| requests.draw(&mut random) as u64).collect();
/// let found = observed::skew(observed::pairs(&hashes), 4096, 1_000_000)?;
/// assert!((found - 0.99).abs() < 0.05, "{found}");
/// # Ok::<(), alluvium_model::BadParameter>(())
/// ```
///
/// # Errors
/// [`BadParameter`] if there are fewer than two keys or samples, or if `same` exceeds the number of
/// all pairs.
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
        // If the skew is too large, the probabilities of the rarest keys underflow to zero.
        match expected(middle) {
            Ok(pairs) if pairs <= found => low = middle,
            _ => high = middle,
        }
    }
    Ok(f64::midpoint(low, high))
}

/// Returns the number of pairs of requests whose keys have equal hashes.
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
    use crate::SplitMix64;

    fn of(keys: u64, skew_of_all: f64, seed: u64) -> f64 {
        let popularity = Popularity::zipf(keys, skew_of_all).unwrap();
        let requests = popularity.requests().unwrap();
        let mut random = SplitMix64::from_seed(seed);
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
