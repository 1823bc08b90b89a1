//! Non-blocking lookups, of which a caller can poll many on one thread.

use super::LookupReader;
use crate::fetch::{FetchedNodes, NonBlockingFetch};
use crate::key::LookupKey;
use crate::lookup_state::{KeyState, LookupState};
use crate::merge::MergeOperator;
use alluvium_base::SequenceNumber;
use alluvium_storage::{NodePointer, PendingReads, Result};
use std::task::Poll;

/// State of a polled lookup between two polls: what is known about the key, and the position of its
/// search.
///
/// It holds neither a state of the dictionary nor a memtable. If the dictionary has changed, the
/// lookup restarts and finds most of the nodes it needs in the cache.
///
/// ```text
///   loop   take a reader; of another state than the cursor's? begin again: begin, memtables, ...
///          LookupCursor::advance(reader, key, gather)      ready: done
///          otherwise bring LookupCursor::missing()         Cache::request, or request_each for many
///          tell LookupCursor::asked() what became of it
/// ```
///
/// A poll blocks only in rare cases: for a value longer than a node, for a node that does not fit
/// in the cache, and for a node that was evicted before the lookup continued.
#[derive(Debug)]
pub struct LookupCursor<S> {
    known: KeyState,
    /// `None` until the first start.
    search: Option<S>,
    /// Number of the state being searched; `None` if the lookup must restart.
    state: Option<u64>,
    /// Nodes missing from the cache.
    missing: Vec<NodePointer>,
    /// Nodes requested so far in this state.
    asked: Vec<NodePointer>,
    /// Whether the lookup blocks on missing nodes, because not all of them could be requested.
    waits: bool,
}

impl<S> Default for LookupCursor<S> {
    fn default() -> LookupCursor<S> {
        LookupCursor {
            known: KeyState::default(),
            search: None,
            state: None,
            missing: Vec::new(),
            asked: Vec::new(),
            waits: false,
        }
    }
}

impl<S> LookupCursor<S> {
    /// Restarts the lookup in the state of `reader` and keeps the allocated memory.
    pub fn begin<R: LookupReader<Search = S>>(&mut self, reader: &R, at: SequenceNumber, now_ms: u64) {
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

    /// Detaches the lookup from its state, so that the next poll restarts it.
    pub fn leave(&mut self) {
        self.state = None;
    }

    /// Returns whether the lookup began in the state of `reader`. It can continue only there.
    #[must_use]
    pub fn is_of<R: LookupReader<Search = S>>(&self, reader: &R) -> bool {
        self.state == Some(reader.state())
    }

    /// Takes the state of the key, to add messages. [`LookupCursor::suspend`] returns it.
    pub fn resume<'op>(&mut self, operator: Option<&'op dyn MergeOperator>) -> LookupState<'op> {
        LookupState {
            operator,
            known: std::mem::take(&mut self.known),
        }
    }

    /// Returns the state of the key taken by [`LookupCursor::resume`].
    pub fn suspend(&mut self, gather: LookupState<'_>) {
        debug_assert!(!gather.is_decided(), "L2: what is decided is not polled again");
        self.known = gather.known;
    }

    /// Returns the nodes that the lookup is waiting for.
    #[must_use]
    pub fn missing(&self) -> &[NodePointer] {
        &self.missing
    }

    /// Records that the missing nodes were requested. If some were skipped, the lookup blocks on
    /// them when it continues.
    pub fn asked(&mut self, pending: &PendingReads) {
        debug_assert!(self.state.is_some(), "L3: only what was begun misses nodes");
        self.waits = pending.skipped() > 0;
        self.asked.append(&mut self.missing);
    }

    /// Continues the lookup as far as possible with nodes in memory. If it is pending,
    /// [`LookupCursor::missing`] lists the nodes it needs.
    ///
    /// # Errors
    /// I/O errors; damage.
    ///
    /// # Panics
    /// If the lookup began in another state.
    pub fn advance<R: LookupReader<Search = S>>(
        &mut self,
        reader: &R,
        key: LookupKey<'_>,
        gather: &mut LookupState<'_>,
    ) -> Poll<Result<()>> {
        assert!(
            self.is_of(reader),
            "a course goes on in the state that it was begun in"
        );
        let search = self.search.as_mut().expect("it was begun");
        let from = reader.nodes();
        let mut brought = FetchedNodes::default();
        while !gather.is_decided() {
            let fetch = NonBlockingFetch::new(from, &brought);
            if let Poll::Ready(done) = reader.search(key, gather, search, &fetch) {
                reader.ended(key);
                return Poll::Ready(done);
            }
            let missing = fetch.into_missing();
            // A node that was requested and is missing again could not be read, or was evicted
            // before use. A blocking read returns the node or the error. No node is requested
            // twice, so the loop terminates.
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
