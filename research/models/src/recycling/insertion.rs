//! Insertion buffers over leaves that split (Conway §5.2 and §5.7).
//!
//! Keys wait in a buffer. When it is full, all keys of one leaf are inserted. Oversized leaves
//! split by rank, so only the order of keys matters: coupled distributions give identical runs.

use super::bins::BinBoard;
use super::{BinChoice, BinStrategy, KeyDistribution};
use alluvium_model::SplitMix64;
use alluvium_model::parameter::{BadParameter, at_least, require};

/// The insertion buffer of a tree that starts with one leaf.
///
/// ```
/// use research_models::recycling::{BinChoice, InsertionBuffer, KeyDistribution};
/// let buffer = InsertionBuffer {
///     keys: KeyDistribution::Uniform { below: 1000.0 },
///     buffered: 250,
///     leaf: 16,
///     choice: BinChoice::GoldenGate,
/// };
/// let rates = buffer.fill(20_000, 5_000, 1)?;
/// assert!(rates[0].rate > rates[3].rate, "more leaves, fewer keys for each");
/// # Ok::<(), alluvium_model::BadParameter>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InsertionBuffer {
    pub keys: KeyDistribution,
    /// The maximum number of keys in the buffer.
    pub buffered: usize,
    /// The maximum number of keys in a leaf.
    pub leaf: usize,
    /// How the leaf to flush is chosen. Golden Gate visits leaves in key order.
    pub choice: BinChoice,
}

/// The measurements over a window of inserts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlushWindow {
    /// The number of keys inserted by the end of the window.
    pub inserts: usize,
    /// The number of leaves at the end of the window.
    pub leaves: usize,
    /// The mean number of keys per flush; 0 if there was no flush.
    pub rate: f64,
}

/// The maximum number of simulated inserts: keys and leaves are in memory.
const MOST_INSERTS: usize = 1 << 27;

impl InsertionBuffer {
    /// Inserts keys, and returns the measurements over each `window` of inserts.
    ///
    /// # Errors
    /// [`BadParameter`] unless buffer, leaf and window hold keys, distributions have positive
    /// parameters, and there are at most 2^27 inserts.
    pub fn fill(&self, inserts: usize, window: usize, seed: u64) -> Result<Vec<FlushWindow>, BadParameter> {
        let keys = self.keys.checked()?;
        at_least("the buffer", self.buffered as f64, 1.0, "at least 1 key")?;
        at_least("the leaf", self.leaf as f64, 2.0, "at least 2 keys")?;
        at_least("the window", window as f64, 1.0, "at least 1 insert")?;
        require(
            "the inserts",
            inserts as f64,
            inserts <= MOST_INSERTS,
            "at most 2^27",
        )?;
        require(
            "the buffer",
            self.buffered as f64,
            self.buffered <= MOST_INSERTS,
            "at most 2^27",
        )?;
        let mut random = SplitMix64::from_seed(seed);
        // Keys and choices use separate random generators, so that distributions with the same
        // seed are coupled.
        let mut choices = SplitMix64::from_seed(random.bits());
        let mut tree = BufferedTree::new(self, inserts);
        let mut measured = Vec::new();
        for inserted in 1..=inserts {
            tree.insert(keys.draw(&mut random));
            if tree.waiting == self.buffered {
                tree.flush(&mut choices);
            }
            if inserted % window == 0 {
                measured.push(tree.measure(inserted));
            }
        }
        Ok(measured)
    }
}

/// A leaf: the number of its keys, and of the keys that wait for it.
#[derive(Clone, Debug, Default)]
struct BufferedLeaf {
    keys: Vec<f64>,
    waiting: Vec<f64>,
}

struct BufferedTree<'a> {
    buffer: &'a InsertionBuffer,
    leaves: Vec<BufferedLeaf>,
    /// The smallest key of each leaf and the leaf's number, in key order.
    order: Vec<(f64, usize)>,
    /// What has most keys, or which key is drawn. The order of the gate is that of keys.
    board: Option<BinBoard>,
    /// The end of the last flushed leaf.
    gate: f64,
    waiting: usize,
    flushes: u64,
    flushed: u64,
}

impl<'a> BufferedTree<'a> {
    fn new(buffer: &'a InsertionBuffer, inserts: usize) -> BufferedTree<'a> {
        // A split leaves each part at least half full.
        let most_leaves = inserts / (buffer.leaf / 2) + 2;
        let board = (buffer.choice != BinChoice::GoldenGate).then(|| {
            let strategy = BinStrategy::plain(buffer.choice);
            BinBoard::new(&vec![1.0; most_leaves], buffer.buffered, &strategy)
        });
        BufferedTree {
            buffer,
            leaves: vec![BufferedLeaf::default()],
            order: vec![(f64::NEG_INFINITY, 0)],
            board,
            gate: f64::NEG_INFINITY,
            waiting: 0,
            flushes: 0,
            flushed: 0,
        }
    }

    fn insert(&mut self, key: f64) {
        let (_, leaf) = self.order[self.position(key)];
        self.leaves[leaf].waiting.push(key);
        self.waiting += 1;
        if let Some(board) = &mut self.board {
            board.put(leaf);
        }
    }

    /// Returns the position of a key's leaf in key order.
    fn position(&self, key: f64) -> usize {
        self.order.partition_point(|(least, _)| *least <= key) - 1
    }

    fn flush(&mut self, random: &mut SplitMix64) {
        let number = match &mut self.board {
            Some(board) => {
                let number = board.choose(random);
                board.empty(number);
                number
            }
            None => self.next_of_gate(),
        };
        let leaf = &mut self.leaves[number];
        let mut waiting = std::mem::take(&mut leaf.waiting);
        assert!(!waiting.is_empty(), "R1: a leaf is flushed that has keys waiting");
        self.waiting -= waiting.len();
        self.flushes += 1;
        self.flushed += waiting.len() as u64;
        leaf.keys.append(&mut waiting);
        if leaf.keys.len() > self.buffer.leaf {
            self.split(number);
        }
    }

    /// Returns the next leaf after the gate with waiting keys, and moves the gate to the leaf's
    /// end.
    fn next_of_gate(&mut self) -> usize {
        let start = self.position(self.gate);
        let count = self.order.len();
        let filled = |&at: &usize| !self.leaves[self.order[at % count].1].waiting.is_empty();
        let at = (start..start + count).find(filled).expect("R1: keys are waiting") % count;
        let end = self
            .order
            .get(at + 1)
            .map_or(f64::NEG_INFINITY, |(least, _)| *least);
        self.gate = end;
        self.order[at].1
    }

    /// Splits a leaf into the fewest parts that hold its keys, as evenly as possible.
    fn split(&mut self, number: usize) {
        let mut keys = std::mem::take(&mut self.leaves[number].keys);
        keys.sort_unstable_by(f64::total_cmp);
        let parts = keys.len().div_ceil(self.buffer.leaf);
        let bounds: Vec<usize> = (0..=parts).map(|part| part * keys.len() / parts).collect();
        let position = self.position(keys[0]);
        let mut added = Vec::new();
        for part in 1..parts {
            let keys = keys[bounds[part]..bounds[part + 1]].to_vec();
            added.push((keys[0], self.leaves.len()));
            self.leaves.push(BufferedLeaf {
                keys,
                waiting: Vec::new(),
            });
        }
        keys.truncate(bounds[1]);
        self.leaves[number].keys = keys;
        self.order.splice(position + 1..position + 1, added);
    }

    fn measure(&mut self, inserts: usize) -> FlushWindow {
        let flushes = std::mem::take(&mut self.flushes);
        let flushed = std::mem::take(&mut self.flushed);
        FlushWindow {
            inserts,
            leaves: self.leaves.len(),
            rate: if flushes == 0 {
                0.0
            } else {
                flushed as f64 / flushes as f64
            },
        }
    }
}

/// The probabilities that a key falls into each leaf. They are nearly uniform for every
/// distribution of keys (Conway, Lemmas 13 to 15).
#[derive(Clone, Debug, PartialEq)]
pub struct LeafWeights {
    /// The probabilities of leaves in key order.
    pub probabilities: Vec<f64>,
}

impl LeafWeights {
    /// Inserts keys into leaves of at most `leaf` keys, which split in half.
    ///
    /// # Errors
    /// [`BadParameter`] unless a leaf holds 2 keys, and there are 1 to 2^27 inserts.
    pub fn grow(inserts: usize, leaf: usize, seed: u64) -> Result<LeafWeights, BadParameter> {
        at_least("the leaf", leaf as f64, 2.0, "at least 2 keys")?;
        let some = (1..=MOST_INSERTS).contains(&inserts);
        require("the inserts", inserts as f64, some, "from 1 to 2^27")?;
        let mut random = SplitMix64::from_seed(seed);
        // A key is represented by its quantile. Splits are by rank, so this suffices.
        let mut leaves: Vec<(f64, Vec<f64>)> = vec![(0.0, Vec::new())];
        for _ in 0..inserts {
            let key = random.unit();
            let at = leaves.partition_point(|(least, _)| *least <= key) - 1;
            let keys = &mut leaves[at].1;
            keys.push(key);
            if keys.len() > leaf {
                keys.sort_unstable_by(f64::total_cmp);
                let right = keys.split_off(keys.len() / 2);
                leaves.insert(at + 1, (right[0], right));
            }
        }
        let mut ends: Vec<f64> = leaves.iter().map(|(least, _)| *least).collect();
        ends.push(1.0);
        Ok(LeafWeights {
            probabilities: ends.windows(2).map(|pair| pair[1] - pair[0]).collect(),
        })
    }

    /// Returns the ratio of the highest leaf probability to the mean.
    #[must_use]
    pub fn largest(&self) -> f64 {
        self.quantile(1.0)
    }

    /// Returns the ratio to the mean of the leaf probability at the given quantile.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.probabilities.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = (share.clamp(0.0, 1.0) * (sorted.len() - 1) as f64).round() as usize;
        sorted[at] * sorted.len() as f64
    }
}
