//! The bins of a game, and the choice of the next bin to empty.

use super::bin_indexes::{IntegerSet, TournamentTree};
use super::{BinChoice, BinStrategy};
use alluvium_model::SplitMix64;

/// Balls in bins: linked lists of the balls in each bin.
#[derive(Clone, Debug)]
struct BallLists {
    bin_of: Vec<u32>,
    next: Vec<u32>,
    head: Vec<u32>,
    free: Vec<u32>,
}

/// The end of a list.
const NONE: u32 = u32::MAX;

/// The index that a choice maintains over the bins.
#[derive(Clone, Debug)]
enum BinIndex {
    Fullest(TournamentTree),
    Ball(BallLists),
    Gate { filled: IntegerSet, next: usize },
}

/// Bins that are emptied before all others, the lightest first.
#[derive(Clone, Debug)]
struct LightBins {
    /// The bin of each rank, and the rank of each bin outside the kept set.
    bins: Vec<usize>,
    rank: Vec<Option<usize>>,
    filled: IntegerSet,
}

/// Bins with balls, and a strategy.
#[derive(Clone, Debug)]
pub(super) struct BinBoard {
    counts: Vec<u32>,
    index: BinIndex,
    outside: Option<LightBins>,
}

impl BinBoard {
    /// Creates bins for at most `balls` balls. `weights` determine the order of the bins outside
    /// the kept set.
    pub(super) fn new(weights: &[f64], balls: usize, strategy: &BinStrategy) -> BinBoard {
        let bins = weights.len();
        let index = match strategy.choice {
            BinChoice::FullestBin => BinIndex::Fullest(TournamentTree::new(bins)),
            BinChoice::RandomBall => BinIndex::Ball(BallLists {
                bin_of: vec![0; balls],
                next: vec![NONE; balls],
                head: vec![NONE; bins],
                free: (0..balls as u32).rev().collect(),
            }),
            BinChoice::GoldenGate => BinIndex::Gate {
                filled: IntegerSet::new(bins),
                next: 0,
            },
        };
        BinBoard {
            counts: vec![0; bins],
            index,
            outside: strategy.kept.as_ref().map(|kept| LightBins::new(weights, kept)),
        }
    }

    /// Puts a ball into a bin.
    pub(super) fn put(&mut self, bin: usize) {
        self.counts[bin] += 1;
        match &mut self.index {
            BinIndex::Fullest(largest) => largest.increase(bin),
            BinIndex::Ball(balls) => {
                let ball = balls
                    .free
                    .pop()
                    .expect("R1: as many balls are thrown as were taken");
                balls.bin_of[ball as usize] = bin as u32;
                balls.next[ball as usize] = balls.head[bin];
                balls.head[bin] = ball;
            }
            BinIndex::Gate { filled, .. } => filled.insert(bin),
        }
        if let Some(outside) = &mut self.outside
            && let Some(rank) = outside.rank[bin]
        {
            outside.filled.insert(rank);
        }
    }

    /// Returns the bin that the strategy chooses. All balls must be in bins.
    pub(super) fn choose(&self, random: &mut SplitMix64) -> usize {
        if let Some(outside) = &self.outside
            && let Some(rank) = outside.filled.next(0)
        {
            return outside.bins[rank];
        }
        match &self.index {
            BinIndex::Fullest(largest) => largest.first(),
            BinIndex::Ball(balls) => {
                assert!(balls.free.is_empty(), "R1: a bin is chosen when all balls lie");
                balls.bin_of[random.below(balls.bin_of.len())] as usize
            }
            BinIndex::Gate { filled, next } => {
                let next = filled.next(*next).or_else(|| filled.next(0));
                next.expect("R1: a bin has balls")
            }
        }
    }

    /// Empties a bin, and returns the number of balls it had.
    pub(super) fn empty(&mut self, bin: usize) -> u32 {
        let count = std::mem::take(&mut self.counts[bin]);
        match &mut self.index {
            BinIndex::Fullest(largest) => largest.clear(bin),
            BinIndex::Ball(balls) => {
                let mut ball = std::mem::replace(&mut balls.head[bin], NONE);
                while ball != NONE {
                    balls.free.push(ball);
                    ball = balls.next[ball as usize];
                }
            }
            BinIndex::Gate { filled, next } => {
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

impl LightBins {
    fn new(weights: &[f64], kept: &[usize]) -> LightBins {
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
        LightBins {
            filled: IntegerSet::new(bins.len()),
            bins,
            rank,
        }
    }
}
