//! Concurrent searches, which share the device's P slots in each step (Bender §6).
//!
//! A step is planned, read and supplied. The plan does not depend on the read method, so tests
//! also run steps without a device.

use super::PdamTree;
use super::descent::{DescentGoal, DescentProgress, PdamDescent};
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, IoBatch};
use alluvium_storage::{Error, Result};
use research_models::pdam::shares;
use std::ops::Range;

/// The read-ahead beyond the block that a search needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAhead {
    /// No read-ahead: the remaining slots of a step are unused.
    None,
    /// The whole node. Clients take turns if a step has too few slots for all of them.
    Node,
    /// As much of the node as the client's share of the step's slots allows.
    Shared,
}

/// The use of slots that remain after each client has its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemainderPolicy {
    /// Clients get the remaining slots in turn, one each.
    InTurn,
    /// Remaining slots are an error.
    Refused,
}

/// Blocks of a node that are read in a single request for one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// Index of the client that reads.
    pub reader: usize,
    /// The global number of the node.
    pub node: u64,
    /// The blocks of the node.
    pub blocks: Range<u64>,
}

/// The maximum number of clients: each holds the blocks of a node in memory.
const MOST_READERS: usize = 1 << 16;

/// Clients that search a tree.
///
/// ```
/// use alluvium_device::{Directory, FileOptions, memory::MemoryDirectory};
/// use research_trees::pdam::{ReadAhead, ReaderScheduler, RemainderPolicy, PdamShape, PdamTree};
/// let file = MemoryDirectory::new().create("tree", FileOptions::DIRECT)?;
/// let records = (0..5000_u64).map(|key| (key.to_be_bytes(), []));
/// let tree = PdamTree::build(file, PdamShape::new(512, 8, 8, 0)?, 1, records)?;
/// let mut readers = ReaderScheduler::new(&tree, ReadAhead::Shared, 8, RemainderPolicy::Refused)?;
/// readers.seek(0, &7_u64.to_be_bytes())?;
/// readers.seek(1, &5000_u64.to_be_bytes())?;
/// let mut answers = Vec::new();
/// while readers.waiting() > 0 {
///     answers.extend(readers.step()?);
/// }
/// answers.sort();
/// assert_eq!(answers, [(0, Some(Box::default())), (1, None)]);
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
#[derive(Debug)]
pub struct ReaderScheduler<'t> {
    tree: &'t PdamTree,
    ahead: ReadAhead,
    slots: u32,
    remainder: RemainderPolicy,
    /// The current search of each client, if any.
    walks: Vec<Option<PdamDescent>>,
    /// Clients whose search has completed but has not been reported.
    answered: Vec<ReaderAnswer>,
    steps: u64,
    blocks: u64,
}

/// A client, and the value found, if any.
pub type ReaderAnswer = (usize, Option<Box<[u8]>>);

impl<'t> ReaderScheduler<'t> {
    /// Creates clients of a tree on a device that reads `slots` blocks per step.
    ///
    /// # Errors
    /// [`Error::BadOption`] if `slots` is 0, or if nodes are read whole and have more blocks than
    /// a step.
    pub fn new(
        tree: &'t PdamTree,
        ahead: ReadAhead,
        slots: u32,
        remainder: RemainderPolicy,
    ) -> Result<ReaderScheduler<'t>> {
        let refuse = |why: String| Err(Error::BadOption { option: "slots", why });
        let node_blocks = tree.layout.shape.node_blocks();
        if slots == 0 {
            return refuse("a step without blocks; take at least 1".into());
        }
        if ahead == ReadAhead::Node && slots < node_blocks {
            return refuse(format!(
                "a step has {slots} blocks and a node {node_blocks}: it cannot be read whole in a step"
            ));
        }
        Ok(ReaderScheduler {
            tree,
            ahead,
            slots,
            remainder,
            walks: Vec::new(),
            answered: Vec::new(),
            steps: 0,
            blocks: 0,
        })
    }

    /// Starts the search of a client for a key. Clients may join and leave between any two steps.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the length of the key is not that of the tree's keys, or the
    /// client's number is 65,536 or more. Never [`Error::Corrupt`], since the call reads no
    /// blocks.
    ///
    /// # Panics
    /// When the client already has a search in progress.
    pub fn seek(&mut self, reader: usize, key: &[u8]) -> Result<()> {
        if reader >= MOST_READERS {
            let why = format!("client {reader}; numbers below {MOST_READERS} are for clients");
            return Err(Error::BadOption {
                option: "reader",
                why,
            });
        }
        let mut walk = PdamDescent::new(&self.tree.layout, key, DescentGoal::Record)?;
        if self.walks.len() <= reader {
            self.walks.resize_with(reader + 1, || None);
        }
        assert!(
            self.walks[reader].is_none(),
            "client {reader} searches one key at a time"
        );
        match walk.advance(&self.tree.layout)? {
            DescentProgress::Found(value) => self.answered.push((reader, value)),
            progress => {
                assert!(
                    matches!(progress, DescentProgress::Wants { .. }),
                    "PD1: a root is read"
                );
                self.walks[reader] = Some(walk);
            }
        }
        Ok(())
    }

    /// Returns the number of clients that wait for an answer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.walks.iter().flatten().count() + self.answered.len()
    }

    /// Returns the number of steps.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the number of blocks read.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Performs one step of the device, and returns the clients whose search has completed.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the location, [`Error::BadOption`] if slots remain and
    /// [`RemainderPolicy`] refuses them, or I/O errors.
    pub fn step(&mut self) -> Result<Vec<ReaderAnswer>> {
        let runs = self.plan()?;
        let layout = &self.tree.layout;
        let mut batch = IoBatch::with_capacity(runs.len());
        for run in &runs {
            let len = (run.blocks.end - run.blocks.start) * u64::from(layout.shape.block_bytes());
            let offset = layout.offset(run.node, run.blocks.start);
            batch.read(offset, AlignedBuffer::zeroed(len as usize), Purpose::Lookup);
        }
        let buffers = if runs.is_empty() {
            Vec::new()
        } else {
            self.tree.device.run(batch)?
        };
        self.supply(runs.into_iter().zip(buffers))
    }

    /// Returns the requests of the next step: at most one block per slot, and for each client
    /// blocks of a single node (PD2).
    ///
    /// # Errors
    /// [`Error::BadOption`] if slots remain and [`RemainderPolicy`] refuses them.
    pub fn plan(&mut self) -> Result<Vec<BlockRun>> {
        let layout = &self.tree.layout;
        let mut wants = Vec::new();
        for (reader, walk) in self.walks.iter_mut().enumerate() {
            let Some(walk) = walk else { continue };
            if let DescentProgress::Wants { node, block } = walk.advance(layout)? {
                wants.push((reader, node, block));
            }
        }
        let shares = self.share(wants.len())?;
        let blocks = u64::from(layout.shape.node_blocks());
        let runs = wants.into_iter().zip(shares).filter(|(_, share)| *share > 0);
        let runs: Vec<BlockRun> = runs
            .map(|((reader, node, block), share)| BlockRun {
                reader,
                node,
                blocks: read_ahead_range(block, share, blocks),
            })
            .collect();
        let count: u64 = runs.iter().map(|run| run.blocks.end - run.blocks.start).sum();
        assert!(
            count <= u64::from(self.slots),
            "PD2: {count} blocks in {} slots",
            self.slots
        );
        self.steps += u64::from(!runs.is_empty());
        self.blocks += count;
        Ok(runs)
    }

    /// Returns the number of blocks for each client in this step.
    fn share(&self, clients: usize) -> Result<Vec<u64>> {
        let slots = u64::from(self.slots);
        if clients == 0 {
            return Ok(Vec::new());
        }
        if self.remainder == RemainderPolicy::Refused && slots % clients as u64 != 0 {
            let why = format!(
                "{slots} blocks of a step do not divide by {clients} clients: take a number that they \
                 divide by, or have the remainder given in turn"
            );
            return Err(Error::BadOption { option: "slots", why });
        }
        let node = u64::from(self.tree.layout.shape.node_blocks());
        // A node that is read whole needs all of its slots in the same step.
        let unit = if self.ahead == ReadAhead::Node { node } else { 1 };
        let mut shares = shares(clients, slots / unit, self.steps);
        for share in &mut shares {
            *share = match self.ahead {
                ReadAhead::None | ReadAhead::Node => unit * (*share).min(1),
                ReadAhead::Shared => (*share).min(node),
            };
        }
        debug_assert!(shares.iter().sum::<u64>() <= slots, "PD2");
        Ok(shares)
    }

    /// Supplies clients with the blocks read, and returns those whose search has completed.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the location.
    pub fn supply(
        &mut self,
        read: impl IntoIterator<Item = (BlockRun, AlignedBuffer)>,
    ) -> Result<Vec<ReaderAnswer>> {
        let mut answered = std::mem::take(&mut self.answered);
        for (run, blocks) in read {
            let walk = self.walks[run.reader].as_mut().expect("a client that waits");
            walk.supply(run.blocks.start, blocks);
            if let DescentProgress::Found(value) = walk.advance(&self.tree.layout)? {
                self.walks[run.reader] = None;
                answered.push((run.reader, value));
            }
        }
        Ok(answered)
    }
}

/// Returns `share` of a node's `blocks` blocks, including the wanted one: preferably the blocks
/// after it, where searches continue, and blocks before it at the end of the node (PD2).
fn read_ahead_range(wanted: u64, share: u64, blocks: u64) -> Range<u64> {
    assert!(wanted < blocks && share > 0, "PD2: block {wanted} of {blocks}");
    let from = wanted.min(blocks.saturating_sub(share));
    from..(from + share).min(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_the_wanted_block_and_stays_in_its_node() {
        for blocks in 1..=9 {
            for wanted in 0..blocks {
                for share in 1..=12 {
                    let run = read_ahead_range(wanted, share, blocks);
                    assert!(run.contains(&wanted) && run.end <= blocks, "PD2");
                    assert_eq!(run.end - run.start, share.min(blocks));
                }
            }
        }
        assert_eq!(
            (read_ahead_range(2, 3, 8), read_ahead_range(7, 3, 8)),
            (2..5, 5..8)
        );
    }
}
