//! Batched lookups in one state: nodes for some keys are read while other keys are searched.
//!
//! ```text
//! few keys -> search -> keys that miss a node come together -> one request -> wait -> search -> ...
//! ```
//!
//! Keys with a missing node are collected, however often they were searched before, until they are
//! enough for one request or no other work is left. Both a request and a wait have a fixed cost,
//! which is shared in this way.

use super::LookupReader;
use crate::fetch::{FetchedNodes, NonBlockingFetch};
use crate::key::LookupKey;
use crate::lookup_state::LookupState;
use alluvium_storage::{CacheRetention, NodePointer, PendingReads, Result};
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
pub struct BatchKeySearch<S> {
    /// Index among the keys of the batch.
    pub index: usize,
    pub search: S,
    /// Whether its search has ended.
    pub is_done: bool,
    /// Number of misses so far.
    waits: u32,
}

/// A group of keys and the request they wait for.
#[derive(Debug)]
struct SearchGroup<S> {
    open: Vec<BatchKeySearch<S>>,
    pending: Option<PendingReads>,
}

/// State of a batched lookup.
struct BatchLookup<'r, 'k, 'g, 'o, R: LookupReader> {
    reader: &'r R,
    keys: &'k [LookupKey<'k>],
    gathers: &'g mut [LookupState<'o>],
    queue: VecDeque<SearchGroup<R::Search>>,
    /// Keys with a missing node that was not requested yet, and these nodes.
    waiting: Vec<BatchKeySearch<R::Search>>,
    missing: Vec<NodePointer>,
}

/// Looks up each key. Missing nodes are read together.
///
/// # Errors
/// I/O errors; damage. The states of the lookups are then undefined.
///
/// # Panics
/// If there are not as many lookups as keys.
pub fn gather_many<R: LookupReader>(
    reader: &R,
    keys: &[LookupKey<'_>],
    gathers: &mut [LookupState<'_>],
) -> Result<()> {
    BatchLookup::new(reader, keys, gathers).finish()
}

/// As [`gather_many`], without reading from the device. Returns whether all nodes were in memory;
/// if not, the states of the lookups are undefined.
///
/// # Errors
/// The same as [`gather_many`].
///
/// # Panics
/// The same as [`gather_many`].
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

    /// Searches until all keys are done.
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

    /// Requests the missing nodes. Their keys are searched again once the nodes were read.
    fn ask(&mut self) -> Result<()> {
        let open = std::mem::take(&mut self.waiting);
        let nodes = std::mem::take(&mut self.missing);
        if open.iter().any(|key| key.waits > PATIENCE) {
            return self.search_blocking(open, nodes);
        }
        debug_assert!(!nodes.is_empty(), "a key waits only for a node");
        let from = self.reader.nodes();
        let pending = from.cache.request(&nodes, from.purpose, CacheRetention::Keep)?;
        // The cache has no frames for some of the nodes.
        if pending.skipped() > 0 {
            return self.search_blocking(open, nodes);
        }
        self.queue.push_back(SearchGroup {
            open,
            pending: Some(pending),
        });
        Ok(())
    }

    /// Searches these keys to the end with blocking reads, and keeps the nodes read until then.
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
