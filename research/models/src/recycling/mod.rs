//! Ball recycling: how many buffered items one flush of a leaf takes along (Conway §5).
//!
//! *Knows*: the game of balls and bins, strategies that choose a bin, bounds and estimates of
//! their rates, the best strategy for small games, and insertion buffers over leaves that
//! split.
//!
//! *Does not know*: buffers and trees of a store. A ball is an item that is buffered, a bin is
//! a leaf on the device, and a rate of R means that each leaf written takes R items.
//!
//! *Read in this order*: this file (strategies), `game.rs`, `board.rs`, `trees.rs`,
//! `bounds.rs`, `decision.rs`, `insertion.rs`, `keys.rs`.
//!
//! Source: *Conway* §5; Theorem 6 takes the bins of lowest weight by a misprint, and the
//! heaviest are taken here.
//!
//! Invariants:
//!
//! - **R1** A round takes all balls of one bin that has some, and throws as many again.
//! - **R2** What flows into a bin flows out of it: p(i) · R = f(i) · R(i).

mod board;
pub mod bounds;
mod decision;
mod game;
mod insertion;
mod keys;
#[cfg(test)]
mod tests;
mod trees;

pub use decision::Decision;
pub use game::{Game, Outcome};
pub use insertion::{Flushed, InsertionBuffer, LeafWeights};
pub use keys::Keys;

/// How a round chooses the bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The bin with the most balls, the first of several: put light bins first, for with skew
    /// it takes more if ties are for them.
    FullestBin,
    /// The bin of a ball that is drawn evenly.
    RandomBall,
    /// The next bin with balls after the last one, in a fixed order, around and around.
    GoldenGate,
}

/// A strategy: a choice, perhaps only among some of the bins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strategy {
    choice: Choice,
    kept: Option<Vec<usize>>,
}

impl Strategy {
    /// Returns the strategy that chooses among all bins.
    #[must_use]
    pub fn plain(choice: Choice) -> Strategy {
        Strategy { choice, kept: None }
    }

    /// Returns the aggressive strategy: it empties the lightest bin outside of `kept` that has
    /// balls, and chooses among the kept ones once all others are empty.
    #[must_use]
    pub fn aggressive_empty(kept: Vec<usize>, choice: Choice) -> Strategy {
        Strategy {
            choice,
            kept: Some(kept),
        }
    }
}

impl From<Choice> for Strategy {
    fn from(choice: Choice) -> Strategy {
        Strategy::plain(choice)
    }
}

/// Returns the bins that the aggressive strategy does well to keep: as many of the heaviest as
/// there are balls, and all that get a ball in a throw of all of them.
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
