//! Batched lookups in one version of a dictionary. While nodes are read for some keys, other keys
//! are searched.
//!
//! ```text
//! few keys -> search -> keys that miss a node come together -> one request -> wait -> search -> ...
//! ```
//!
//! A key whose search misses a node is set aside, even if it has missed nodes before. Once enough
//! keys have been set aside, or no other key is left to search, all missing nodes are requested at
//! once. Every request and every wait has a fixed cost, which the keys of a group share.

use super::LookupReader;
use crate::fetch::{FetchedNodes, NonBlockingFetch};
use crate::key::LookupKey;
use crate::lookup_state::LookupState;
use alluvium_storage::{CacheRetention, NodePointer, PendingReads, Result};
use std::collections::VecDeque;
use std::task::Poll;

/// Number of keys that are searched together as one group.
const TOGETHER: usize = 16;
/// Missing nodes are requested once this many keys are waiting for one.
const ENOUGH: usize = 12;

/// Once a key has missed this many times, the nodes that its search needs are pinned until the
/// search has ended. Otherwise, when memory is scarce, the cache could evict them again and again
/// before the search uses them.
const PATIENCE: u32 = 4;
const _: () = assert!(
    0 < ENOUGH && ENOUGH <= TOGETHER,
    "a batch is asked for before it is full"
);

/// The search for one key of a batch.
#[derive(Debug)]
pub struct BatchKeySearch<S> {
    /// Index of the key in the batch.
    pub index: usize,
    pub search: S,
    /// Whether the search for this key has ended.
    pub is_done: bool,
    /// Number of times that the search has missed a node.
    waits: u32,
}

/// A group of keys, and the read request that they are waiting for.
#[derive(Debug)]
struct SearchGroup<S> {
    open: Vec<BatchKeySearch<S>>,
    pending: Option<PendingReads>,
}

/// The progress of a batched lookup.
struct BatchLookup<'r, 'k, 'g, 'o, R: LookupReader> {
    reader: &'r R,
    keys: &'k [LookupKey<'k>],
    gathers: &'g mut [LookupState<'o>],
    queue: VecDeque<SearchGroup<R::Search>>,
    /// Keys that are waiting for nodes that have not been requested yet. `missing` lists these
    /// nodes.
    waiting: Vec<BatchKeySearch<R::Search>>,
    missing: Vec<NodePointer>,
}

/// Looks up several keys in the version of `reader`, and reads the nodes that are not in memory in
/// batches.
///
/// # Errors
/// I/O errors; damage. After an error, the lookup states must not be used.
///
/// # Panics
/// If the number of lookup states differs from the number of keys.
pub fn gather_many<R: LookupReader>(
    reader: &R,
    keys: &[LookupKey<'_>],
    gathers: &mut [LookupState<'_>],
) -> Result<()> {
    BatchLookup::new(reader, keys, gathers).finish()
}

/// Like [`gather_many`], but does not read from the device. Returns whether all required nodes were
/// in memory; if not, the lookup states must not be used.
///
/// # Errors
/// The same errors as [`gather_many`].
///
/// # Panics
/// In the same cases as [`gather_many`].
pub fn gather_many_in_memory<R: LookupReader>(
    reader: &R,
    keys: &[LookupKey<'_>],
    gathers: &mut [LookupState<'_>],
) -> Result<bool> {
    BatchLookup::new(reader, keys, gathers).finish_in_memory()
}

impl<'r, 'k, 'g, 'o, R: LookupReader> BatchLookup<'r, 'k, 'g, 'o, R> {
    fn new(reader: &'r R, keys: &'k [LookupKey<'k>], gathers: &'g mut [LookupState<'o>]) -> Self {
        assert_eq!(keys.len(), gathers.len(), "a lookup for each key");
        let undecided: Vec<usize> = (0..keys.len())
            .filter(|&index| !gathers[index].is_decided())
            .collect();
        let open = |&index: &usize| BatchKeySearch {
            index,
            search: reader.new_search(),
            is_done: false,
            waits: 0,
        };
        let few = |indexes: &[usize]| SearchGroup {
            open: indexes.iter().map(open).collect(),
            pending: None,
        };
        BatchLookup {
            reader,
            keys,
            queue: undecided.chunks(TOGETHER).map(few).collect(),
            gathers,
            waiting: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Continues the lookup until all keys are done, waiting for nodes as necessary.
    fn finish(mut self) -> Result<()> {
        loop {
            let Some(SearchGroup { open, pending }) = self.queue.pop_front() else {
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
                // This thread has no other key to search, so request the missing nodes now.
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

    /// Continues the lookup until all keys are done or a node is missing. Returns whether all are
    /// done.
    fn finish_in_memory(mut self) -> Result<bool> {
        while let Some(few) = self.queue.pop_front() {
            self.search(few.open)?;
            if !self.waiting.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Continues the searches of a group of keys. A key that misses a node moves to `waiting`.
    fn search(&mut self, mut open: Vec<BatchKeySearch<R::Search>>) -> Result<()> {
        debug_assert!(
            open.iter().all(|key| !key.is_done),
            "L2: what is done is not searched again"
        );
        let brought = FetchedNodes::default();
        let fetch = NonBlockingFetch::new(self.reader.nodes(), &brought);
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

    /// Requests all missing nodes. The searches that miss them continue once the nodes have been
    /// read.
    fn ask(&mut self) -> Result<()> {
        let open = std::mem::take(&mut self.waiting);
        let nodes = std::mem::take(&mut self.missing);
        if open.iter().any(|key| key.waits > PATIENCE) {
            return self.search_blocking(open, nodes);
        }
        debug_assert!(!nodes.is_empty(), "a key waits only for a node");
        let from = self.reader.nodes();
        let pending = from.cache.request(&nodes, from.purpose, CacheRetention::Keep)?;
        // The cache has skipped some of the nodes, because it had no free frames for them.
        if pending.skipped() > 0 {
            return self.search_blocking(open, nodes);
        }
        self.queue.push_back(SearchGroup {
            open,
            pending: Some(pending),
        });
        Ok(())
    }

    /// Completes the searches of these keys with blocking reads, and keeps the nodes in memory
    /// until all of the searches have ended.
    fn search_blocking(
        &mut self,
        mut open: Vec<BatchKeySearch<R::Search>>,
        mut nodes: Vec<NodePointer>,
    ) -> Result<()> {
        let from = self.reader.nodes();
        let mut brought = FetchedNodes::default();
        while !open.is_empty() {
            brought.wait(from, nodes)?;
            let fetch = NonBlockingFetch::new(from, &brought);
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
