//! Batched lookups in one state: nodes for some keys are read while other keys are searched.
//!
//! ```text
//! few keys -> search -> keys that miss a node come together -> one request -> wait -> search -> ...
//! ```
//!
//! Keys with a missing node are collected, however often they were searched before, until they are
//! enough for one request or no other work is left. Both a request and a wait have a fixed cost,
//! which is shared in this way.

use super::Reader;
use crate::fetch::{Brought, Peeking};
use crate::gather::Gather;
use crate::key::Key;
use alluvium_storage::{NodePointer, Pending, Residence, Result};
use std::collections::VecDeque;
use std::task::Poll;

/// Number of keys searched together.
const TOGETHER: usize = 16;
/// Number of keys with missing nodes that triggers a request.
const ENOUGH: usize = 12;

/// Number of misses of a key after which its nodes are pinned until it is done. Otherwise, with
/// little memory, the cache could repeatedly evict nodes before the search uses them.
const PATIENCE: u32 = 4;
const _: () = assert!(
    0 < ENOUGH && ENOUGH <= TOGETHER,
    "a batch is asked for before it is full"
);

/// An unfinished key of a batch.
#[derive(Debug)]
pub struct Open<S> {
    /// Index among the keys of the batch.
    pub index: usize,
    /// Position of the search.
    pub search: S,
    /// Whether its search has ended.
    pub is_done: bool,
    /// Number of misses so far.
    waits: u32,
}

/// A group of keys and the request they wait for.
#[derive(Debug)]
struct Few<S> {
    open: Vec<Open<S>>,
    pending: Option<Pending>,
}

/// State of a batched lookup.
struct Batch<'r, 'k, 'g, 'o, R: Reader> {
    reader: &'r R,
    keys: &'k [Key<'k>],
    gathers: &'g mut [Gather<'o>],
    queue: VecDeque<Few<R::Search>>,
    /// Keys with a missing node that was not requested yet, and these nodes.
    waiting: Vec<Open<R::Search>>,
    missing: Vec<NodePointer>,
}

/// Looks up each key. Missing nodes are read together.
///
/// # Errors
/// I/O errors; damage. The states of the lookups are then undefined.
///
/// # Panics
/// If there are not as many lookups as keys.
pub fn gather_many<R: Reader>(reader: &R, keys: &[Key<'_>], gathers: &mut [Gather<'_>]) -> Result<()> {
    Batch::new(reader, keys, gathers).finish()
}

/// As [`gather_many`], without reading from the device. Returns whether all nodes were in memory;
/// if not, the states of the lookups are undefined.
///
/// # Errors
/// The same as [`gather_many`].
///
/// # Panics
/// The same as [`gather_many`].
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

    /// Searches until all keys are done.
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
                // While this thread has nothing else to do, send all misses to the device.
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

    /// Searches until a node is missing. Returns whether all keys are done.
    fn finish_in_memory(mut self) -> Result<bool> {
        while let Some(few) = self.queue.pop_front() {
            self.search(few.open)?;
            if !self.waiting.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Continues the search of a group of keys. Keys with a missing node are added to `waiting`.
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

    /// Requests the missing nodes. Their keys are searched again once the nodes were read.
    fn ask(&mut self) -> Result<()> {
        let open = std::mem::take(&mut self.waiting);
        let nodes = std::mem::take(&mut self.missing);
        if open.iter().any(|key| key.waits > PATIENCE) {
            return self.insist(open, nodes);
        }
        debug_assert!(!nodes.is_empty(), "a key waits only for a node");
        let from = self.reader.nodes();
        let pending = from.cache.request(&nodes, from.purpose, Residence::Keep)?;
        // The cache has no frames for some of the nodes.
        if pending.skipped() > 0 {
            return self.insist(open, nodes);
        }
        self.queue.push_back(Few {
            open,
            pending: Some(pending),
        });
        Ok(())
    }

    /// Searches these keys to the end with blocking reads, and keeps the nodes read until then.
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
