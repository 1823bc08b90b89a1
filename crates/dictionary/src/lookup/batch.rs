//! Lookups of many keys in one state: what some of them wait for is read while others go on.
//!
//! ```text
//! few keys -> search -> keys that miss a node come together -> one request -> wait -> search -> ...
//! ```
//!
//! Keys with a missing node are collected, whether these have been searched once or several times,
//! until they are enough for a request, or there is nothing else to do: a request has a price, and
//! so has waiting for each of several by itself.

use super::Reader;
use crate::fetch::{Brought, Peeking};
use crate::gather::Gather;
use crate::key::Key;
use alluvium_storage::{NodePointer, Pending, Residence, Result};
use std::collections::VecDeque;
use std::task::Poll;

/// How many keys are searched for together.
const TOGETHER: usize = 16;
/// How many of them miss a node when the nodes are asked for.
const ENOUGH: usize = 12;

/// How often a key may have missed a node before everything that it needs is kept until it is done:
/// the cache may have lost what it was brought before it was looked at, and with little memory
/// again and again.
const PATIENCE: u32 = 4;
const _: () = assert!(
    0 < ENOUGH && ENOUGH <= TOGETHER,
    "a batch is asked for before it is full"
);

/// A key of a batch that has no answer yet.
#[derive(Debug)]
pub struct Open<S> {
    /// Its index among the keys of the batch.
    pub index: usize,
    /// Where its search goes on.
    pub search: S,
    /// Whether its search has ended.
    pub is_done: bool,
    /// How often it has missed a node.
    waits: u32,
}

/// A few keys, and what they wait for.
#[derive(Debug)]
struct Few<S> {
    open: Vec<Open<S>>,
    pending: Option<Pending>,
}

/// A batch that is being looked up.
struct Batch<'r, 'k, 'g, 'o, R: Reader> {
    reader: &'r R,
    keys: &'k [Key<'k>],
    gathers: &'g mut [Gather<'o>],
    queue: VecDeque<Few<R::Search>>,
    /// Keys that miss a node that was not asked for yet, and those nodes.
    waiting: Vec<Open<R::Search>>,
    missing: Vec<NodePointer>,
}

/// Feeds a lookup for each key. What they wait for is read together.
///
/// # Errors
/// As the device says; damage. What was fed is of no use then.
///
/// # Panics
/// When there are not as many lookups as keys.
pub fn gather_many<R: Reader>(reader: &R, keys: &[Key<'_>], gathers: &mut [Gather<'_>]) -> Result<()> {
    Batch::new(reader, keys, gathers).finish()
}

/// As [`gather_many`], without the device. Returns whether everything was found; what was fed is of
/// no use otherwise.
///
/// # Errors
/// As [`gather_many`].
///
/// # Panics
/// As [`gather_many`].
pub fn gather_many_in_memory<R: Reader>(
    reader: &R,
    keys: &[Key<'_>],
    gathers: &mut [Gather<'_>],
) -> Result<bool> {
    Batch::new(reader, keys, gathers).finish_in_memory()
}

impl<'r, 'k, 'g, 'o, R: Reader> Batch<'r, 'k, 'g, 'o, R> {
    fn new(reader: &'r R, keys: &'k [Key<'k>], gathers: &'g mut [Gather<'o>]) -> Self {
        assert_eq!(keys.len(), gathers.len(), "a lookup for each key");
        let undecided: Vec<usize> = (0..keys.len())
            .filter(|&index| !gathers[index].is_decided())
            .collect();
        let open = |&index: &usize| Open {
            index,
            search: reader.new_search(),
            is_done: false,
            waits: 0,
        };
        let few = |indexes: &[usize]| Few {
            open: indexes.iter().map(open).collect(),
            pending: None,
        };
        Batch {
            reader,
            keys,
            queue: undecided.chunks(TOGETHER).map(few).collect(),
            gathers,
            waiting: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Searches until all are done.
    fn finish(mut self) -> Result<()> {
        loop {
            let Some(Few { open, pending }) = self.queue.pop_front() else {
                if self.waiting.is_empty() {
                    debug_assert!(self.missing.is_empty(), "L1: a key waits for each node");
                    return Ok(());
                }
                self.ask()?;
                continue;
            };
            if let Some(mut pending) = pending
                && !pending.poll()
            {
                // The device may as well have everything, while there is nothing else to do.
                if !self.waiting.is_empty() {
                    self.ask()?;
                }
                pending.wait();
            }
            self.search(open)?;
            if self.waiting.len() >= ENOUGH {
                self.ask()?;
            }
        }
    }

    /// Searches while no node is missing. Returns whether all are done.
    fn finish_in_memory(mut self) -> Result<bool> {
        while let Some(few) = self.queue.pop_front() {
            self.search(few.open)?;
            if !self.waiting.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Goes on with a few keys. Those that miss a node are added to the others that do.
    fn search(&mut self, mut open: Vec<Open<R::Search>>) -> Result<()> {
        debug_assert!(
            open.iter().all(|key| !key.is_done),
            "L2: what is done is not searched again"
        );
        let brought = Brought::default();
        let fetch = Peeking::new(self.reader.nodes(), &brought);
        self.reader
            .search_together(&mut open, self.keys, self.gathers, &fetch)?;
        for mut key in open {
            if key.is_done {
                self.reader.ended(self.keys[key.index]);
            } else {
                key.waits += 1;
                self.waiting.push(key);
            }
        }
        self.missing.append(&mut fetch.into_missing());
        Ok(())
    }

    /// Asks for the missing nodes. Their keys are searched for again once the nodes have been read.
    fn ask(&mut self) -> Result<()> {
        let open = std::mem::take(&mut self.waiting);
        let nodes = std::mem::take(&mut self.missing);
        if open.iter().any(|key| key.waits > PATIENCE) {
            return self.insist(open, nodes);
        }
        debug_assert!(!nodes.is_empty(), "a key waits only for a node");
        let from = self.reader.nodes();
        let pending = from.cache.request(&nodes, from.purpose, Residence::Keep)?;
        // There is no frame for some of it.
        if pending.skipped() > 0 {
            return self.insist(open, nodes);
        }
        self.queue.push_back(Few {
            open,
            pending: Some(pending),
        });
        Ok(())
    }

    /// Reads and waits until these keys are done, and keeps what was read until then.
    fn insist(&mut self, mut open: Vec<Open<R::Search>>, mut nodes: Vec<NodePointer>) -> Result<()> {
        let from = self.reader.nodes();
        let mut brought = Brought::default();
        while !open.is_empty() {
            brought.wait(from, nodes)?;
            let fetch = Peeking::new(from, &brought);
            let mut left = Vec::new();
            for mut key in open {
                let (name, gather) = (self.keys[key.index], &mut self.gathers[key.index]);
                match self.reader.search(name, gather, &mut key.search, &fetch) {
                    Poll::Ready(done) => {
                        done?;
                        self.reader.ended(name);
                    }
                    Poll::Pending => left.push(key),
                }
            }
            open = left;
            nodes = fetch.into_missing();
        }
        Ok(())
    }
}
