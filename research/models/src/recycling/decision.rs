//! Exact solutions of small games: the best rate of any strategy, and the exact rates of given
//! strategies (Conway §5.3, a Markov decision process).

use super::BinChoice;
use alluvium_model::parameter::{BadParameter, positive, require};
use std::collections::HashMap;

/// A game with all of its states enumerated.
///
/// ```
/// use research_models::recycling::{BinChoice, DecisionProcess};
/// let game = DecisionProcess::new(&[0.7, 0.2, 0.1], 3)?;
/// let best = game.best();
/// assert!(best > game.rate(BinChoice::FullestBin) && best < 3.0);
/// # Ok::<(), alluvium_model::BadParameter>(())
/// ```
#[derive(Clone, Debug)]
pub struct DecisionProcess {
    probabilities: Vec<f64>,
    balls: usize,
    /// The number of balls in each bin, for all states in which at most all balls are in bins.
    /// States with fewer balls come later.
    states: Vec<Vec<u8>>,
    /// For each state, the state with one more ball in a bin; none if all balls are in bins.
    with_ball: Vec<Vec<usize>>,
    /// For each state with all balls in bins, the state with a bin emptied.
    emptied: Vec<Vec<usize>>,
}

/// The maximum number of states in a game.
const MOST_STATES: f64 = 50_000.0;

/// The iteration ends when the bounds of the rate are this close.
const CLOSE: f64 = 1e-11;

impl DecisionProcess {
    /// Enumerates the states of a game.
    ///
    /// # Errors
    /// [`BadParameter`] if a bin has no weight, there are no balls or no bins, or there are too
    /// many states.
    pub fn new(weights: &[f64], balls: usize) -> Result<DecisionProcess, BadParameter> {
        for &weight in weights {
            positive("the weight of a bin", weight)?;
        }
        require(
            "the bins",
            weights.len() as f64,
            !weights.is_empty(),
            "at least 1",
        )?;
        require(
            "the balls",
            balls as f64,
            (1..256).contains(&balls),
            "from 1 to 255",
        )?;
        let bins = weights.len();
        let mut count = 1.0;
        for bin in 1..=bins {
            count *= (balls + bin) as f64 / bin as f64;
        }
        require(
            "the states",
            count,
            count <= MOST_STATES,
            "at most 50000: take fewer balls or bins",
        )?;
        let mut states = Vec::new();
        for lying in (0..=balls).rev() {
            fill(&mut vec![0; bins], 0, lying, &mut states);
        }
        let number: HashMap<&[u8], usize> = states
            .iter()
            .enumerate()
            .map(|(at, state)| (state.as_slice(), at))
            .collect();
        let lying = |state: &[u8]| state.iter().map(|&count| usize::from(count)).sum::<usize>();
        let each = |state: &[u8], change: fn(u8) -> u8| -> Vec<usize> {
            let mut changed = state.to_vec();
            (0..bins)
                .map(|bin| {
                    changed[bin] = change(state[bin]);
                    let found = number[changed.as_slice()];
                    changed[bin] = state[bin];
                    found
                })
                .collect()
        };
        let (mut with_ball, mut emptied) = (Vec::new(), Vec::new());
        for state in &states {
            if lying(state) == balls {
                emptied.push(each(state, |_| 0));
                with_ball.push(Vec::new());
            } else {
                with_ball.push(each(state, |count| count + 1));
            }
        }
        let sum: f64 = weights.iter().sum();
        Ok(DecisionProcess {
            probabilities: weights.iter().map(|weight| weight / sum).collect(),
            balls,
            states,
            with_ball,
            emptied,
        })
    }

    /// Returns the rate of the best strategy.
    #[must_use]
    pub fn best(&self) -> f64 {
        self.solve(1, |state, _, after| {
            let worth = |(bin, &count): (usize, &u8)| f64::from(count) + after[0][self.emptied[state][bin]];
            let filled = self.states[state]
                .iter()
                .enumerate()
                .filter(|(_, count)| **count > 0);
            filled.map(worth).fold(f64::NEG_INFINITY, f64::max)
        })
    }

    /// Returns the exact rate of a strategy.
    #[must_use]
    pub fn rate(&self, choice: BinChoice) -> f64 {
        let bins = self.probabilities.len();
        let worth = |state: usize, bin: usize, after: &[f64]| {
            f64::from(self.states[state][bin]) + after[self.emptied[state][bin]]
        };
        match choice {
            BinChoice::FullestBin => self.solve(1, |state, _, after| {
                let counts = &self.states[state];
                let most = counts.iter().max();
                let bin = counts.iter().position(|count| Some(count) == most);
                worth(state, bin.expect("there are bins"), &after[0])
            }),
            BinChoice::RandomBall => self.solve(1, |state, _, after| {
                let each = |bin| {
                    let share = f64::from(self.states[state][bin]) / self.balls as f64;
                    if share == 0.0 {
                        0.0
                    } else {
                        share * worth(state, bin, &after[0])
                    }
                };
                (0..bins).map(each).sum()
            }),
            // The position of the gate is part of the state.
            BinChoice::GoldenGate => self.solve(bins, |state, gate, after| {
                let next = (gate..gate + bins).map(|bin| bin % bins);
                let bin = next.into_iter().find(|&bin| self.states[state][bin] > 0);
                let bin = bin.expect("R1: a bin has balls");
                worth(state, bin, &after[(bin + 1) % bins])
            }),
        }
    }

    /// Returns the mean reward per round. The function iterates the relative values of the
    /// states, for each of `copies` of them, until the bounds of Odoni meet. `step` returns the
    /// value of a state, given the values of all states once balls have been thrown.
    fn solve(&self, copies: usize, step: impl Fn(usize, usize, &[Vec<f64>]) -> f64) -> f64 {
        let full = self.emptied.len();
        let mut values = vec![vec![0.0; self.states.len()]; copies];
        loop {
            for values in &mut values {
                // The value of a state with fewer balls is its expected value after the next
                // throw.
                for state in full..self.states.len() {
                    let next = self.with_ball[state].iter().zip(&self.probabilities);
                    values[state] = next.map(|(&next, probability)| probability * values[next]).sum();
                }
            }
            let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
            let mut improved = values.clone();
            for (copy, improved) in improved.iter_mut().enumerate() {
                for (state, value) in improved.iter_mut().enumerate().take(full) {
                    let gain = step(state, copy, &values) - *value;
                    (least, most) = (least.min(gain), most.max(gain));
                    // The half step is needed because iteration over a periodic chain would not
                    // converge.
                    *value += gain / 2.0;
                }
            }
            let base = improved[0][0];
            for value in improved.iter_mut().flat_map(|values| &mut values[..full]) {
                *value -= base;
            }
            values = improved;
            if most - least < CLOSE {
                return f64::midpoint(least, most);
            }
        }
    }
}

/// Lists all distributions of `balls` balls over the bins from `bin` on.
fn fill(state: &mut Vec<u8>, bin: usize, balls: usize, states: &mut Vec<Vec<u8>>) {
    if bin + 1 == state.len() {
        state[bin] = balls as u8;
        states.push(state.clone());
        return;
    }
    for here in 0..=balls {
        state[bin] = here as u8;
        fill(state, bin + 1, balls - here, states);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_alike_bins_and_two_balls_are_solved_by_hand() {
        let game = DecisionProcess::new(&[1.0, 1.0], 2).unwrap();
        // From (2, 0) both balls are thrown: (1, 1) with 1/2. From (1, 1) one is: (1, 1) with
        // 1/2. So half of the rounds take one ball, whatever the strategy.
        for rate in [
            game.best(),
            game.rate(BinChoice::FullestBin),
            game.rate(BinChoice::RandomBall),
            game.rate(BinChoice::GoldenGate),
        ] {
            assert!((rate - 1.5).abs() < 1e-9, "{rate}");
        }
        assert!((DecisionProcess::new(&[3.0], 4).unwrap().best() - 4.0).abs() < 1e-9);
        assert!((DecisionProcess::new(&[0.2, 0.8], 1).unwrap().best() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn games_that_are_none_or_too_large_are_refused_by_name() {
        assert_eq!(DecisionProcess::new(&[], 1).unwrap_err().name, "the bins");
        assert_eq!(DecisionProcess::new(&[1.0], 0).unwrap_err().name, "the balls");
        assert_eq!(
            DecisionProcess::new(&[1.0, 0.0], 1).unwrap_err().name,
            "the weight of a bin"
        );
        assert_eq!(
            DecisionProcess::new(&[1.0; 20], 20).unwrap_err().name,
            "the states"
        );
    }
}
