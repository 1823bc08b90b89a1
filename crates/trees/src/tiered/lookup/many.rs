//! The search for many keys in one version: what some of them wait for is read while others are
//! searched.
//!
//! ```text
//! few keys -> search -> those that lack a node come together -> one request for all -> wait -> search -> ...
//! ```
//!
//! Keys that lack a node join others that do, whether these have been searched once or several
//! times, until they are enough for a request, or there is nothing else to do: a request has a
//! price, and so has waiting for each of several by itself.

use super::reader::Reader;
use super::search::{Search, Way, ask_together};
use crate::tiered::trunk::SEED;
use alluvium_dictionary::fetch::{Brought, Peeking};
use alluvium_dictionary::gather::Gather;
use alluvium_filters as filters;
use alluvium_storage::{NodePointer, Pending, Residence, Result};
use std::collections::VecDeque;
use std::task::Poll;

/// How many keys are searched for together.
const TOGETHER: usize = 16;
/// How many of them miss a node when the nodes are asked for.
const ENOUGH: usize = 12;

/// How often a key may have lacked a node before everything that it needs is kept until it is done:
/// the cache may have lost what it was brought before it was looked at, and with little memory
/// again and again.
const PATIENCE: u32 = 4;
const _: () = assert!(
    0 < ENOUGH && ENOUGH <= TOGETHER,
    "a batch is asked for before it is full"
);

/// A key that is being searched for, by its place in the batch.
#[derive(Debug)]
struct Open {
    index: usize,
    search: Search,
    /// How often it has lacked a node.
    waits: u32,
}

/// A few keys, and what they wait for.
#[derive(Debug, Default)]
struct Few {
    open: Vec<Open>,
    pending: Option<Pending>,
}

/// Keys that miss a node that was not asked for yet, and those nodes.
#[derive(Debug, Default)]
struct Lacking {
    open: Vec<Open>,
    nodes: Vec<NodePointer>,
}

/// A batch that is being searched for.
pub(super) struct Many<'r, 't, 'k, 'g, 'o> {
    reader: &'r Reader<'t>,
    keys: &'k [&'k [u8]],
    gathers: &'g mut [Gather<'o>],
    queue: VecDeque<Few>,
    lacking: Lacking,
}

impl<'r, 't, 'k, 'g, 'o> Many<'r, 't, 'k, 'g, 'o> {
    pub(super) fn new(
        reader: &'r Reader<'t>,
        keys: &'k [&'k [u8]],
        gathers: &'g mut [Gather<'o>],
    ) -> Many<'r, 't, 'k, 'g, 'o> {
        assert_eq!(keys.len(), gathers.len(), "a gather for each key");
        let undecided: Vec<usize> = (0..keys.len())
            .filter(|&index| !gathers[index].is_decided())
            .collect();
        let few = |indexes: &[usize]| Few {
            open: indexes.iter().copied().map(Open::new).collect(),
            pending: None,
        };
        Many {
            reader,
            keys,
            queue: undecided.chunks(TOGETHER).map(few).collect(),
            gathers,
            lacking: Lacking::default(),
        }
    }

    /// Searches until all are done.
    pub(super) fn finish(mut self) -> Result<()> {
        loop {
            let Some(Few { open, pending }) = self.queue.pop_front() else {
                if self.lacking.open.is_empty() {
                    return Ok(());
                }
                self.ask()?;
                continue;
            };
            if let Some(mut pending) = pending
                && !pending.poll()
            {
                // The device may as well have everything, while there is nothing else to do.
                if !self.lacking.open.is_empty() {
                    self.ask()?;
                }
                pending.wait();
            }
            self.search(open)?;
            if self.lacking.open.len() >= ENOUGH {
                self.ask()?;
            }
        }
    }

    /// Searches while nothing is lacking. Returns whether all are done.
    pub(super) fn finish_in_memory(mut self) -> Result<bool> {
        while let Some(few) = self.queue.pop_front() {
            self.search(few.open)?;
            if !self.lacking.open.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Goes on with a few keys. Those that lack a node are added to the others that do.
    fn search(&mut self, mut open: Vec<Open>) -> Result<()> {
        let reader = self.reader;
        if let Some(digest) = &reader.seen().digest {
            let hashes = open.iter().map(|key| filters::hash(SEED, self.keys[key.index]));
            hashes.for_each(|hash| digest.prefetch(hash));
        }
        let brought = Brought::default();
        let fetch = Peeking::new(reader.blocking(), &brought);
        // The memory of the machine too answers several as fast as one.
        let mut ways: Vec<Way<'_, '_>> = Vec::with_capacity(open.len());
        for key in &mut open {
            let mut way = Way::of(reader.seen(), self.keys[key.index], &mut key.search);
            way.locate(&key.search, &fetch);
            ways.push(way);
        }
        debug_assert_eq!(ways.len(), open.len(), "a way for each key");
        ways.iter().for_each(|way| way.approach(&fetch));
        for way in &mut ways {
            way.take(&fetch);
        }
        ask_together(&ways, open.iter_mut().map(|key| &mut key.search));
        for (mut key, mut way) in open.into_iter().zip(ways) {
            let Gather { operator, known } = &mut self.gathers[key.index];
            let name = self.keys[key.index];
            match key.search.go_along(&mut way, name, known, *operator, &fetch) {
                Poll::Ready(done) => {
                    done?;
                    reader.note(name);
                }
                Poll::Pending => {
                    key.waits += 1;
                    self.lacking.open.push(key);
                }
            }
        }
        self.lacking.nodes.append(&mut fetch.into_missing());
        Ok(())
    }

    /// Asks for the missing nodes. Their keys are searched for again once the nodes have been read.
    fn ask(&mut self) -> Result<()> {
        let Lacking { open, nodes } = std::mem::take(&mut self.lacking);
        let from = self.reader.blocking();
        if open.iter().any(|key| key.waits > PATIENCE) {
            return self.insist(open, nodes);
        }
        debug_assert!(!nodes.is_empty(), "a key waits only for a node");
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
    fn insist(&mut self, mut open: Vec<Open>, mut nodes: Vec<NodePointer>) -> Result<()> {
        let reader = self.reader;
        let mut brought = Brought::default();
        while !open.is_empty() {
            brought.wait(reader.blocking(), nodes)?;
            let fetch = Peeking::new(reader.blocking(), &brought);
            let mut left = Vec::new();
            for mut key in open {
                let Gather { operator, known } = &mut self.gathers[key.index];
                let name = self.keys[key.index];
                match reader.go_on(&mut key.search, name, known, *operator, &fetch) {
                    Poll::Ready(done) => {
                        done?;
                        reader.note(name);
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

impl Open {
    fn new(index: usize) -> Open {
        Open {
            index,
            search: Search::default(),
            waits: 0,
        }
    }
}
