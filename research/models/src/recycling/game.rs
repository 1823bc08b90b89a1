//! Simulation of the game: rates with confidence intervals (Conway §5.3).

use super::BinStrategy;
use super::bins::BinBoard;
use alluvium_model::parameter::{BadParameter, positive, require};
use alluvium_model::{AliasTable, SplitMix64};

/// A game of ball recycling.
///
/// ```
/// use research_models::recycling::{BinChoice, RecyclingGame};
/// let game = RecyclingGame::new(&[1.0; 100], 1000, BinChoice::GoldenGate)?;
/// let outcome = game.play(2_000, 20_000, 1)?;
/// assert!((outcome.rate - 2.0 * 1000.0 / 101.0).abs() < 0.1, "{outcome:?}");
/// # Ok::<(), alluvium_model::BadParameter>(())
/// ```
#[derive(Clone, Debug)]
pub struct RecyclingGame {
    weights: Vec<f64>,
    balls: usize,
    strategy: BinStrategy,
    bins: AliasTable,
}

/// The measurements of a simulated game.
#[derive(Clone, Debug, PartialEq)]
pub struct GameOutcome {
    /// The recycling rate: the mean number of balls taken per round.
    pub rate: f64,
    /// The half-width of the rate's 95 % confidence interval, computed from batch means.
    pub half_width: f64,
    /// The mean square of the balls taken per round, divided by the rate.
    pub second_moment: f64,
    /// For each bin, the fraction of rounds that chose it.
    pub chosen: Vec<f64>,
    /// For each bin, the mean number of balls taken when it was chosen; 0 if it was never chosen.
    pub taken: Vec<f64>,
}

/// The number of batches for an interval.
const BATCHES: u64 = 32;

/// Student's t for 31 degrees of freedom and 95 %.
const STUDENT: f64 = 2.0395;

impl RecyclingGame {
    /// Creates a game in which balls fall into bins in proportion to the bins' weights.
    ///
    /// # Errors
    /// [`BadParameter`] if a bin has no weight, there are no bins, the number of balls is 0 or at
    /// least 2^31, or the strategy keeps no bin or a nonexistent one.
    pub fn new(
        weights: &[f64],
        balls: usize,
        strategy: impl Into<BinStrategy>,
    ) -> Result<RecyclingGame, BadParameter> {
        for &weight in weights {
            positive("the weight of a bin", weight)?;
        }
        let countable = (1..1 << 31).contains(&balls);
        require("the balls", balls as f64, countable, "at least 1, and below 2^31")?;
        let strategy = strategy.into();
        if let Some(kept) = &strategy.kept {
            require("the kept bins", kept.len() as f64, !kept.is_empty(), "at least 1")?;
            for &bin in kept {
                require("a kept bin", bin as f64, bin < weights.len(), "one of the bins")?;
            }
        }
        let bins = AliasTable::new(weights)?;
        let sum: f64 = weights.iter().sum();
        Ok(RecyclingGame {
            weights: weights.iter().map(|weight| weight / sum).collect(),
            balls,
            strategy,
            bins,
        })
    }

    /// Returns the probability of each bin.
    #[must_use]
    pub fn probabilities(&self) -> &[f64] {
        &self.weights
    }

    /// Plays `warm_up` rounds that are not counted, then at least `rounds` counted rounds.
    ///
    /// # Errors
    /// [`BadParameter`] unless `rounds` is at least 32, the number of batches for an interval.
    pub fn play(&self, warm_up: u64, rounds: u64, seed: u64) -> Result<GameOutcome, BadParameter> {
        require("the rounds", rounds as f64, rounds >= BATCHES, "at least 32")?;
        let mut random = SplitMix64::from_seed(seed);
        let mut board = BinBoard::new(&self.weights, self.balls, &self.strategy);
        for _ in 0..self.balls {
            board.put(self.bins.draw(&mut random));
        }
        for _ in 0..warm_up {
            self.round(&mut board, &mut random);
        }
        let batch = rounds.div_ceil(BATCHES);
        let mut chosen = vec![0_u64; self.weights.len()];
        let mut taken = vec![0_u64; self.weights.len()];
        let (mut means, mut squares) = (Vec::new(), 0.0);
        for _ in 0..BATCHES {
            let mut sum = 0;
            for _ in 0..batch {
                let (bin, balls) = self.round(&mut board, &mut random);
                chosen[bin] += 1;
                taken[bin] += u64::from(balls);
                sum += u64::from(balls);
                squares += f64::from(balls).powi(2);
            }
            means.push(sum as f64 / batch as f64);
        }
        Ok(outcome(&means, squares, batch * BATCHES, &chosen, &taken))
    }

    /// Plays a round (R1), and returns the bin and the number of balls taken from it.
    fn round(&self, board: &mut BinBoard, random: &mut SplitMix64) -> (usize, u32) {
        let bin = board.choose(random);
        let balls = board.empty(bin);
        assert!(balls > 0, "R1: {bin} has balls");
        for _ in 0..balls {
            board.put(self.bins.draw(random));
        }
        (bin, balls)
    }
}

fn outcome(means: &[f64], squares: f64, rounds: u64, chosen: &[u64], taken: &[u64]) -> GameOutcome {
    let count = means.len() as f64;
    let rate = means.iter().sum::<f64>() / count;
    let spread: f64 = means.iter().map(|mean| (mean - rate).powi(2)).sum();
    let deviation = (spread / (count - 1.0) / count).sqrt();
    GameOutcome {
        rate,
        half_width: STUDENT * deviation,
        second_moment: squares / rounds as f64 / rate,
        chosen: chosen
            .iter()
            .map(|&chosen| chosen as f64 / rounds as f64)
            .collect(),
        taken: chosen
            .iter()
            .zip(taken)
            .map(|(&chosen, &taken)| {
                if chosen == 0 {
                    0.0
                } else {
                    taken as f64 / chosen as f64
                }
            })
            .collect(),
    }
}
