//! The bins of a game, and the choice of the next bin to empty.

use super::trees::{Largest, Members};
use super::{Choice, Strategy};
use alluvium_model::Random;

/// Balls in bins: linked lists of the balls in each bin.
#[derive(Clone, Debug)]
struct Balls {
    bin_of: Vec<u32>,
    next: Vec<u32>,
    head: Vec<u32>,
    free: Vec<u32>,
}

/// The end of a list.
const NONE: u32 = u32::MAX;

/// The index that a choice maintains over the bins.
#[derive(Clone, Debug)]
enum Index {
    Fullest(Largest),
    Ball(Balls),
    Gate { filled: Members, next: usize },
}

/// Bins that are emptied before all others, the lightest first.
#[derive(Clone, Debug)]
struct Outside {
    /// The bin of each rank, and the rank of each bin outside the kept set.
    bins: Vec<usize>,
    rank: Vec<Option<usize>>,
    filled: Members,
}

/// Bins with balls, and a strategy.
#[derive(Clone, Debug)]
pub(super) struct Board {
    counts: Vec<u32>,
    index: Index,
    outside: Option<Outside>,
}

impl Board {
    /// Creates bins for at most `balls` balls. `weights` determine the order of the bins outside
    /// the kept set.
    pub(super) fn new(weights: &[f64], balls: usize, strategy: &Strategy) -> Board {
        let bins = weights.len();
        let index = match strategy.choice {
            Choice::FullestBin => Index::Fullest(Largest::new(bins)),
            Choice::RandomBall => Index::Ball(Balls {
                bin_of: vec![0; balls],
                next: vec![NONE; balls],
                head: vec![NONE; bins],
                free: (0..balls as u32).rev().collect(),
            }),
            Choice::GoldenGate => Index::Gate {
                filled: Members::new(bins),
                next: 0,
            },
        };
        Board {
            counts: vec![0; bins],
            index,
            outside: strategy.kept.as_ref().map(|kept| Outside::new(weights, kept)),
        }
    }

    /// Puts a ball into a bin.
    pub(super) fn put(&mut self, bin: usize) {
        self.counts[bin] += 1;
        match &mut self.index {
            Index::Fullest(largest) => largest.increase(bin),
            Index::Ball(balls) => {
                let ball = balls
                    .free
                    .pop()
                    .expect("R1: as many balls are thrown as were taken");
                balls.bin_of[ball as usize] = bin as u32;
                balls.next[ball as usize] = balls.head[bin];
                balls.head[bin] = ball;
            }
            Index::Gate { filled, .. } => filled.insert(bin),
        }
        if let Some(outside) = &mut self.outside
            && let Some(rank) = outside.rank[bin]
        {
            outside.filled.insert(rank);
        }
    }

    /// Returns the bin that the strategy chooses. All balls must be in bins.
    pub(super) fn choose(&self, random: &mut Random) -> usize {
        if let Some(outside) = &self.outside
            && let Some(rank) = outside.filled.next(0)
        {
            return outside.bins[rank];
        }
        match &self.index {
            Index::Fullest(largest) => largest.first(),
            Index::Ball(balls) => {
                assert!(balls.free.is_empty(), "R1: a bin is chosen when all balls lie");
                balls.bin_of[random.below(balls.bin_of.len())] as usize
            }
            Index::Gate { filled, next } => {
                let next = filled.next(*next).or_else(|| filled.next(0));
                next.expect("R1: a bin has balls")
            }
        }
    }

    /// Empties a bin, and returns the number of balls it had.
    pub(super) fn empty(&mut self, bin: usize) -> u32 {
        let count = std::mem::take(&mut self.counts[bin]);
        match &mut self.index {
            Index::Fullest(largest) => largest.clear(bin),
            Index::Ball(balls) => {
                let mut ball = std::mem::replace(&mut balls.head[bin], NONE);
                while ball != NONE {
                    balls.free.push(ball);
                    ball = balls.next[ball as usize];
                }
            }
            Index::Gate { filled, next } => {
                filled.remove(bin);
                *next = bin + 1;
            }
        }
        if let Some(outside) = &mut self.outside
            && let Some(rank) = outside.rank[bin]
        {
            outside.filled.remove(rank);
        }
        count
    }
}

impl Outside {
    fn new(weights: &[f64], kept: &[usize]) -> Outside {
        let mut is_kept = vec![false; weights.len()];
        for &bin in kept {
            is_kept[bin] = true;
        }
        let mut bins: Vec<usize> = (0..weights.len()).filter(|&bin| !is_kept[bin]).collect();
        bins.sort_by(|&a, &b| weights[a].total_cmp(&weights[b]));
        let mut rank = vec![None; weights.len()];
        for (at, &bin) in bins.iter().enumerate() {
            rank[bin] = Some(at);
        }
        Outside {
            filled: Members::new(bins.len()),
            bins,
            rank,
        }
    }
}
