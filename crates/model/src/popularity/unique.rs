//! The source's functions `Unique` and `Merge`, the inverse of `Unique`, and the interval of a
//! cursor (Lim §4.2.2 and §4.3).

use super::solve::{CurvePoint, solve};
use super::{KeyGroup, Popularity};
use crate::parameter::{BadParameter, at_least, require};

impl Popularity {
    /// Returns the expected number of distinct keys among `requests` requests (Lim, Theorem 4.1).
    /// For an infinite number of requests, the result is the number of all keys.
    ///
    /// # Errors
    /// [`BadParameter`] if the number of requests is negative or not a number.
    pub fn unique(&self, requests: f64) -> Result<f64, BadParameter> {
        require("the requests", requests, requests >= 0.0, "at least 0")?;
        Ok(self.unique_of(requests))
    }

    /// Returns the number of requests with an expected number of `unique` distinct keys (Lim, Lemma
    /// 4.2). The result is infinite if `unique` is the number of all keys.
    ///
    /// # Errors
    /// [`BadParameter`] if `unique` is negative or exceeds the number of keys.
    pub fn unique_inverse(&self, unique: f64) -> Result<f64, BadParameter> {
        Ok(self.requests_of(self.size("the different keys", unique)?))
    }

    /// Returns the expected size of the merge of two tables with the given sizes, each of which
    /// contains the keys of independent requests (Lim, Theorem 4.3).
    ///
    /// # Errors
    /// [`BadParameter`] if a size is negative or exceeds the number of keys.
    pub fn merge(&self, one: f64, other: f64) -> Result<f64, BadParameter> {
        let one = self.size("the first table", one)?;
        let other = self.size("the second table", other)?;
        Ok(self.unique_of(self.requests_of(one) + self.requests_of(other)))
    }

    /// Returns the number of requests that reach a level of `size` keys while the level's cursor
    /// makes one round (`DInterval`; Lim, Theorem 4.4 and Lemma 4.5).
    ///
    /// The cursor removes the keys at its position from the level, so a part of the level is fuller
    /// the longer ago the cursor passed it. The size of the level is the mean of `unique` over one
    /// round.
    ///
    /// ```
    /// use alluvium_model::Popularity;
    /// let uniform = Popularity::uniform(100_000_000)?;
    /// let size = 10.0 * 1_048_576.0;
    /// assert_eq!((uniform.cursor_interval(size)? / 1e5).round(), 226.0);
    /// assert_eq!((uniform.unique_inverse(size)? / 1e5).round(), 111.0);
    /// # Ok::<(), alluvium_model::BadParameter>(())
    /// ```
    ///
    /// # Errors
    /// [`BadParameter`] if the size is negative or exceeds the number of keys.
    pub fn cursor_interval(&self, size: f64) -> Result<f64, BadParameter> {
        Ok(self.interval_of(self.size("the level", size)?))
    }

    /// Returns the fraction of keys that a level contains at the distance `behind` from the cursor.
    /// Distances are in rounds: 0 is the cursor's position, and 1 is one round behind it (Lim,
    /// Theorem 4.4).
    ///
    /// # Errors
    /// The errors of [`cursor_interval`](Popularity::cursor_interval); [`BadParameter`] unless the
    /// distance is between 0 and 1.
    pub fn density(&self, size: f64, behind: f64) -> Result<f64, BadParameter> {
        at_least("the distance", behind, 0.0, "from 0 to 1")?;
        require("the distance", behind, behind <= 1.0, "from 0 to 1")?;
        let interval = self.cursor_interval(size)?;
        // A level is empty at its cursor, even if the cursor never completes a round.
        let requests = if behind == 0.0 { 0.0 } else { interval * behind };
        Ok(self.unique_of(requests) / self.keys)
    }

    fn size(&self, name: &'static str, size: f64) -> Result<f64, BadParameter> {
        let fits = size >= 0.0 && size <= self.keys;
        require(name, size, fits, "at least 0, and at most the number of keys")
    }

    pub(crate) fn unique_of(&self, requests: f64) -> f64 {
        let there = |group: &KeyGroup| -group.keys * (-group.rate * requests).exp_m1();
        self.groups.iter().map(there).sum()
    }

    pub(crate) fn requests_of(&self, unique: f64) -> f64 {
        solve(self.keys, unique, |requests| {
            self.point(requests, |group, at| {
                let missing = (-group.rate * at).exp();
                (-(-group.rate * at).exp_m1(), missing, group.rate * missing)
            })
        })
    }

    pub(crate) fn interval_of(&self, size: f64) -> f64 {
        solve(self.keys, size, |interval| {
            self.point(interval, |group, at| {
                let (there, slope) = mean_of_round(group.rate * at);
                (there, 1.0 - there, group.rate * slope)
            })
        })
    }

    /// Adds up a curve over all keys: the number present, the number missing, and the slope.
    fn point(&self, at: f64, of: impl Fn(&KeyGroup, f64) -> (f64, f64, f64)) -> CurvePoint {
        let mut sum = CurvePoint {
            there: 0.0,
            missing: 0.0,
            slope: 0.0,
        };
        for group in &self.groups {
            let (there, missing, slope) = of(group, at);
            sum.there += group.keys * there;
            sum.missing += group.keys * missing;
            sum.slope += group.keys * slope;
        }
        sum
    }
}

/// Returns the mean of 1 − e^(−x·t) over t from 0 to 1, and its derivative with respect to x.
fn mean_of_round(x: f64) -> (f64, f64) {
    if x < 0.01 {
        // For small x, use the Taylor series, because the closed form would subtract nearly equal
        // numbers.
        let mean = x * (1.0 / 2.0 - x * (1.0 / 6.0 - x * (1.0 / 24.0 - x / 120.0)));
        let slope = 1.0 / 2.0 - x * (1.0 / 3.0 - x * (1.0 / 8.0 - x / 30.0));
        return (mean, slope);
    }
    let missing = (-x).exp();
    let lost = -(-x).exp_m1();
    (1.0 - lost / x, (lost - x * missing) / (x * x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_of_a_round_is_that_of_its_mean() {
        for x in [1e-6, 0.003, 0.009_9, 0.010_1, 0.5, 3.0, 40.0] {
            let step = x * 1e-4;
            let (above, below) = (mean_of_round(x + step).0, mean_of_round(x - step).0);
            let (mean, slope) = mean_of_round(x);
            let wanted = (above - below) / (2.0 * step);
            assert!((slope / wanted - 1.0).abs() < 1e-6, "{x}: {slope}, not {wanted}");
            assert!(below < mean && mean < above, "{x}");
        }
    }
}
