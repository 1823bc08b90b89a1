//! Ball recycling: the number of buffered items that a leaf flush writes (Conway §5).
//!
//! *Scope*: the game of balls and bins, strategies that choose a bin, bounds and estimates of
//! their rates, the best strategy for small games, and insertion buffers over splitting leaves.
//!
//! *Must not depend on*: buffers and trees of a store. A ball is a buffered item, a bin is a leaf
//! on the device, and a rate of R means that each leaf write inserts R items.
//!
//! Source: *Conway* §5. Theorem 6 uses the bins of lowest weight, which is a misprint; this
//! module uses the heaviest.
//!
//! Invariants:
//!
//! - **R1** A round takes all balls of one non-empty bin, and throws the same number again.
//! - **R2** The inflow of a bin equals its outflow: p(i) · R = f(i) · R(i).

mod bin_indexes;
mod bins;
pub mod bounds;
mod decision;
mod game;
mod insertion;
mod keys;
#[cfg(test)]
mod tests;

pub use decision::DecisionProcess;
pub use game::{GameOutcome, RecyclingGame};
pub use insertion::{FlushWindow, InsertionBuffer, LeafWeights};
pub use keys::KeyDistribution;

/// How a round chooses the bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinChoice {
    /// The bin with the most balls, the first on a tie. Put light bins first: with skew the rate
    /// is higher if light bins win ties.
    FullestBin,
    /// The bin of a uniformly drawn ball.
    RandomBall,
    /// The next non-empty bin after the last one, cyclically in a fixed order.
    GoldenGate,
}

/// A strategy: a choice, optionally restricted to some of the bins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinStrategy {
    choice: BinChoice,
    kept: Option<Vec<usize>>,
}

impl BinStrategy {
    /// Returns the strategy that chooses among all bins.
    #[must_use]
    pub fn plain(choice: BinChoice) -> BinStrategy {
        BinStrategy { choice, kept: None }
    }

    /// Returns the aggressive strategy: it empties the lightest non-empty bin outside of `kept`,
    /// and chooses among the kept bins once all others are empty.
    #[must_use]
    pub fn aggressive_empty(kept: Vec<usize>, choice: BinChoice) -> BinStrategy {
        BinStrategy {
            choice,
            kept: Some(kept),
        }
    }
}

impl From<BinChoice> for BinStrategy {
    fn from(choice: BinChoice) -> BinStrategy {
        BinStrategy::plain(choice)
    }
}

/// Returns a good set of bins for the aggressive strategy to keep: as many of the heaviest bins
/// as there are balls, and every bin that is expected to get a ball when all balls are thrown.
#[must_use]
pub fn heavy_bins(weights: &[f64], balls: usize) -> Vec<usize> {
    let sum: f64 = weights.iter().sum();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    let heavy = |&(rank, &bin): &(usize, &usize)| rank < balls || weights[bin] / sum * balls as f64 >= 1.0;
    order
        .iter()
        .enumerate()
        .filter(heavy)
        .map(|(_, &bin)| bin)
        .collect()
}
