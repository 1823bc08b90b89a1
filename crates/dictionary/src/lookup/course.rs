//! Lookups that never block: the caller that polls them has many under way on one thread.

use super::Reader;
use crate::fetch::{Brought, Peeking};
use crate::gather::{Gather, Known};
use crate::key::Key;
use crate::merge::Operator;
use alluvium_base::Sequence;
use alluvium_storage::{NodePointer, Pending, Result};
use std::task::Poll;

/// The state of a polled lookup of one key between two polls: what is known of the key, and where
/// its search goes on.
///
/// It holds neither a state of the dictionary nor a memtable. When the dictionary has changed, the
/// lookup begins again, and finds most of what it needs in the cache.
///
/// ```text
///   loop   take a reader; of another state than the course's? begin again: Course::begin, memtables, ...
///          Course::advance(reader, key, gather)      ready: done
///          otherwise bring Course::missing()         Cache::request, or request_each for many
///          tell Course::asked() what became of it
/// ```
///
/// Few things are waited for all the same: a value longer than a node, a node that does not fit in
/// the cache, and a node that was evicted before the lookup came back to it.
#[derive(Debug)]
pub struct Course<S> {
    known: Known,
    /// None until it was begun once.
    search: Option<S>,
    /// The state that is searched.
    state: Option<u64>,
    /// Nodes that are missing from the cache in that state.
    missing: Vec<NodePointer>,
    /// What was asked for in that state.
    asked: Vec<NodePointer>,
    /// From now on it waits for missing nodes, because not all of them could be asked for.
    waits: bool,
}

impl<S> Default for Course<S> {
    fn default() -> Course<S> {
        Course {
            known: Known::default(),
            search: None,
            state: None,
            missing: Vec::new(),
            asked: Vec::new(),
            waits: false,
        }
    }
}

impl<S> Course<S> {
    /// Begins a lookup again in the state that `reader` sees, with the memory that it has.
    pub fn begin<R: Reader<Search = S>>(&mut self, reader: &R, at: Sequence, now_ms: u64) {
        self.known.reset(at, now_ms);
        match &mut self.search {
            Some(search) => reader.restart(search),
            None => self.search = Some(reader.new_search()),
        }
        self.state = Some(reader.state());
        self.missing.clear();
        self.asked.clear();
        self.waits = false;
    }

    /// Forgets where it was begun: the next poll begins again.
    pub fn leave(&mut self) {
        self.state = None;
    }

    /// Returns whether it was begun in the state that `reader` sees: only there can it go on.
    #[must_use]
    pub fn is_of<R: Reader<Search = S>>(&self, reader: &R) -> bool {
        self.state == Some(reader.state())
    }

    /// Returns what is known, to be fed; [`Course::suspend`] takes it back.
    pub fn resume<'op>(&mut self, operator: Option<&'op dyn Operator>) -> Gather<'op> {
        Gather {
            operator,
            known: std::mem::take(&mut self.known),
        }
    }

    /// Takes back what is known.
    pub fn suspend(&mut self, gather: Gather<'_>) {
        debug_assert!(!gather.is_decided(), "L2: what is decided is not polled again");
        self.known = gather.known;
    }

    /// Returns the nodes without which it cannot go on.
    #[must_use]
    pub fn missing(&self) -> &[NodePointer] {
        &self.missing
    }

    /// Notes that the missing nodes were asked for. If some were skipped, the lookup waits for them
    /// when it goes on.
    pub fn asked(&mut self, pending: &Pending) {
        debug_assert!(self.state.is_some(), "L3: only what was begun misses nodes");
        self.waits = pending.skipped() > 0;
        self.asked.append(&mut self.missing);
    }

    /// Feeds the lookup as far as what is in memory leads. When it is pending,
    /// [`Course::missing`] says what it needs.
    ///
    /// # Errors
    /// As the device says; damage.
    ///
    /// # Panics
    /// When it was begun in another state.
    pub fn advance<R: Reader<Search = S>>(
        &mut self,
        reader: &R,
        key: Key<'_>,
        gather: &mut Gather<'_>,
    ) -> Poll<Result<()>> {
        assert!(
            self.is_of(reader),
            "a course goes on in the state that it was begun in"
        );
        let search = self.search.as_mut().expect("it was begun");
        let from = reader.nodes();
        let mut brought = Brought::default();
        while !gather.is_decided() {
            let fetch = Peeking::new(from, &brought);
            if let Poll::Ready(done) = reader.search(key, gather, search, &fetch) {
                reader.ended(key);
                return Poll::Ready(done);
            }
            let missing = fetch.into_missing();
            // A node that was asked for and is missing again has failed, or was evicted before it
            // was looked at: waiting for it gives the node, or the error. No node is asked for
            // twice, so that this comes to an end.
            self.waits |= missing.iter().any(|pointer| self.asked.contains(pointer));
            if !self.waits {
                self.missing = missing;
                return Poll::Pending;
            }
            brought.wait(from, missing)?;
        }
        Poll::Ready(Ok(()))
    }
}
