//! Non-blocking point lookups. One thread can poll many of them.

use super::reader::TreeReader;
use super::search::TreeSearch;
use crate::tiered::trunk::Trunk;
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::contract::LookupReader as _;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup::LookupCursor;
use alluvium_dictionary::lookup_state::LookupValue;
use alluvium_dictionary::memtables::{MemtableOwner, above};
use alluvium_storage::{CacheRetention, PendingReads, Result};
use std::fmt;
use std::sync::Arc;
use std::task::Poll;

/// A lookup of one key that the caller polls. Nodes missing from the cache are read in the
/// background between calls.
///
/// Between calls, the lookup pins neither a version nor a memtable. If the tree has changed in the
/// meantime, the lookup starts over and finds most of its nodes in the cache. It blocks on I/O only
/// in rare cases: for a value or node longer than a standard node, for data that does not fit in
/// the cache, and for nodes evicted before the lookup used them.
///
/// ```
/// # use alluvium_base::{Message, message::MAX_SEQUENCE};
/// # use alluvium_device::memory::MemoryDirectory;
/// # use alluvium_storage::extents::AllocationClass;
/// # use alluvium_storage::store::{Store, StoreOptions};
/// # use alluvium_dictionary::memtable::Memtable;
/// # use alluvium_trees::tiered::{TieredTree, TreeOptions};
/// # use std::sync::Arc;
/// use alluvium_trees::tiered::PolledTreeLookup;
/// use std::task::Poll;
/// # let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
/// # let tree = TieredTree::create(Arc::new(store), TreeOptions::default());
/// # let memtable = Memtable::new(1 << 20);
/// # memtable.insert(b"river", Message::put(1, b"Elbe")).unwrap();
/// # tree.incorporate(Arc::new(memtable), 1, AllocationClass::Normal)?.poll(usize::MAX)?;
/// let lookups = [b"river", b"lakes"].map(|key| tree.lookup(key, MAX_SEQUENCE, 0));
/// let mut lookups: Vec<PolledTreeLookup> = lookups.into();
/// let mut found = Vec::new();
/// while !lookups.is_empty() {
///     lookups.retain_mut(|lookup| match lookup.poll() {
///         Poll::Ready(answer) => {
///             found.extend(answer.expect("memory does not fail"));
///             false
///         }
///         Poll::Pending => true,
///     });
/// }
/// assert_eq!(found, [b"Elbe".to_vec()]);
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
pub struct PolledTreeLookup {
    trunk: Arc<Trunk>,
    memtables: Option<Arc<dyn MemtableOwner>>,
    key: Vec<u8>,
    at: SequenceNumber,
    now_ms: u64,
    course: LookupCursor<TreeSearch>,
    pending: Option<PendingReads>,
}

impl fmt::Debug for PolledTreeLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolledTreeLookup")
            .field("key", &self.key.escape_ascii().to_string())
            .field("at", &self.at)
            .field("pending", &self.pending)
            .finish_non_exhaustive()
    }
}

impl PolledTreeLookup {
    /// Creates a lookup of a key at sequence number `at`. It searches the tree and, if `memtables`
    /// is given, the memtables above it.
    pub(crate) fn new(
        trunk: &Arc<Trunk>,
        memtables: Option<Arc<dyn MemtableOwner>>,
        key: &[u8],
        at: SequenceNumber,
        now_ms: u64,
    ) -> PolledTreeLookup {
        PolledTreeLookup {
            trunk: Arc::clone(trunk),
            memtables,
            key: key.to_vec(),
            at,
            now_ms,
            course: LookupCursor::default(),
            pending: None,
        }
    }

    /// Starts a lookup of another key, reusing the memory of the previous one.
    pub fn reset(&mut self, key: &[u8], at: SequenceNumber, now_ms: u64) {
        self.key.clear();
        self.key.extend_from_slice(key);
        (self.at, self.now_ms) = (at, now_ms);
        self.course.leave();
        self.pending = None;
    }

    /// Continues the lookup as far as possible without I/O, and then requests the missing nodes.
    /// Once the result is known, returns the value, or `None` if the key has none. Polling again
    /// after a result or an error restarts the lookup from the beginning.
    ///
    /// # Errors
    /// I/O errors, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
    pub fn poll(&mut self) -> Poll<Result<LookupValue>> {
        loop {
            if let Some(pending) = &mut self.pending
                && !pending.poll()
            {
                return Poll::Pending;
            }
            self.pending = None;
            let answer = self.go_on();
            if answer.is_ready() {
                self.course.leave();
                return answer;
            }
        }
    }

    /// Polls until the result is known, and waits for the requested nodes between polls.
    ///
    /// # Errors
    /// See [`PolledTreeLookup::poll`].
    pub fn wait(&mut self) -> Result<LookupValue> {
        loop {
            if let Some(pending) = &mut self.pending {
                pending.wait();
            }
            if let Poll::Ready(answer) = self.poll() {
                return answer;
            }
        }
    }

    /// Continues the lookup. If this returns `Poll::Pending`, the missing nodes have been
    /// requested.
    fn go_on(&mut self) -> Poll<Result<LookupValue>> {
        debug_assert!(self.pending.is_none(), "what was asked for is waited for");
        let trunk = Arc::clone(&self.trunk);
        let rules = trunk.options.schema.rules(&self.key);
        let operator = rules.operator.as_deref();
        // A memtable that leaves the list from now on has been flushed into the version that is
        // read below.
        let list = self.memtables.as_ref().map(|memtables| memtables.newest_first());
        let reader = TreeReader::new(&trunk);
        let is_new = !self.course.is_of(&reader);
        if is_new {
            self.course.begin(&reader, self.at, self.now_ms);
        }
        let key = LookupKey::new(&self.key);
        let mut gather = self.course.resume(operator);
        if is_new {
            for memtable in above(list.as_ref(), reader.cut(), self.at) {
                gather.memtable(memtable, key);
            }
        }
        match self.course.advance(&reader, key, &mut gather) {
            Poll::Ready(Ok(())) => Poll::Ready(gather.answer(&self.key)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                self.course.suspend(gather);
                let cache = trunk.store.cache();
                let pending = cache.request(self.course.missing(), Purpose::Lookup, CacheRetention::Keep)?;
                self.course.asked(&pending);
                self.pending = Some(pending);
                Poll::Pending
            }
        }
    }
}
