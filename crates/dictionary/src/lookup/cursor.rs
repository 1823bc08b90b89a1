//! Non-blocking lookups. A caller can run many of them on one thread and poll each in turn.

use super::LookupReader;
use crate::fetch::{FetchedNodes, NonBlockingFetch};
use crate::key::LookupKey;
use crate::lookup_state::{KeyState, LookupState};
use crate::merge::MergeOperator;
use alluvium_base::SequenceNumber;
use alluvium_storage::{NodePointer, PendingReads, Result};
use std::task::Poll;

/// The progress of a non-blocking lookup between two polls: what is already known about the key,
/// and the position of the search.
///
/// A cursor keeps neither a version of the dictionary nor a memtable alive. If the dictionary has
/// changed between two polls, the lookup restarts; it then finds most of its nodes in the cache.
///
/// ```text
///   loop   take a reader; of another state than the cursor's? begin again: begin, memtables, ...
///          LookupCursor::advance(reader, key, gather)      ready: done
///          otherwise bring LookupCursor::missing()         Cache::request, or request_each for many
///          tell LookupCursor::asked() what became of it
/// ```
///
/// A poll blocks only in three rare cases: for a value that is longer than a node, for a node that
/// does not fit in the cache, and for a node that was evicted before the lookup continued.
#[derive(Debug)]
pub struct LookupCursor<S> {
    known: KeyState,
    /// The position of the search; `None` before the lookup is started for the first time.
    search: Option<S>,
    /// Number of the dictionary version that is being searched; `None` if the lookup must restart.
    state: Option<u64>,
    /// Nodes that the lookup needs and that are not in the cache.
    missing: Vec<NodePointer>,
    /// Nodes that have been requested since the lookup was last started.
    asked: Vec<NodePointer>,
    /// Whether the lookup blocks on missing nodes. It does so if some nodes could not be requested.
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
    /// number `at`. The allocated memory of the cursor is reused.
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

    /// Detaches the lookup from the dictionary version that it searches. It must then be restarted.
    pub fn leave(&mut self) {
        self.state = None;
    }

    /// Returns whether the lookup was started in the version of `reader`. It can continue only in
    /// that version.
    #[must_use]
    pub fn is_of<R: LookupReader<Search = S>>(&self, reader: &R) -> bool {
        self.state == Some(reader.state())
    }

    /// Moves the lookup state of the key out of the cursor, so that messages can be added to it.
    /// The caller must move it back with [`LookupCursor::suspend`].
    pub fn resume<'op>(&mut self, operator: Option<&'op dyn MergeOperator>) -> LookupState<'op> {
        LookupState {
            operator,
            known: std::mem::take(&mut self.known),
        }
    }

    /// Moves the lookup state obtained from [`LookupCursor::resume`] back into the cursor.
    pub fn suspend(&mut self, gather: LookupState<'_>) {
        debug_assert!(!gather.is_decided(), "L2: what is decided is not polled again");
        self.known = gather.known;
    }

    /// Returns the nodes for which the lookup is waiting.
    #[must_use]
    pub fn missing(&self) -> &[NodePointer] {
        &self.missing
    }

    /// Notifies the cursor that its missing nodes were requested. If the request skipped some of
    /// them, the lookup will block on these nodes when it continues.
    pub fn asked(&mut self, pending: &PendingReads) {
        debug_assert!(self.state.is_some(), "L3: only what was begun misses nodes");
        self.waits = pending.skipped() > 0;
        self.asked.append(&mut self.missing);
    }

    /// Continues the lookup as far as possible with the nodes in memory. If the result is
    /// `Pending`, [`LookupCursor::missing`] returns the nodes that are required next.
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
            // If a node was requested and is missing again, then it could not be read or it was
            // evicted before it was used. A blocking read then returns either the node or the
            // error. Because no node is requested twice, the loop terminates.
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
