//! Non-blocking lookups, many of which a caller can run on one thread, polling each in turn.

use super::LookupReader;
use crate::fetch::{FetchedNodes, NonBlockingFetch};
use crate::key::LookupKey;
use crate::lookup_state::{KeyState, LookupState};
use crate::merge::MergeOperator;
use alluvium_base::SequenceNumber;
use alluvium_storage::{NodePointer, PendingReads, Result};
use std::task::Poll;

/// The progress of a non-blocking lookup between two polls: the state of the key and the position
/// of the search.
///
/// A cursor keeps neither a dictionary version nor a memtable alive. If the dictionary has changed
/// between two polls, the lookup restarts, and then finds most of its nodes in the cache.
///
/// ```text
///   loop   take a reader; of another state than the cursor's? begin again: begin, memtables, ...
///          LookupCursor::advance(reader, key, gather)      ready: done
///          otherwise bring LookupCursor::missing()         Cache::request, or request_each for many
///          tell LookupCursor::asked() what became of it
/// ```
///
/// A poll blocks only in three rare cases: if a value is longer than a node, if a node does not fit
/// in the cache, or if a node was evicted before the lookup continued.
#[derive(Debug)]
pub struct LookupCursor<S> {
    known: KeyState,
    /// The position of the search, or `None` before the lookup is first started.
    search: Option<S>,
    /// The dictionary version that is being searched, or `None` if the lookup must restart.
    state: Option<u64>,
    /// Nodes that the lookup needs and that are not in the cache.
    missing: Vec<NodePointer>,
    /// Nodes that have been requested since the lookup last started.
    asked: Vec<NodePointer>,
    /// Whether the lookup blocks on missing nodes, because some nodes could not be requested.
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
    /// Starts or restarts the lookup in the version of `reader`, for a reader at the sequence
    /// number `at`. Reuses the cursor's memory.
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

    /// Detaches the lookup from its dictionary version. It must restart before it can continue.
    pub fn leave(&mut self) {
        self.state = None;
    }

    /// Returns whether the lookup was started in the version of `reader`, because it can continue
    /// only there.
    #[must_use]
    pub fn is_of<R: LookupReader<Search = S>>(&self, reader: &R) -> bool {
        self.state == Some(reader.state())
    }

    /// Moves the lookup state of the key out of the cursor, so that messages can be added to it.
    /// [`LookupCursor::suspend`] must move it back.
    pub fn resume<'op>(&mut self, operator: Option<&'op dyn MergeOperator>) -> LookupState<'op> {
        LookupState {
            operator,
            known: std::mem::take(&mut self.known),
        }
    }

    /// Moves the lookup state from [`LookupCursor::resume`] back into the cursor.
    pub fn suspend(&mut self, gather: LookupState<'_>) {
        debug_assert!(!gather.is_decided(), "L2: what is decided is not polled again");
        self.known = gather.known;
    }

    /// Returns the nodes that the lookup is waiting for.
    #[must_use]
    pub fn missing(&self) -> &[NodePointer] {
        &self.missing
    }

    /// Tells the cursor that its missing nodes were requested. If the request skipped any of them,
    /// the lookup blocks on them when it continues.
    pub fn asked(&mut self, pending: &PendingReads) {
        debug_assert!(self.state.is_some(), "L3: only what was begun misses nodes");
        self.waits = pending.skipped() > 0;
        self.asked.append(&mut self.missing);
    }

    /// Continues the lookup as far as the nodes in memory allow. If the result is `Pending`,
    /// [`LookupCursor::missing`] returns the nodes that are needed next.
    ///
    /// # Errors
    /// I/O errors; damage.
    ///
    /// # Panics
    /// If the lookup was started in a different version of the dictionary.
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
            // A node that was requested and is missing again either could not be read or was
            // evicted before it was used. A blocking read returns the node or the error. No node is
            // requested twice, so the loop terminates.
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
