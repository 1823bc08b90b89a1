//! Sampling from a discrete distribution in constant time (Walker's alias method, in Vose's form).

use crate::SplitMix64;
use crate::parameter::{BadParameter, require};

/// A table for sampling indexes with probabilities proportional to their weights.
///
/// ```
/// use alluvium_model::{AliasTable, SplitMix64};
/// let dice = AliasTable::new(&[1.0, 0.0, 3.0])?;
/// let mut random = SplitMix64::from_seed(1);
/// let twos = (0..1000).filter(|_| dice.draw(&mut random) == 2).count();
/// assert!((700..800).contains(&twos));
/// # Ok::<(), alluvium_model::BadParameter>(())
/// ```
#[derive(Clone, Debug)]
pub struct AliasTable {
    /// For each column, the probability that a draw returns the column's own index, and the alias
    /// that it returns otherwise.
    columns: Vec<(f64, u32)>,
}

impl AliasTable {
    /// Creates a table for `weights`, which need not add up to 1.
    ///
    /// # Errors
    /// [`BadParameter`] if a weight is negative or not finite, if there are no weights, or if all
    /// weights are 0.
    pub fn new(weights: &[f64]) -> Result<AliasTable, BadParameter> {
        for &weight in weights {
            let finite = weight.is_finite() && weight >= 0.0;
            require("a weight", weight, finite, "finite, and not negative")?;
        }
        let sum: f64 = weights.iter().sum();
        require(
            "the sum of the weights",
            sum,
            sum.is_finite() && sum > 0.0,
            "positive",
        )?;
        let count = weights.len();
        let fits = u32::try_from(count).is_ok();
        require("the number of weights", count as f64, fits, "below 2^32")?;
        let mut columns: Vec<(f64, u32)> = weights
            .iter()
            .enumerate()
            .map(|(index, weight)| (weight / sum * count as f64, index as u32))
            .collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..count as u32).partition(|&index| columns[index as usize].0 < 1.0);
        while let (Some(less), Some(more)) = (small.pop(), large.last().copied()) {
            columns[less as usize].1 = more;
            let rest = columns[more as usize].0 - (1.0 - columns[less as usize].0);
            columns[more as usize].0 = rest;
            if rest < 1.0 {
                large.pop();
                small.push(more);
            }
        }
        // Only rounding makes the probabilities of the remaining columns differ from 1.
        for index in small.into_iter().chain(large) {
            columns[index as usize].0 = 1.0;
        }
        Ok(AliasTable { columns })
    }

    /// Returns a random index. The probability of each index is proportional to its weight.
    pub fn draw(&self, random: &mut SplitMix64) -> usize {
        // A single random number serves two purposes: its integer part selects the column, and its
        // fraction chooses between the column's own index and the alias.
        let at = random.unit() * self.columns.len() as f64;
        let column = (at as usize).min(self.columns.len() - 1);
        let (stays, instead) = self.columns[column];
        if at - (column as f64) < stays {
            column
        } else {
            instead as usize
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_drawn_in_proportion_to_their_weights() {
        let weights = [5.0, 0.0, 1.0, 0.25, 3.75, 10.0];
        let table = AliasTable::new(&weights).unwrap();
        let mut random = SplitMix64::from_seed(3);
        let mut drawn = [0.0; 6];
        for _ in 0..200_000 {
            drawn[table.draw(&mut random)] += 1.0 / 200_000.0;
        }
        for (drawn, weight) in drawn.into_iter().zip(weights) {
            assert!((drawn - weight / 20.0_f64).abs() < 0.004, "{drawn} of {weight}");
        }
    }

    #[test]
    fn weights_that_cannot_be_drawn_from_are_refused() {
        assert_eq!(AliasTable::new(&[]).unwrap_err().name, "the sum of the weights");
        assert_eq!(AliasTable::new(&[0.0, 0.0]).unwrap_err().must, "positive");
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(AliasTable::new(&[1.0, bad]).unwrap_err().name, "a weight");
        }
    }
}
